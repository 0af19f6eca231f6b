#pragma once
// The proxies of one rank (comm/gpu/proxy.h): each is a thread with its own transports and carries its share of the parts of every plan,
// since one core cannot saturate a network over TCP.
#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/gpu/proxy.h"

namespace horing {

// Owns the proxies; thread rules as for GpuProxy.
class GpuProxies {
 public:
  // Cores per proxy.
  static constexpr int kCoresOfProxy = 2;

  // At least one proxy; all alike on every rank. Each link to a rank carries `parts_of_link` parts.
  GpuProxies(std::vector<std::unique_ptr<GpuProxy>> proxies, int32_t parts_of_link)
      : proxies_(std::move(proxies)), parts_of_link_(parts_of_link) {}
  // Stops all at once.
  ~GpuProxies() {
    for (const auto& proxy : proxies_) proxy->stop();
  }
  GpuProxies(const GpuProxies&) = delete;
  GpuProxies& operator=(const GpuProxies&) = delete;

  // The addresses of the first proxy's transports, then of the second's, and so on.
  std::vector<std::vector<std::byte>> addresses() const;
  void setAddresses(const AddressTable& table);
  // Transports per proxy; all proxies reach the same peers.
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
  // Before start(), if there is nothing to carry: keeps one proxy, which watches kernels that graphs replay.
  void keepOne() { proxies_.resize(1); }

  // `lane.channel`: counts all parts, see cuda::bridgeChannel(); mapped to a link here.
  void add(GpuProxy::Lane lane);
  void watch(std::span<const cuda::Activity> blocks);
  void launched(GpuProxy::Launch launch, uint64_t blocks);
  // The first proxy has part of each message, and so a link to each peer.
  void watchMessages(const cuda::Activity* block) { proxies_.front()->watchMessages(block); }
  void launchedMessages(std::vector<int> peers) { proxies_.front()->launchedMessages(std::move(peers)); }
  uint64_t memoryBytes() const;

 private:
  std::vector<std::unique_ptr<GpuProxy>> proxies_;
  const int32_t parts_of_link_;
};

}  // namespace horing
