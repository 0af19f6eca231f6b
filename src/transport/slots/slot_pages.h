#pragma once
// The slots of a queue in a file with holes: each gets its memory when the sender first puts data there.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/slots/slot_queue.h"

namespace horing {

// Used by the sender. The pages of all headers are there from the beginning.
class SlotPages {
 public:
  // All slots have memory.
  SlotPages() = default;
  // Only headers have.
  static SlotPages ofHeaders(const SlotQueue& queue);

  // Gives the slot of that number, which is at `header`, memory for so many bytes of data. False: the kernel refused (populatePages).
  bool reach(const SlotQueue& queue, uint32_t slot, std::byte* header, uint32_t bytes) {
    return absent_ == 0 || isOnPageOfHeader(header, bytes) || has_all_[slot] || populate(queue, slot, header);
  }

 private:
  static bool isOnPageOfHeader(const std::byte* header, uint32_t bytes) {
    constexpr uintptr_t kSmallestPage = 4096;
    const uintptr_t data = reinterpret_cast<uintptr_t>(header) + sizeof(SlotHeader);
    return bytes <= kSmallestPage && (data + bytes - 1) / kSmallestPage == (data - 1) / kSmallestPage;
  }
  bool populate(const SlotQueue& queue, uint32_t slot, std::byte* header);

  std::vector<bool> has_all_;  // by slot
  uint32_t absent_ = 0;        // slots that have not
};

// Gives the headers of an unformatted queue memory. False: there is no room.
bool populateSlotHeaders(std::byte* memory, const LinkShape& shape);

}  // namespace horing
