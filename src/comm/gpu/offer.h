#pragma once
// What ranks of different processes tell each other before kernels serve their GPUs, and what follows from it: the same on every
// rank, for it follows from nothing else.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/membership/host_identity.h"
#include "cuda/api.h"

namespace horing {

// A value. From a peer it is hostile until decoded.
struct GpuOffer {
  std::string trouble;                              // why kernels cannot serve this rank; empty: they can
  CudaUuid gpu{};                                   // which one: two ranks with the same share it
  bool has_mps = false;                             // kernels of several processes run at once on it
  uint32_t resident_blocks = 0;                     // of kernels, at once
  uint32_t most_blocks = 0;                         // that a kernel of this rank may have
  std::vector<std::vector<std::byte>> addresses{};  // of the transports that carry messages of kernels
  std::optional<CudaIpcHandle> memory{};            // by which its neighbors open that of its GPU
  bool operator==(const GpuOffer&) const = default;
};

std::vector<std::byte> encodeGpuOffer(const GpuOffer& offer);
// kRemoteError: rank `from` says what cannot be read.
Result<GpuOffer> decodeGpuOffer(std::span<const std::byte> bytes, int from);

// What every rank's kernels may take.
struct GpuTerms {
  int resident_blocks = 0;  // the least of all; ranks that share a GPU have a part of it each
  int most_blocks = 0;
};
// By rank. Not ok: kernels serve no rank, and why.
Result<GpuTerms> termsOf(const std::vector<GpuOffer>& offers);
// Whether each rank has told of its GPU when they met, and nothing of that keeps kernels from serving all.
bool mayHaveTerms(std::span<const HostIdentity> ranks);

}  // namespace horing
