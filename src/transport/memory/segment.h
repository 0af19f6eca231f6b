#pragma once
// Memory that other processes of this node can read and write: made by its owner, mapped by peers that know its name.
//
// The memory is a memfd. It has no name in a file system, so nothing is left behind however the owner ends, and no mounted directory limits
// its size. A peer opens it through /proc/PID/fd/FD of the owner, which the kernel allows to processes of the same user that see the
// owner's PID. The size is sealed: nobody can shrink it under a reader.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "base/mapping.h"
#include "base/status.h"

namespace horing {

// Identifies a segment for a peer. Untrusted until mapped.
struct SegmentName {
  uint64_t id = 0;     // random, never reused; 0: no segment
  uint64_t bytes = 0;  // of the user's part
  int32_t pid = 0;     // of the owner, in the owner's PID namespace
  int32_t fd = -1;     // in the owner
  bool operator==(const SegmentName&) const = default;
};

inline constexpr uint64_t kSegmentPageBytes = 4096;
inline constexpr uint64_t kHugePageBytes = 2u << 20;

// The page after the user's part.
struct SegmentTail {
  // Set by the owner when it frees the segment. Release there pairs with the acquire in PeerSegment::freed().
  std::atomic<uint32_t> freed;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// A resource of the owner. Its destruction returns the pages to the system, even while peers have them mapped: peers then read zeros.
class Segment {
 public:
  // At least `bytes` (1 or more) of zeroed memory, allocated and touched: no later access faults. Huge pages if the system provides them
  // for shared memory. Errors: more than the machine has, no descriptor left, a kernel that refuses.
  static Result<Segment> create(uint64_t bytes);
  Segment(Segment&&) = default;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  const SegmentName& name() const { return name_; }
  std::byte* data() const { return map_.data(); }
  uint64_t bytes() const { return name_.bytes; }
  bool contains(const void* begin, uint64_t bytes) const;
  // Replaces the whole pages of [begin, begin + bytes) by new pages with the same contents, which peers cannot access. Partial pages stay
  // shared. Errors: no memory; then nothing has changed.
  Status cutOff(void* begin, uint64_t bytes);
  bool isCut() const { return is_cut_; }

 private:
  Segment(const SegmentName& name, Fd fd, Mapping map)
      : name_(name), fd_(std::move(fd)), map_(std::move(map)) {}
  SegmentName name_;
  Fd fd_;
  Mapping map_;
  bool is_cut_ = false;
};

// A mapping of a peer's segment. A resource; valid whatever its owner does.
class PeerSegment {
 public:
  // Opens the segment. Errors: it does not exist, or not any more; it does not match the name; it is not accessible.
  static Result<PeerSegment> open(const SegmentName& name);

  const SegmentName& name() const { return name_; }
  std::byte* data() const { return map_.data(); }
  // Whether the owner has freed it.
  bool freed() const;

 private:
  PeerSegment(const SegmentName& name, Mapping map) : name_(name), map_(std::move(map)) {}
  SegmentName name_;
  Mapping map_;
};

}  // namespace horing
