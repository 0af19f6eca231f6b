#pragma once
// The sends and receives of a rank's GPU, bound to queues to its peers.
#include <memory>
#include <span>
#include <vector>

#include "engine/cuda/exchange_call.h"
#include "engine/cuda/memory.h"
#include "engine/host/point_to_point.h"

namespace horing::cuda {

// The same on every rank.
struct BoundExchangeSettings {
  int32_t parts = 1;                     // parts of a message, at most 255
  int32_t most_blocks = 1;               // per kernel
  uint32_t smallest_part_bytes = 16384;  // smaller parts are not worth a block
  uint64_t timeout_ns = UINT64_MAX;      // of each wait in a kernel; a prepared call may get another
  bool hosts_carry = true;               // proxies carry some messages; false: kernels reach all ranks
};

// A resource. The memory and the ports must outlive it, and it must outlive the kernels that use it. One thread at a time.
class BoundExchange {
 public:
  // The number of a flow, the index of its ports.
  static constexpr int32_t flowNumber(int32_t peer, bool sends) { return 2 * peer + (sends ? 1 : 0); }
  static constexpr int32_t peerOf(int32_t flow_number) { return flow_number / 2; }

  // `ports`: [flow number * parts + part], null if the flow has fewer parts, or is not connected.
  struct Host {
    uint32_t* abort = nullptr;     // see BoundPlan
    Activity* activity = nullptr;  // activity words of `most_blocks` blocks; null: not needed
  };
  static Result<std::unique_ptr<BoundExchange>> make(const std::vector<Port*>& ports,
                                                     const BoundExchangeSettings& settings, const Host& host,
                                                     Memory& memory);
  // The most memory that it takes among so many ranks, with all ports.
  static size_t needsOf(size_t ranks, const BoundExchangeSettings& settings);
  BoundExchange(const BoundExchange&) = delete;
  BoundExchange& operator=(const BoundExchange&) = delete;

  bool isConnected(int32_t flow) const { return parts_of_flow_[static_cast<size_t>(flow)] > 0; }
  // Connects a flow by its ports, one for each part, the same number at both ends; kernels of other flows may run.
  Status connect(int32_t flow, std::span<Port* const> ports);
  // The kernel calls, to run in order, for messages of connected flows with at most kMaxFlows / 2 peers. There are several calls if one
  // kernel cannot hold all messages; each then has the next few messages of every flow, so that both ends still match.
  std::vector<ExchangeCall> prepare(std::span<const Transfer> transfers, uint64_t number) const;

  // The result of the last calls' kernels, once they have ended: ok, or why and where they gave up.
  Status outcome(ExchangeFailure* where = nullptr) const;

 private:
  explicit BoundExchange(const BoundExchangeSettings& settings, Memory& memory)
      : settings_(settings), memory_(memory) {}

  BoundExchangeSettings settings_;
  Memory& memory_;
  ExchangeView view_;
  Port** ports_ = nullptr;              // the view's
  std::vector<uint8_t> parts_of_flow_;  // 0: not connected
};

// The most parts of a message, at most `parts`, with this many peers per rank and `blocks` blocks per kernel; 0: too many peers.
int32_t exchangeParts(size_t peers, int32_t parts, int32_t blocks);

}  // namespace horing::cuda
