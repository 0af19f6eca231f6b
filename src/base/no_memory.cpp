#include "base/no_memory.h"

namespace horing {

const Status& noMemory() {
  static const auto* const status =
      new Status(Code::kSystemError, "no memory");  // never destroyed: threads may end later than statics
  return *status;
}

}  // namespace horing
