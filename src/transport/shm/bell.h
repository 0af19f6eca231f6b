#pragma once
// A doorbell that several ranks of one process share, and the proof for peers that the process still runs.
//
// A process may have hundreds of communicators, each with links to the same few processes. Descriptors for each link would be thousands;
// with shared bells a process has two descriptors for each process that it is linked to.
//
// A bell is a FIFO on which threads block, and a presence file, which stays locked as long as the process runs. A ring wakes all threads
// that block on the bell; each checks its rank's flag (DoorbellFlag), which says whether the ring was for that rank. Ranks of one
// communicator have different bells, so few threads wake for nothing.
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "transport/shm/directory.h"
#include "transport/slots/doorbell.h"

namespace horing {

// A bell of this process. Any thread.
class ShmBell {
 public:
  static Result<std::shared_ptr<ShmBell>> make(const std::string& directory);

  // The stem of the bell's file names (directory.h).
  const std::string& stem() const { return stem_; }
  // The descriptor on which to block. The first call opens it.
  Result<int> open();
  // The rank with this flag is about to block; it has stopped blocking. `flag` must stay valid in between.
  void beginWait(DoorbellFlag* flag);
  void endWait(DoorbellFlag* flag);

 private:
  friend class ShmBellShare;
  ShmBell(std::string stem, ShmFile presence, OwnedName name)
      : stem_(std::move(stem)), presence_(std::move(presence)), name_(std::move(name)) {}
  // Some systems clear a user's shared memory away when the user logs out.
  bool isThere() const;
  // Whether a ring was for a waiting rank that has not noticed it yet.
  bool isForSomebody() const;

  std::string stem_;
  ShmFile presence_;  // removed last, as that of a rank
  OwnedName name_;
  std::set<std::string> jobs_;  // of the ranks that share the bell; under the mutex of all bells
  std::mutex mutex_;            // protects the members below
  Fd fd_;
  std::vector<DoorbellFlag*> waiting_;
};

// A rank's share of a bell. Ranks of one job never share a bell.
class ShmBellShare {
 public:
  static Result<ShmBellShare> take(const std::string& directory, const std::string& job);
  ShmBellShare(ShmBellShare&&) noexcept = default;
  ShmBellShare& operator=(ShmBellShare&&) = delete;
  ~ShmBellShare();

  ShmBell& bell() const { return *bell_; }

 private:
  ShmBellShare(std::shared_ptr<ShmBell> bell, std::string job)
      : bell_(std::move(bell)), job_(std::move(job)) {}

  std::shared_ptr<ShmBell> bell_;
  std::string job_;
};

// The bell of another process, opened once in this one. Any thread.
class ShmPeerBell {
 public:
  static Result<std::shared_ptr<const ShmPeerBell>> open(const std::string& directory,
                                                         const std::string& stem);

  // Never blocks, never raises SIGPIPE.
  int fd() const { return bell_.get(); }
  // Whether no rank uses the bell any longer: its ranks have left, or their process has ended.
  bool isAbandoned() const { return ownerIsGone(lock_.get()); }

 private:
  Fd lock_;  // the presence file, kept open to ask for its owner's lock
  Fd bell_;
};

}  // namespace horing
