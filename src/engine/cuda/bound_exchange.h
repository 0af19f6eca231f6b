#pragma once
// The sends and receives of a rank's GPU, bound to the queues of its peers.
#include <memory>
#include <span>
#include <vector>

#include "engine/cuda/exchange_call.h"
#include "engine/cuda/memory.h"
#include "engine/host/point_to_point.h"

namespace horing::cuda {

// The same on every rank.
struct BoundExchangeSettings {
  int32_t parts = 1;                     // of a message, at most: 255 or less
  int32_t most_blocks = 1;               // of a kernel
  uint32_t smallest_part_bytes = 16384;  // less is not worth a block
  uint64_t timeout_ns = UINT64_MAX;      // how long a kernel waits for anything
  bool hosts_carry = true;               // some of the messages; false: kernels reach all ranks
};

// A resource. The memory and the ports must outlive it, and it the kernels that use it. One thread at a time.
class BoundExchange {
 public:
  // Where the ports of a flow are, by part: its number.
  static constexpr int32_t flowNumber(int32_t peer, bool sends) { return 2 * peer + (sends ? 1 : 0); }
  static constexpr int32_t peerOf(int32_t flow_number) { return flow_number / 2; }

  // `ports`: [flow number * parts + part], null where a flow has fewer, or none yet.
  struct Host {
    uint32_t* abort = nullptr;  // see BoundPlan
    Activity* activity =
        nullptr;  // where each of `most_blocks` tells whether it runs; null: nobody wants to know
  };
  static Result<std::unique_ptr<BoundExchange>> make(const std::vector<Port*>& ports,
                                                     const BoundExchangeSettings& settings, const Host& host,
                                                     Memory& memory);
  BoundExchange(const BoundExchange&) = delete;
  BoundExchange& operator=(const BoundExchange&) = delete;

  bool isConnected(int32_t flow) const { return parts_of_flow_[static_cast<size_t>(flow)] > 0; }
  // A flow that is not, by its ports, one for each part that both ends give it; kernels of other flows may run.
  Status connect(int32_t flow, std::span<Port* const> ports);
  // Messages of flows that are connected, of kMaxFlows / 2 peers at most, for kernels to run one after the other: more than one where
  // there are more than a kernel takes. Then the messages between two ranks meet all the same: each kernel has the next few of each flow.
  std::vector<ExchangeCall> prepare(std::span<const Transfer> transfers, uint64_t number) const;

  // What the kernels of the last calls left, once they have ended: ok, or why they gave up, and where.
  Status outcome(ExchangeFailure* where = nullptr) const;

 private:
  explicit BoundExchange(const BoundExchangeSettings& settings, Memory& memory)
      : settings_(settings), memory_(memory) {}

  BoundExchangeSettings settings_;
  Memory& memory_;
  ExchangeView view_;
  Port** ports_ = nullptr;              // the view's
  std::vector<uint8_t> parts_of_flow_;  // 0: it is not connected
};

// The most parts that messages may have, at most `parts`, of ranks with so many peers each and kernels of `blocks` blocks; 0: they are too many.
int32_t exchangeParts(size_t peers, int32_t parts, int32_t blocks);

}  // namespace horing::cuda
