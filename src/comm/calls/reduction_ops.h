#pragma once
// The reduction operations that users made for a communicator (horingRedOpCreatePreMulSum), by number.
#include <map>
#include <mutex>

#include "base/status.h"
#include "engine/host/fold.h"

namespace horing {

inline constexpr size_t kMaxReductionOps = 65536;  // of one communicator

// A sum of inputs, each multiplied by a scalar.
struct PreMulSum {
  DataType type = DataType::kFloat32;
  Factor factor;
  const void* factor_at = nullptr;  // if not null, the factor is there when an operation begins
};

// Thread safe. No communicator of the process reuses a number before all others have been used: so a stale number, or another
// communicator's, is detected.
class ReductionOps {
 public:
  Result<int> add(const PreMulSum& op);
  Status remove(int number);
  Result<PreMulSum> find(int number) const;
  void clear();

  static bool mayHave(int number) { return number >= kFirst; }

 private:
  static constexpr int kFirst = 0x20000000;  // beyond the numbers of NCCL and redOpNumber()
  static constexpr int kLast = 0x7ffffffe;
  static int nextNumber();
  static Status isNone(int number);

  mutable std::mutex mutex_;
  std::map<int, PreMulSum> live_;
};

}  // namespace horing
