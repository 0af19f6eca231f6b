#pragma once
// Calls of messages beside operations (with tags, puts, signals and waits), which begin while others are under way, and end each by itself.
#include <cstdint>
#include <optional>
#include <span>

#include "engine/host/driven.h"
#include "engine/host/transfer.h"

namespace horing {

// One thread at a time, but for what wakes it.
class MessageSource {
 public:
  struct Call {
    std::span<const Transfer> transfers;  // until finished()
    uint64_t ticket;                      // no other call has it
  };
  virtual ~MessageSource() = default;
  // Costs next to nothing: whether another thread has added a call, or a call's end may let another begin, since the last time.
  virtual bool takeNews() = 0;
  // Costs next to nothing: whether take() may give a call without news.
  virtual bool mayHaveMore() = 0;
  virtual std::optional<Call> take() = 0;
  // How to wait for the turns of its calls, which may not wake the thread.
  virtual Pause pause() const = 0;
  // Whether this is the thread that drives messages; any other leaves them alone.
  virtual bool isOwnThread() const = 0;
  // Costs next to nothing: whether the thread that drives messages has something else to do. They then go on beside that.
  virtual bool wantsThread() const = 0;
  // The call is complete.
  virtual void finished(uint64_t ticket) = 0;
  // Becomes readable when another thread adds a call while the one that drives messages may be asleep.
  virtual int wakeFd() const = 0;
};

}  // namespace horing
