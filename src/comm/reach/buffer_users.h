#pragma once
// The ranks of one communicator that are threads of this process, while they may touch each other's buffers.
//
// Whose call failed gets its buffers back, and may free them, while another rank still reads there. So it says that it has given up,
// which ends the calls of the others soon, and waits until none of them is inside. Between processes there is no need: what a
// peer has mapped stays.
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
  // One for all ranks of this process in the communicator of that name, as long as one of them holds it.
  static std::shared_ptr<BufferUsers> of(const JobId& communicator);

  // From before a rank tells where its buffers lie until it touches those of others no more.
  class Inside {
   public:
    // seq_cst: who gives up sees this one inside, or this one sees that it gave up.
    explicit Inside(BufferUsers& users) : users_(users) { users_.inside_.fetch_add(1); }
    // release: pairs with giveUp(), whose caller frees what was read.
    ~Inside() { users_.inside_.fetch_sub(1, std::memory_order_release); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    BufferUsers& users_;
  };

  // To be looked at inside, now and then: who finds an error leaves. It is the first of those who gave up, and so what everybody is to
  // hear, whoever tells the others first.
  Status givenUp() const;
  // For good, by who is not inside. False: somebody still was at the deadline.
  bool giveUp(const Status& why, Deadline deadline);

 private:
  mutable std::mutex mutex_;
  Status why_;
  std::atomic<uint32_t> inside_{0};
  std::atomic<bool> given_up_{false};
};

}  // namespace horing
