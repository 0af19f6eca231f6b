#include "comm/gpu/proxies.h"

#include <algorithm>
#include <utility>

namespace horing {

std::vector<std::vector<std::byte>> GpuProxies::addresses() const {
  std::vector<std::vector<std::byte>> all;
  for (const auto& proxy : proxies_)
    for (auto& address : proxy->addresses()) all.push_back(std::move(address));
  return all;
}

void GpuProxies::setAddresses(const AddressTable& table) {
  for (size_t i = 0; i < proxies_.size(); ++i) {
    AddressTable own(table.size());
    for (size_t rank = 0; rank < table.size(); ++rank)
      for (size_t t = i * transports(); t < std::min((i + 1) * transports(), table[rank].size()); ++t)
        own[rank].push_back(table[rank][t]);
    proxies_[i]->setAddresses(std::move(own));
  }
}

Status GpuProxies::start(const std::vector<int>& transport_of_rank) {
  for (const auto& proxy : proxies_) HORING_TRY(proxy->start(transport_of_rank));
  return {};
}

void GpuProxies::add(GpuProxy::Lane lane) {
  const auto [channel, part] = cuda::bridgedPart(lane.channel);
  const auto count = static_cast<int32_t>(proxies_.size());
  const int32_t of_proxy = part / count;
  lane.link = of_proxy / parts_of_link_;
  lane.channel = cuda::bridgeChannel(channel, of_proxy % parts_of_link_);
  proxies_[static_cast<size_t>(part % count)]->add(lane);
}

void GpuProxies::watch(std::span<const cuda::Activity> blocks) {
  for (const auto& proxy : proxies_) proxy->watch(blocks);
}

void GpuProxies::launched(GpuProxy::Launch launch, uint64_t blocks) {
  for (const auto& proxy : proxies_) proxy->launched(launch, blocks);
}

uint64_t GpuProxies::memoryBytes() const {
  uint64_t bytes = 0;
  for (const auto& proxy : proxies_) bytes += proxy->memoryBytes();
  return bytes;
}

}  // namespace horing
