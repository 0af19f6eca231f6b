#include "comm/gpu/offer.h"

#include <algorithm>
#include <climits>
#include <map>

#include "control/rank_list.h"
#include "transport/transport.h"

namespace horing {

namespace {

constexpr size_t kMaxTroubleBytes = 512;
constexpr uint32_t kMaxBlocks = 1 << 20;
constexpr size_t kMaxAddresses = 256;

}  // namespace

void fields(auto& wire, Is<GpuOffer> auto& offer) {
  auto& [trouble, gpu, has_mps, resident_blocks, most_blocks, addresses, memory] = offer;
  wire.text(trouble, kMaxTroubleBytes);
  wire.raw(gpu);
  wire.numbers(has_mps, resident_blocks, most_blocks);
  wire.require(resident_blocks <= kMaxBlocks && most_blocks <= kMaxBlocks);
  wire.list(addresses, kMaxAddresses, [&](auto& address) { wire.blob(address, kMaxAddressBytes); });
  wire.optional(memory, [&](auto& handle) { wire.raw(handle); });
}
template void fields(FieldWriter&, const GpuOffer&);
template void fields(FieldReader&, GpuOffer&);

void fields(auto& wire, Is<GpuReady> auto& ready) {
  auto& [trouble, plan_bytes] = ready;
  wire.text(trouble, kMaxTroubleBytes);
  wire.numbers(plan_bytes);
}
template void fields(FieldWriter&, const GpuReady&);
template void fields(FieldReader&, GpuReady&);

namespace {

Status malformed(int from) {
  return makeStatus(
      Code::kRemoteError,
      "the message of rank %d about its GPU is malformed: every rank must call the same collectives "
      "in the same order, and the buffers of a call must all be on GPUs or all in host memory",
      from);
}

}  // namespace

Result<GpuOffer> decodeGpuOffer(std::span<const std::byte> bytes, int from) {
  GpuOffer offer;
  if (decodeFields(bytes, offer)) return offer;
  return malformed(from);
}

Result<std::vector<GpuReady>> decodeGpusReady(const std::vector<std::vector<std::byte>>& told) {
  std::vector<GpuReady> all;
  for (size_t rank = 0; rank < told.size(); ++rank) {
    GpuReady& ready = all.emplace_back();
    if (!decodeFields(told[rank], ready)) return malformed(static_cast<int>(rank));
    if (!ready.trouble.empty())
      return makeStatus(Code::kUnhandledCudaError, "rank %zu: %s", rank, ready.trouble.c_str());
  }
  return all;
}

Result<GpuTerms> termsOf(const std::vector<GpuOffer>& offers) {
  std::map<CudaUuid, std::vector<int>> ranks_of_gpu;
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    if (!offers[rank].trouble.empty())
      return makeStatus(Code::kUnhandledCudaError, "rank %zu: %s", rank, offers[rank].trouble.c_str());
    ranks_of_gpu[offers[rank].gpu].push_back(static_cast<int>(rank));
  }
  GpuTerms terms{INT_MAX, INT_MAX};
  for (const auto& [gpu, ranks] : ranks_of_gpu)
    for (const int rank : ranks) {
      const GpuOffer& offer = offers[static_cast<size_t>(rank)];
      if (ranks.size() > 1 && !offer.has_mps)
        return makeStatus(Code::kInvalidUsage,
                          "ranks %s are processes that share a GPU, whose kernels do not run at once: start "
                          "NVIDIA's MPS, or give each a GPU of its own",
                          rankList(ranks).c_str());
      const int own_blocks = static_cast<int>(offer.resident_blocks / ranks.size());
      terms.resident_blocks = std::min(terms.resident_blocks, own_blocks);
      terms.most_blocks = std::min(terms.most_blocks, static_cast<int>(offer.most_blocks));
    }
  return terms;
}

Status mayHaveTerms(std::span<const HostIdentity> ranks) {
  std::vector<GpuOffer> offers;
  for (const HostIdentity& rank : ranks) {
    if (!rank.gpu)
      return makeStatus(
          Code::kInvalidUsage,
          "rank %td had no GPU current when it made the communicator: call cudaSetDevice before",
          &rank - ranks.data());
    GpuOffer& offer = offers.emplace_back();
    offer.gpu = rank.gpu->uuid;
    offer.has_mps = rank.gpu->has_mps;
  }
  return termsOf(offers).status();
}

}  // namespace horing
