#include "comm/progress/background.h"

#include <algorithm>

namespace horing {

bool Background::poll(Covers by_operation) {
  if (by_operation == Covers::kAllMessages) return false;
  if (TaggedExchange* const messages = tagged()) return messages->poll();
  return by_operation == Covers::kNone && parts_.messages.listens() && parts_.messages.poll();
}

TaggedExchange* Background::tagged() {
  // acquire: pairs with the release in setSource().
  MessageSource* const source = source_.load(std::memory_order_acquire);
  if (!source || !source->isOwnThread()) return nullptr;
  if (!tagged_) {
    waiter_.watch(source->wakeFd());
    tagged_ = std::make_unique<TaggedExchange>(parts_, *source);
  }
  return tagged_.get();
}

bool Background::waitsForRoom() const {
  if (!parts_.messages.listens()) return false;
  const PeerWaits waits = parts_.messages.waits();
  return std::ranges::any_of(waits.all(), &PeerWait::for_room);
}

}  // namespace horing
