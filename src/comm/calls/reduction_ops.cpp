#include "comm/calls/reduction_ops.h"

#include <atomic>

namespace horing {

int ReductionOps::nextNumber() {
  static std::atomic<uint32_t> given_out{0};
  constexpr uint32_t kNumbers = kLast - kFirst + 1;
  return kFirst + static_cast<int>(given_out.fetch_add(1, std::memory_order_relaxed) % kNumbers);
}

Status ReductionOps::isNone(int number) {
  return makeStatus(Code::kInvalidArgument,
                    "op is %d, no live operation of this communicator: expected what "
                    "horingRedOpCreatePreMulSum gave for it, until horingRedOpDestroy",
                    number);
}

Result<int> ReductionOps::add(const PreMulSum& op) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (live_.size() >= kMaxReductionOps)
    return makeStatus(Code::kInvalidUsage,
                      "%zu reduction operations exist, which is the limit: release unused ones with "
                      "horingRedOpDestroy",
                      live_.size());
  int number = nextNumber();
  while (!live_.emplace(number, op).second) number = nextNumber();
  return number;
}

Status ReductionOps::remove(int number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return live_.erase(number) == 1 ? Status() : isNone(number);
}

Result<PreMulSum> ReductionOps::find(int number) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = live_.find(number);
  if (found == live_.end()) return isNone(number);
  return found->second;
}

void ReductionOps::clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  live_.clear();
}

}  // namespace horing
