#include "horing_paro/measure/step_by_hand.h"

#include <bit>
#include <cstring>

namespace horing::paro {

namespace {

struct Bfloat16 {
  uint16_t bits;
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  Bfloat16& operator=(float value) {
    const uint32_t wide = std::bit_cast<uint32_t>(value);
    bits = static_cast<uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
    return *this;
  }
};

template <typename T>
void add(char* sum, const char* added, size_t bytes) {
  auto* const to = reinterpret_cast<T*>(sum);
  const auto* const from = reinterpret_cast<const T*>(added);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) to[i] = to[i] + from[i];
}

}  // namespace

void StepByHand::addUp(const char* reduced, size_t bytes, bool is_first) {
  if (is_first)
    std::memcpy(sum_.data(), reduced, bytes);
  else if (type_ == horingFloat64)
    add<double>(sum_.data(), reduced, bytes);
  else if (type_ == horingFloat32)
    add<float>(sum_.data(), reduced, bytes);
  else
    add<Bfloat16>(sum_.data(), reduced, bytes);
}

Status StepByHand::microStep(bool is_first) {
  std::memset(gradient_.data(), 0, gradient_.size());
  Part reduced{gradient_.data(), gradient_.size()};
  for (int i = 0; i < estimate_.numOperations; ++i) {
    const horingParoOperation_t& operation = estimate_.operations[i];
    if (operation.phase == horingParoPhaseGather) {
      for (int time = 0; time < 2; ++time)
        HORING_TRY(
            scopes_.allGather(operation.scope, shard_.data(), {gathered_.data(), operation.bytes}, type_));
    } else if (operation.phase == horingParoPhaseReduce) {
      HORING_ASSIGN(reduced,
                    scopes_.reduceScatter(operation.scope, {gradient_.data(), operation.bytes}, type_));
    }
  }
  addUp(reduced.data, reduced.bytes, is_first);
  return {};
}

Status StepByHand::run(int micro_steps) {
  for (int i = 0; i < micro_steps; ++i) HORING_TRY(microStep(i == 0));
  for (int i = 0; i < estimate_.numOperations; ++i) {
    const horingParoOperation_t& operation = estimate_.operations[i];
    if (operation.phase == horingParoPhaseSyncGrads)
      HORING_TRY(scopes_.run(operation.scope, operation.collective, {sum_.data(), operation.bytes}, type_));
    if (operation.phase == horingParoPhaseSyncParams)
      HORING_TRY(
          scopes_.run(operation.scope, operation.collective, {gathered_.data(), operation.bytes}, type_));
  }
  return {};
}

}  // namespace horing::paro
