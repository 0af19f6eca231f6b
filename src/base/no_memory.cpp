#include "base/no_memory.h"

namespace horing {

const Status& noMemory() {
  static const auto* const status =
      new Status(Code::kSystemError, "no memory");  // never destroyed: threads may outlive static destruction
  return *status;
}

}  // namespace horing
