#include "transport/verbs/region_cache.h"

#include <algorithm>

#include "base/check.h"

namespace horing::verbs {

namespace {
// A peer that has the key may write to registered memory.
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
}  // namespace

RegionCache::Entries::iterator RegionCache::lookUp(uint64_t id) {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&](const Entry& entry) { return entry.region_.id == id; });
}

void RegionCache::hold(const Region& region) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = lookUp(region.id);
  if (found == entries_.end()) {
    while (entries_.size() >= limits_.regions && dropOldest()) {
    }
    found = entries_.emplace(entries_.begin(), region);
    found->holders_ = 1;
    enlist(*found);
  } else {
    entries_.splice(entries_.begin(), entries_, found);
    ++found->holders_;
  }
  if (found->holders_ == 1 && !found->on_.empty()) held_.push_back(&*found);
}

void RegionCache::enlist(Entry& entry) {
  if (entries_.size() > limits_.regions || !makeRoom(entry.region_.bytes))
    return leaveOut(entry, "with it, more would be locked than HORING_IB_REGISTERED_MB allows");
  std::vector<Registration> made;
  for (const auto& device : devices_) {
    auto registered = Registration::make(*device, entry.region_, kAccess);
    // Unused registrations may take the room: drop them and retry.
    while (!registered.ok() && dropOldest()) registered = Registration::make(*device, entry.region_, kAccess);
    if (!registered.ok()) return leaveOut(entry, registered.status().message());
    made.push_back(registered.take());
  }
  entry.on_ = std::move(made);
  locked_ += entry.region_.bytes;
}

bool RegionCache::makeRoom(size_t bytes) {
  while (bytes > limits_.bytes - locked_)
    if (!dropOldest()) return false;
  return true;
}

// Drops the least recently used region that is not held.
bool RegionCache::dropOldest() {
  const auto oldest = std::find_if(entries_.rbegin(), entries_.rend(),
                                   [](const Entry& entry) { return entry.holders_ == 0; });
  if (oldest == entries_.rend()) return false;
  drop(std::next(oldest).base());
  return true;
}

void RegionCache::drop(Entries::iterator entry) {
  if (!entry->on_.empty()) locked_ -= entry->region_.bytes;
  entries_.erase(entry);
}

// Limits on host memory can be raised; not every adapter supports GPU memory.
void RegionCache::leaveOut(const Entry& entry, const std::string& why) {
  if (std::exchange(entry.ofGpu() ? said_of_gpus_ : said_, true)) return;
  const std::string text =
      formatString("%zu bytes are not sent in place: %s", entry.region_.bytes, why.c_str());
  if (entry.ofGpu()) return log_.info("verbs", "%s", text.c_str());
  log_.warn("verbs", "%s", text.c_str());
}

void RegionCache::release(const Region& region) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = lookUp(region.id);
  HORING_CHECK(found != entries_.end());
  if (--found->holders_ > 0) return;
  std::erase(held_, &*found);
  if (found->forgotten_) drop(found);
}

const RegionCache::Entry* RegionCache::find(const std::byte* memory, size_t bytes) const {
  for (const Entry* entry : held_)
    if (entry->contains(memory, bytes)) return entry;
  return nullptr;
}

void RegionCache::forget(uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = lookUp(id);
  if (found == entries_.end()) return;
  found->forgotten_ = true;
  if (found->holders_ == 0) drop(found);
}

size_t RegionCache::regions() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<size_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return !entry.on_.empty(); }));
}

}  // namespace horing::verbs
