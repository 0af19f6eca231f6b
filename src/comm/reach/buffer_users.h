#pragma once
// The ranks of one communicator that are threads of this process, while they may touch each other's buffers.
//
// When a call fails, the caller may free its buffers while another rank still reads them. So the failed rank announces that it gives up,
// which soon ends the calls of the other ranks, and waits until no rank is inside. Between processes this is not needed: memory that a peer
// has mapped stays valid.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/status.h"
#include "control/unique_id.h"

namespace horing {

// Any thread.
class BufferUsers {
 public:
  // The object shared by all ranks of this process in that communicator, as long as one of them holds it.
  static std::shared_ptr<BufferUsers> of(const JobId& communicator);

  // The scope from before a rank publishes its buffers until it no longer accesses buffers of others.
  class Inside {
   public:
    // seq_cst: either the rank that gives up sees this rank inside, or this rank sees that it gave up.
    explicit Inside(BufferUsers& users) : users_(users) { users_.inside_.fetch_add(1); }
    // release: pairs with giveUp(), whose caller frees what was read.
    ~Inside() { users_.inside_.fetch_sub(1, std::memory_order_release); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    BufferUsers& users_;
  };

  // Check this regularly inside, and leave on an error: the error of the first rank that gave up, which all ranks report.
  Status givenUp() const;
  // Permanent; called outside the scope. False: a rank was still inside at the deadline.
  bool giveUp(const Status& why, Deadline deadline);

 private:
  mutable std::mutex mutex_;
  Status why_;
  std::atomic<uint32_t> inside_{0};
  std::atomic<bool> given_up_{false};
};

}  // namespace horing
