#pragma once
// Ranks as processes of one node: slots in shared memory, doorbells over FIFOs.
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/transport.h"

namespace horing {

inline constexpr size_t kMaxShmJobBytes = 32;

struct ShmOptions {
  std::string directory = "/dev/shm";  // absolute
  std::string job = "job";             // part of file names; what is not a letter or digit becomes '_'
  int rank = 0;
  const Clock* clock = nullptr;  // must outlive the transport; for how often peers are checked to be alive
  Log log = Log();
};

// Makes this rank known in the directory. Fails when the directory cannot be used, naming it and why.
//
// Files of jobs that were killed are removed from the directory (those of the same user whose creator is
// gone). Besides the contract of Transport: a peer whose process has died makes its link fail with
// kRemoteError, found within about kShmLivenessMs of progress() or beginWait() calls.
Result<std::unique_ptr<Transport>> makeShmTransport(const ShmOptions& options);

inline constexpr int64_t kShmLivenessMs = 100;

// Removes what killed processes of this user left in the directory; how many files. Every new transport does so; this is
// for a launcher, after its last rank has ended.
int removeShmLeftovers(const std::string& directory);

}  // namespace horing
