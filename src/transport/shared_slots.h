#pragma once
// Slots in memory that both ranks access: how many slots messages use in turn, and how far away the reader's cache is.
#include <cstdint>

namespace horing {

// From this size on, a message may arrive sooner with non-temporal stores. Shorter messages arrive sooner from cache to cache.
inline constexpr uint32_t kFarBytes = 4096;

class SharedSlotsSender {
 public:
  // From the next message on, `all`: messages use all slots of LinkShape::room in turn, each the smallest that fits; otherwise as few slots
  // as possible. Costs nothing; the receiver need not know.
  virtual void roam(bool all) = 0;
  // Whether messages of kFarBytes or more should use non-temporal stores (engine/host/fold.h), because the reader's caches are far away.
  // The answer may change from message to message.
  virtual bool readerIsFar() = 0;

 protected:
  ~SharedSlotsSender() = default;
};

}  // namespace horing
