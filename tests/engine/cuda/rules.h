#pragma once
// The rule of every type and operation, as the kernels choose it.
#include <utility>

#include "engine/cuda/fold_rules.h"

namespace horing::test {

// For<Rule>::value for a type and an operation; null where there is none.
template <template <class> class For, int... kTypes>
auto ruleFor(DataType type, RedOp op, std::integer_sequence<int, kTypes...>) {
  static constexpr std::array rows{cuda::ruleRow<For, static_cast<DataType>(kTypes)>()...};
  return rows[static_cast<size_t>(type)][static_cast<size_t>(op)];
}
template <template <class> class For>
auto ruleFor(DataType type, RedOp op) {
  return ruleFor<For>(type, op, std::make_integer_sequence<int, kDataTypes>());
}

}  // namespace horing::test
