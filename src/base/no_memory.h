#pragma once
// Running out of memory as an error like others.
#include <type_traits>

#include "base/status.h"

namespace horing {

// Why something failed that ran out of memory. Its text is made with the first call, while there is some.
const Status& noMemory();

// What body() returns, ok where that is nothing, or noMemory() where it throws: for threads of the library, and where something has begun that
// must end.
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
