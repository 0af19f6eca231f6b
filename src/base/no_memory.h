#pragma once
// Running out of memory as an error like others.
#include "base/status.h"

namespace horing {

// Why something failed that ran out of memory. Its text is made with the first call, while there is some.
const Status& noMemory();

// What body() returns, or noMemory() where it throws: for threads of the library, and where something has begun that must end.
template <typename Body>
Status withoutExceptions(Body body) noexcept {
  try {
    return body();
  } catch (...) {
    return noMemory();
  }
}

}  // namespace horing
