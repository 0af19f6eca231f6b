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
  std::string job = "job";  // part of file names; other characters than letters and digits become '_'
  int rank = 0;
  const Clock* clock = nullptr;  // must outlive the transport; for the interval of liveness checks
  Log log = Log();
  // Slots get their memory when they are first used if the directory has so much more room than all of them may take. Else they get it when
  // their link is made, which can then turn to memory elsewhere.
  uint64_t ample_bytes = uint64_t{4} << 30;
};

// Publishes this rank in the directory. Fails if the directory cannot be used, with its name and the cause.
//
// Removes files of killed jobs of the same user from the directory. Besides the contract of Transport: a peer whose process has died makes
// its link fail with kRemoteError, found within about kShmLivenessMs of progress() or beginWait() calls.
Result<std::unique_ptr<Transport>> makeShmTransport(const ShmOptions& options);

inline constexpr int64_t kShmLivenessMs = 100;

// What a rank takes of the directory: for itself, if it is a process of its own, and for its end of a link.
uint64_t shmRankBytes();
uint64_t shmLinkBytes(const LinkShape& shape);

// Removes files of killed processes of this user from the directory; returns their number. Every new transport does so; this function is
// for a launcher, after its last rank has ended.
int removeShmLeftovers(const std::string& directory);

}  // namespace horing
