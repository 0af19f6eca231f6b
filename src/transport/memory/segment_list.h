#pragma once
// The segments of this process, by address: what an allocator of shared memory keeps.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "transport/memory/segment.h"

namespace horing {

inline constexpr size_t kMaxSegments = 65536;  // of one process

// Where a buffer lies in a segment.
struct SegmentPlace {
  SegmentName name;
  uint64_t offset = 0;  // bytes
};

// Thread safe. In a forked child it knows nothing of the parent's segments: their pages are shared between the two, so no
// peer could tell whose data it reads.
class SegmentList {
 public:
  SegmentList() = default;
  SegmentList(const SegmentList&) = delete;
  SegmentList& operator=(const SegmentList&) = delete;

  // A new segment's memory; see Segment::create().
  Result<std::byte*> allocate(uint64_t bytes);
  // Hears of every segment that is freed, by its id and before its memory goes, in whichever thread frees it.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void freed(uint64_t id) = 0;
  };
  // Until unwatch(), which returns when the watcher is not being called.
  void watch(Watcher& watcher);
  void unwatch(Watcher& watcher);
  // `data` as allocate() gave it. kInvalidArgument if it did not, or it was freed; kInvalidUsage for a parent's.
  Status free(void* data);
  // Peers that write into this memory reach its whole pages no longer: for the output of a call that failed here while a peer may
  // still be in it. See Segment::cutOff(). From now on its segment is ordinary memory; watchers hear of it as if it was freed.
  // Nothing happens to memory of no segment.
  Status cutOff(void* data, uint64_t bytes);
  // The segment that has all of [data, data + bytes); nothing if none has, or if it was cut off. Locks, briefly.
  std::optional<SegmentPlace> find(const void* data, uint64_t bytes) const;
  // The memory of this process' segment of that name, null if it has none. Locks, briefly.
  std::byte* dataOf(const SegmentName& name) const;

 private:
  Segment* segmentAt(const void* data, uint64_t bytes) const;

  mutable std::mutex mutex_;
  std::map<uintptr_t, std::unique_ptr<Segment>> by_address_;  // under mutex_
  std::set<Watcher*> watchers_;                               // under mutex_
};

}  // namespace horing
