#pragma once
// One function object of several, for std::visit: a variant's alternative that none of them takes does not compile.

namespace horing {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
// clang 14 needs it.
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace horing
