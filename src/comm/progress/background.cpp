#include "comm/progress/background.h"

#include <algorithm>

namespace horing {

bool Background::poll(Covers by_operation) {
  if (by_operation == Covers::kAllMessages) return false;
  if (ExchangeBeside* const messages = exchange()) return messages->poll();
  return by_operation == Covers::kNone && parts_.messages.listens() && parts_.messages.poll();
}

ExchangeBeside* Background::exchange() {
  if (!isThreadOfMessages()) return nullptr;
  if (!exchange_) {
    MessageSource& source = *source_.load(std::memory_order_relaxed);
    wake_place_ = waiter_.watch(source.wakeFd());
    exchange_ = std::make_unique<ExchangeBeside>(parts_, source);
  }
  return exchange_.get();
}

void Background::dropSource() {
  source_.store(nullptr, std::memory_order_relaxed);
  if (!exchange_) return;
  waiter_.replace(wake_place_, -1);
  exchange_.reset();
}

bool Background::waitsForRoom() const {
  if (!parts_.messages.listens()) return false;
  const PeerWaits waits = parts_.messages.waits();
  return std::ranges::any_of(waits.all(), &PeerWait::for_room);
}

}  // namespace horing
