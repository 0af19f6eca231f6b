#pragma once
// Running out of memory as an ordinary error.
#include <type_traits>

#include "base/status.h"

namespace horing {

// The error for running out of memory. The first call allocates its text, so make it while memory is available.
const Status& noMemory();

// The result of body() (ok if it returns void), or noMemory() if it throws: for threads of the library, and for operations that have begun
// and must end.
template <typename Body>
Status withoutExceptions(Body body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return {};
    } else {
      return body();
    }
  } catch (...) {
    return noMemory();
  }
}

}  // namespace horing
