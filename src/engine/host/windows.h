#pragma once
// The memory of this rank that other ranks put data into.
#include <cstddef>
#include <cstdint>
#include <map>

#include "engine/host/transfer.h"

namespace horing {

// One thread at a time. The memory must stay as long as its window is open.
class Windows {
 public:
  void open(uint64_t window, std::byte* memory, size_t bytes) { open_[window] = {memory, bytes}; }
  void close(uint64_t window) { open_.erase(window); }
  // Where so many bytes go. Null: the window is not open, or they would leave it. All numbers may come from another rank.
  std::byte* find(const PutTarget& target, uint64_t bytes) const {
    const auto found = open_.find(target.window);
    if (found == open_.end()) return nullptr;
    const Memory& memory = found->second;
    const bool fits = target.offset <= memory.bytes && bytes <= memory.bytes - target.offset;
    return fits ? memory.begin + target.offset : nullptr;
  }

 private:
  struct Memory {
    std::byte* begin = nullptr;
    size_t bytes = 0;
  };
  std::map<uint64_t, Memory> open_;  // by number
};

}  // namespace horing
