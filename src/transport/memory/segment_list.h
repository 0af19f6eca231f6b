#pragma once
// The segments of this process, by address: the table of the shared-memory allocator.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "transport/memory/segment.h"

namespace horing {

inline constexpr size_t kMaxSegments = 65536;  // per process

// The place of a buffer in a segment.
struct SegmentPlace {
  SegmentName name;
  uint64_t offset = 0;  // bytes
};

// Thread safe. In a forked child the list is empty: parent and child share the pages, so a peer could not tell whose data it reads.
class SegmentList {
 public:
  SegmentList() = default;
  SegmentList(const SegmentList&) = delete;
  SegmentList& operator=(const SegmentList&) = delete;

  // Allocates a new segment; see Segment::create().
  Result<std::byte*> allocate(uint64_t bytes);
  // Notified of every segment that is freed, by id, before its memory is freed, on the freeing thread.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void freed(uint64_t id) = 0;
  };
  // Until unwatch(), which waits for running callbacks.
  void watch(Watcher& watcher);
  void unwatch(Watcher& watcher);
  // `data`: from allocate(). kInvalidArgument if it is not, or was freed; kInvalidUsage for memory of a parent process.
  Status free(void* data);
  // Revokes peers' access to the whole pages of this memory: for the output of a call that failed here while a peer may still write. See
  // Segment::cutOff(). From now on its segment is ordinary memory; watchers are notified as if it was freed. Does nothing if the memory is
  // in no segment.
  Status cutOff(void* data, uint64_t bytes);
  // The segment that contains all of [data, data + bytes); nothing if none does, or if it was cut off. Locks briefly.
  std::optional<SegmentPlace> find(const void* data, uint64_t bytes) const;
  // The memory of this process's segment of that name; null: none. Locks briefly.
  std::byte* dataOf(const SegmentName& name) const;

 private:
  Segment* segmentAt(const void* data, uint64_t bytes) const;

  mutable std::mutex mutex_;
  std::map<uintptr_t, std::unique_ptr<Segment>> by_address_;  // under mutex_
  std::set<Watcher*> watchers_;                               // under mutex_
};

}  // namespace horing
