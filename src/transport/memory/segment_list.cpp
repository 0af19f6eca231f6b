#include "transport/memory/segment_list.h"

#include <unistd.h>

#include <algorithm>

namespace horing {

Result<std::byte*> SegmentList::allocate(uint64_t bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (by_address_.size() >= kMaxSegments)
      return makeStatus(Code::kSystemError, "%zu allocations of shared memory are alive; that is the limit",
                        by_address_.size());
  }
  // Without the lock, since touching the pages takes long.
  HORING_ASSIGN(Segment made, Segment::create(bytes));
  auto segment = std::make_unique<Segment>(std::move(made));
  std::byte* const data = segment->data();
  const std::lock_guard<std::mutex> lock(mutex_);
  by_address_.emplace(reinterpret_cast<uintptr_t>(data), std::move(segment));
  return data;
}

void SegmentList::watch(Watcher& watcher) {
  const std::lock_guard<std::mutex> lock(mutex_);
  watchers_.insert(&watcher);
}

void SegmentList::unwatch(Watcher& watcher) {
  const std::lock_guard<std::mutex> lock(mutex_);
  watchers_.erase(&watcher);
}

Status SegmentList::free(void* data) {
  std::unique_ptr<Segment> freed;  // outlives the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_address_.find(reinterpret_cast<uintptr_t>(data));
  if (found == by_address_.end())
    return makeStatus(Code::kInvalidArgument,
                      "%p is not memory from horingMemAlloc, or was freed: expected the pointer that it gave",
                      data);
  if (found->second->name().pid != ::getpid())
    return makeStatus(Code::kInvalidUsage,
                      "%p was allocated by process %d, and this is a forked child: the parent frees it", data,
                      found->second->name().pid);
  for (Watcher* watcher : watchers_) watcher->freed(found->second->name().id);
  freed = std::move(found->second);
  by_address_.erase(found);
  return {};
}

Status SegmentList::cutOff(void* data, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Segment* const segment = segmentAt(data, bytes);
  if (!segment) return {};
  for (Watcher* watcher : watchers_) watcher->freed(segment->name().id);
  return segment->cutOff(data, bytes);
}

// Null: none. Under mutex_.
Segment* SegmentList::segmentAt(const void* data, uint64_t bytes) const {
  const auto after = by_address_.upper_bound(reinterpret_cast<uintptr_t>(data));
  if (after == by_address_.begin()) return nullptr;
  Segment& segment = *std::prev(after)->second;
  return segment.name().pid == ::getpid() && segment.contains(data, bytes) ? &segment : nullptr;
}

std::optional<SegmentPlace> SegmentList::find(const void* data, uint64_t bytes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Segment* const segment = segmentAt(data, bytes);
  if (!segment || segment->isCut()) return std::nullopt;
  return SegmentPlace{segment->name(),
                      static_cast<uint64_t>(static_cast<const std::byte*>(data) - segment->data())};
}

std::byte* SegmentList::dataOf(const SegmentName& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(by_address_.begin(), by_address_.end(),
                                  [&](const auto& entry) { return entry.second->name() == name; });
  return found == by_address_.end() || name.pid != ::getpid() ? nullptr : found->second->data();
}

}  // namespace horing
