#pragma once
// What a horingComm_t points to, and the guard that every entry point passes.
#include <memory>

#include "base/status.h"
#include "comm/communicator.h"
#include "comm/root_service.h"
#include "horing/horing.h"

struct horingComm {
  // Tells a live handle from a stale or foreign pointer, as far as that can be told.
  static constexpr uint64_t kAlive = 0x686f72696e676331;
  uint64_t alive = kAlive;
  std::unique_ptr<horing::RootService>
      root;  // where this rank hosts the rendezvous; outlives the communicator
  std::unique_ptr<horing::Communicator> communicator;
};

namespace horing {

// Remembers the text of the calling thread's latest failure and, if given, of the communicator's.
horingResult_t report(const Status& status, horingComm_t comm = nullptr);
// As report(), for code that may run out of memory: no exception leaves the library.
template <typename Body>
horingResult_t guarded(horingComm_t comm, Body body) noexcept {
  try {
    return report(body(), comm);
  } catch (...) {
    return horingSystemError;
  }
}
// The handle is alive and belongs to this process.
Status checkHandle(horingComm_t comm);
void forgetErrors(horingComm_t comm);

}  // namespace horing
