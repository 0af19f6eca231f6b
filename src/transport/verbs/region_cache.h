#pragma once
// A cache of callers' memory that is registered with the devices, so that messages are sent from it and received into it without a copy.
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/log.h"
#include "transport/lent_memory.h"
#include "transport/transport.h"
#include "transport/verbs/device.h"

namespace horing::verbs {

struct RegionLimits {
  size_t regions = 128;
  size_t bytes = SIZE_MAX;  // in total; each device locks this much
};

// Held regions stay; of the others the least recently used one makes room for the next. A region that is too large, or that cannot be
// registered (a limit on locked memory, read-only memory, GPU memory with an adapter without dma-buf support), is skipped, with one log
// line: its messages go through slots.
//
// One thread holds, releases and finds; any thread forgets.
class RegionCache {
 public:
  // The devices must outlive it.
  RegionCache(std::span<const std::unique_ptr<Device>> devices, const RegionLimits& limits, Log log)
      : devices_(devices), limits_(limits), log_(log) {}
  RegionCache(const RegionCache&) = delete;
  RegionCache& operator=(const RegionCache&) = delete;

  // A region with its registrations: one for each device, or none if it was skipped.
  class Entry {
   public:
    explicit Entry(const Region& region) : region_(region) {}
    bool contains(const std::byte* memory, size_t bytes) const { return region_.contains(memory, bytes); }
    bool ofGpu() const { return region_.ofGpu(); }
    // `device`: index.
    uint32_t localKey(size_t device) const { return on_[device].localKey(); }
    uint32_t remoteKey(size_t device) const { return on_[device].remoteKey(); }

   private:
    friend class RegionCache;
    Region region_;
    std::vector<Registration> on_;
    int holders_ = 0;
    bool forgotten_ = false;  // forget() was called while it is held
  };

  // Registers the region if needed; it stays registered until as many calls of release().
  void hold(const Region& region);
  void release(const Region& region);
  // The held region that contains all of [memory, memory + bytes); null: none. No lock.
  const Entry* find(const std::byte* memory, size_t bytes) const;
  // Whether any held region is registered.
  bool holdsAny() const { return !held_.empty(); }
  // Any thread. On return the region is deregistered from all devices; if it is held, when it is released.
  void forget(uint64_t id);

  size_t regions() const;

 private:
  using Entries = std::list<Entry>;  // most recently used first
  Entries::iterator lookUp(uint64_t id);
  void enlist(Entry& entry);
  bool makeRoom(size_t bytes);
  bool dropOldest();
  void drop(Entries::iterator entry);
  void leaveOut(const Entry& entry, const std::string& why);

  std::span<const std::unique_ptr<Device>> devices_;
  RegionLimits limits_;
  Log log_;
  bool said_ = false, said_of_gpus_ = false;
  std::vector<const Entry*> held_;  // and registered; used by one thread only
  mutable std::mutex mutex_;
  Entries entries_;    // under mutex_
  size_t locked_ = 0;  // bytes; under mutex_
};

}  // namespace horing::verbs
