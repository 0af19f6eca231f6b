#pragma once
// What ranks of different processes exchange before kernels serve their GPUs, and the resulting terms, which depend on nothing else and so
// are the same on every rank.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/status.h"
#include "comm/membership/host_identity.h"
#include "cuda/api.h"

namespace horing {

// A value. Untrusted until decoded.
struct GpuOffer {
  std::string trouble;           // the reason why kernels cannot serve this rank; empty: they can
  CudaUuid gpu{};                // two ranks with the same UUID share a GPU
  bool has_mps = false;          // MPS runs kernels of several processes concurrently
  uint32_t resident_blocks = 0;  // resident thread blocks
  uint32_t most_blocks = 0;      // the most blocks of a kernel of this rank
  std::vector<std::vector<std::byte>> addresses{};  // of the proxies' transports
  std::optional<CudaIpcHandle> memory{};            // the handle by which neighbors open its GPU memory
  bool operator==(const GpuOffer&) const = default;
};

// For the exchange (base/fields.h).
void fields(auto& wire, Is<GpuOffer> auto& offer);
// kRemoteError: malformed bytes from rank `from`.
Result<GpuOffer> decodeGpuOffer(std::span<const std::byte> bytes, int from);

// What a rank tells the others once its proxies run, or do not. A value. Untrusted until decoded.
struct GpuReady {
  std::string trouble{};    // as above
  uint64_t plan_bytes = 0;  // of its GPU, free for plans and messages
};
void fields(auto& wire, Is<GpuReady> auto& ready);
// `told`: by rank. Error: malformed bytes, or the trouble of a rank.
Result<std::vector<GpuReady>> decodeGpusReady(const std::vector<std::vector<std::byte>>& told);

// The resources of every rank's kernels.
struct GpuTerms {
  int resident_blocks = 0;  // the least of all ranks; ranks that share a GPU divide it
  int most_blocks = 0;
};
// `offers`: by rank. Error: kernels serve no rank, and the reason.
Result<GpuTerms> termsOf(const std::vector<GpuOffer>& offers);
// Error: a rank has not named its GPU in its introduction, or these prevent kernels from serving all ranks.
Status mayHaveTerms(std::span<const HostIdentity> ranks);

}  // namespace horing
