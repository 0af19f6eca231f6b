#pragma once
// Shared by the ranks of one process towards their peers: a doorbell, and the proof that their process lives.
//
// A process may have hundreds of communicators, with a rank and links to the same few processes in each. Descriptors for each link
// would be thousands; with this a process has two for each process that it is linked to.
//
// A bell is a FIFO on which threads block, next to a presence file, which stays locked as long as the process lives. A rank's flag
// (DoorbellFlag) shows that the ring was for it: its thread, and others that block on the bell meanwhile, wake and check. Ranks of
// one communicator have different bells, so the others are few.
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

  // Of its files.
  const std::string& stem() const { return stem_; }
  // The descriptor on which to block, opened for the first that asks.
  Result<int> open();
  // The rank whose flag this is will block, or has done so. `flag` stays where it is in between.
  void beginWait(DoorbellFlag* flag);
  void endWait(DoorbellFlag* flag);

 private:
  friend class ShmBellShare;
  ShmBell(std::string stem, ShmFile presence, OwnedName name)
      : stem_(std::move(stem)), presence_(std::move(presence)), name_(std::move(name)) {}
  // Some systems clear a user's shared memory away when the user logs out.
  bool isThere() const;
  // Whether a waiting rank was rung and has not noticed yet.
  bool isForSomebody() const;

  std::string stem_;
  ShmFile presence_;  // removed last, as that of a rank
  OwnedName name_;
  std::set<std::string> jobs_;  // of the ranks that have it; under the mutex of all bells
  std::mutex mutex_;            // of what follows
  Fd fd_;
  std::vector<DoorbellFlag*> waiting_;
};

// A rank's share in a bell that no other rank of its job in this process has.
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
  // Whether no rank has it any longer: they have left, or their process has ended.
  bool isAbandoned() const { return ownerIsGone(lock_.get()); }

 private:
  Fd lock_;  // the presence file, kept open to ask for its owner's lock
  Fd bell_;
};

}  // namespace horing
