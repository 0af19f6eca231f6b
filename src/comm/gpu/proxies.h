#pragma once
// The proxies of one rank (comm/gpu/proxy.h): each is a thread with transports of its own that carries its share of the parts of every
// plan, since one core moves less over TCP than networks do.
#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/gpu/proxy.h"

namespace horing {

// Owns them; threads as for each of them.
class GpuProxies {
 public:
  // The cores that one is worth.
  static constexpr int kCoresOfProxy = 2;

  // All alike, on every rank; at least one, which has so many parts by each link to a rank.
  GpuProxies(std::vector<std::unique_ptr<GpuProxy>> proxies, int32_t parts_of_link)
      : proxies_(std::move(proxies)), parts_of_link_(parts_of_link) {}
  // All at once.
  ~GpuProxies() {
    for (const auto& proxy : proxies_) proxy->stop();
  }
  GpuProxies(const GpuProxies&) = delete;
  GpuProxies& operator=(const GpuProxies&) = delete;

  // As of one: what peers need of the first, then of the second, and so on.
  std::vector<std::vector<std::byte>> addresses() const;
  void setAddresses(const AddressTable& table);
  // Of each; what one reaches, all do.
  size_t transports() const { return proxies_.front()->transports(); }
  bool mayKeepMemory(size_t transport) const { return proxies_.front()->mayKeepMemory(transport); }
  std::string_view transportName(size_t transport) const {
    return proxies_.front()->transportName(transport);
  }
  bool canReach(int peer, size_t transport) const { return proxies_.front()->canReach(peer, transport); }
  void lend(size_t transport, const Region& region) {
    for (const auto& proxy : proxies_) proxy->lend(transport, region);
  }
  bool holds(size_t transport, std::span<const std::byte> memory) const {
    return std::all_of(proxies_.begin(), proxies_.end(),
                       [&](const auto& proxy) { return proxy->holds(transport, memory); });
  }
  Status start(const std::vector<int>& transport_of_rank);
  // Before that: there is nothing to carry. One looks after kernels that nobody calls for, which graphs replay.
  void keepOne() { proxies_.resize(1); }

  // `lane.channel`: of all parts, see cuda::bridgeChannel(); on which link that is, is found here.
  void add(GpuProxy::Lane lane);
  void watch(std::span<const cuda::Activity> blocks);
  void launched(GpuProxy::Launch launch, uint64_t blocks);
  // The first has part of each message, and so a link to each peer.
  void watchMessages(const cuda::Activity* block) { proxies_.front()->watchMessages(block); }
  void launchedMessages(std::vector<int> peers) { proxies_.front()->launchedMessages(std::move(peers)); }
  uint64_t memoryBytes() const;

 private:
  std::vector<std::unique_ptr<GpuProxy>> proxies_;
  const int32_t parts_of_link_;
};

}  // namespace horing
