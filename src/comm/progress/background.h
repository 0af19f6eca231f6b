#pragma once
// The messages that progress beside the operation that a rank drives: messages with tags, and what other ranks put and signal.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/obstacle.h"
#include "base/status.h"
#include "comm/progress/exchange_beside.h"
#include "comm/progress/message_source.h"
#include "comm/progress/waiter.h"
#include "engine/host/driven.h"

namespace horing {

// One thread at a time, the one that drives, except setSource().
class Background {
 public:
  // All must outlive it. The waiter then also wakes for the source.
  Background(const ExchangeBeside::Parts& parts, Waiter& waiter) : parts_(parts), waiter_(waiter) {}

  // Any thread, once.
  void setSource(MessageSource& source) { source_.store(&source, std::memory_order_release); }
  // Before the source goes, which has no call left.
  void dropSource();
  // Whether poll() may have something to move. Costs next to nothing.
  bool mayHaveAny() const {
    return source_.load(std::memory_order_relaxed) != nullptr || parts_.messages.listens();
  }
  // Whether this thread drives the source's calls. Any thread.
  bool isThreadOfMessages() const {
    // acquire: pairs with the release in setSource().
    const MessageSource* const source = source_.load(std::memory_order_acquire);
    return source && source->isOwnThread();
  }
  // Moves the messages that the operation does not move itself. True if there was any progress.
  bool poll(Covers by_operation);
  // As Driven::recordWaiting().
  void recordWaiting(int64_t since_ns) { parts_.messages.recordWaiting(since_ns); }
  // The error of these messages.
  const Status& status() const { return exchange_ ? exchange_->status() : parts_.messages.status(); }
  // This rank's calls of them, if this thread drives these; else null.
  ExchangeBeside* exchange();

  // The transports that they use, as bits; see Connector.
  uint32_t transports() const {
    return (exchange_ ? exchange_->transports() : 0) |
           (parts_.messages.listens() ? parts_.connector.allTransports() : 0);
  }
  // How messages of this thread wait.
  Pause pause() {
    ExchangeBeside* const messages = exchange();
    return messages ? messages->pause() : Pause::kUntilRung;
  }
  // Whether a rank with windows has messages that wait for room at their peers.
  bool waitsForRoom() const;
  // Names nobody, so that these messages are no part of a circle: peers that are asked take puts.
  Obstacle obstacle() const { return {{}, parts_.messages.obstacle().text}; }

 private:
  const ExchangeBeside::Parts parts_;
  Waiter& waiter_;
  std::atomic<MessageSource*> source_{nullptr};
  std::unique_ptr<ExchangeBeside> exchange_;  // null before the source's thread first drives
  size_t wake_place_ = 0;                     // in the waiter; with exchange_
};

}  // namespace horing
