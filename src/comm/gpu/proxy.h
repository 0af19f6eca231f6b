#pragma once
// The host's part of kernels that communicate with ranks whose memory they cannot reach: a proxy thread that forwards their messages
// (engine/cuda/bridge.h) over its own transports.
//
// Kernels, also the kernels of graph replays, announce in pinned memory that they run. While a kernel runs the proxy waits as a
// communicator does (comm/progress/waiter.h); a launch wakes it, and if graphs may replay kernels it polls once a millisecond.
#include <atomic>
#include <compare>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/service_thread.h"
#include "comm/links/connector.h"
#include "comm/progress/waiter.h"
#include "engine/cuda/bridge.h"
#include "engine/cuda/plan_image.h"

namespace horing {

struct GpuProxyOptions {
  int rank = 0;
  std::vector<std::unique_ptr<Transport>> transports{};
  LinkShape shape{};         // see cuda::bridgeChannel(); for transports that copy
  uint32_t queue_slots = 0;  // for transports that use the queues' slots in place
  WaitPolicy wait{};
  // How long to wait for peers to receive what finished kernels have sent; asked when that begins. Any thread.
  std::function<int64_t()> timeout_ms{};
  int64_t left_ms = 30'000;         // how long a graph replay may stall after a peer has left
  int sleep_ms = 500;               // while no kernel is expected; launches and peers wake it
  const uint32_t* abort = nullptr;  // set: kernels end, and their data is discarded
  // Polled: whether the communicator has failed; if so, it has told kernels to end.
  std::function<Status()> news{};
  // Called when a kernel waits for data that will never arrive: later news must report it.
  std::function<void(const Status&)> fail{};
  // The time of the latest transfer by any of the rank's proxies, which share this.
  std::shared_ptr<std::atomic<int64_t>> moved_ns = std::make_shared<std::atomic<int64_t>>(0);
};

// A resource. Any thread, one at a time.
class GpuProxy {
 public:
  explicit GpuProxy(GpuProxyOptions options);
  // Waits until peers have received what finished kernels have sent. No kernel may run any more.
  ~GpuProxy();
  GpuProxy(const GpuProxy&) = delete;
  GpuProxy& operator=(const GpuProxy&) = delete;

  // Before start(): the addresses for peers; then the transport to each rank (-1: none).
  std::vector<std::vector<std::byte>> addresses() const { return connector_.addresses(); }
  void setAddresses(AddressTable table) { connector_.setAddresses(std::move(table)); }
  size_t transports() const { return connector_.transports().size(); }
  const char* transportName(size_t transport) const { return connector_.transports()[transport]->name(); }
  bool canReach(int peer, size_t transport) const { return connector_.canReach(peer, transport); }
  bool mayKeepMemory(size_t transport) const {
    RegionAccess* const regions = connector_.transports()[transport]->regions();
    return regions && regions->mayKeepMemory();
  }
  // Lends memory for good to a transport that may keep it: slots of queues are in it.
  void lend(size_t transport, const Region& region) { connector_.lend(1u << transport, region); }
  // Whether all adapters that the transport uses have this memory registered.
  bool holds(size_t transport, std::span<const std::byte> memory) const {
    const RegionAccess* const regions = connector_.transports()[transport]->regions();
    return regions && regions->holds(memory.data(), memory.size());
  }
  Status start(std::vector<int> transport_of_rank);

  // Adds a queue to carry: the host's end, in pinned memory.
  struct Lane {
    int peer = -1;
    int channel = 0;     // channel of the link
    bool sends = false;  // a kernel sends into it
    cuda::Port end{};
    MemoryOf slots = MemoryOf::kHost;  // GPU: the peer's transport has the slots registered
    int link = 0;                      // see collectiveLink()
  };
  void add(const Lane& lane);
  // Watches the activity words of a further plan's blocks.
  void watch(std::span<const cuda::Activity> blocks);
  // Announces a launch of this many blocks; kReplayed: they may run repeatedly.
  enum class Launch { kOnce, kReplayed };
  void launched(Launch launch, uint64_t blocks);
  // watchMessages(): watches the activity word of message kernels. launchedMessages(): the peers of a launched message kernel, once for
  // each kernel that is not a replay.
  void watchMessages(const cuda::Activity* block);
  void launchedMessages(std::vector<int> peers);
  // Begins the shutdown that the destructor completes.
  void stop();
  // The memory of its links.
  uint64_t memoryBytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Carried {
    Link* link = nullptr;
    std::vector<Lane> lanes{};  // until the link is established
    std::vector<cuda::OutgoingBridge> outgoing{};
    std::vector<cuda::IncomingBridge> incoming{};
    Status failed{};  // the link has failed
    // Its earlier messages still arrive.
    bool hasLeft() const { return link && link->departed(); }
    // It receives nothing any more.
    bool isGone() const { return !failed.ok() || hasLeft(); }
  };

  void ring();
  void serve();
  void turn();
  void takeNew();
  bool carry();
  void drive();
  bool bindLanes(Carried& each);
  Status bind(Carried& each, const Lane& lane) const;
  bool flushed();
  bool connects() const;
  bool isOver();
  void lookAround(int64_t now_ns);
  Status whatIsMissing(int64_t stalled_ns);
  std::vector<int> peersOfMessages();
  void sleep();
  // Whether kernels run, by their activity words.
  bool underWay() const;
  bool expectsKernels() const;

  GpuProxyOptions options_;
  SteadyClock clock_;
  Connector connector_;
  Fd bell_;
  std::unique_ptr<Waiter> waiter_;
  std::vector<size_t> transport_places_;  // index in the waiter, by transport
  std::mutex mutex_;
  std::vector<Lane> added_;  // under mutex_, like the members below
  std::vector<std::span<const cuda::Activity>> added_activities_;
  const cuda::Activity* messages_ = nullptr;
  struct Messages {
    uint64_t number;  // of the kernel, from 1
    std::vector<int> peers;
  };
  std::deque<Messages> launched_messages_;  // the first ones may have ended
  uint64_t messages_launched_ = 0;
  bool stop_ = false;
  std::atomic<uint64_t> launched_{0};  // blocks launched, without replays
  std::atomic<bool> replays_{false};
  std::atomic<uint64_t> memory_bytes_{0};
  // Used by the thread only.
  struct LinkName {
    int peer;
    int link;
    auto operator<=>(const LinkName&) const = default;
  };
  std::map<LinkName, Carried> links_;
  std::vector<std::span<const cuda::Activity>> activities_;  // by plan
  bool stopping_ = false;
  bool ended_ = false;  // the communicator has ended
  int64_t stop_at_ns_ = 0;
  int64_t idle_since_ns_ = 0;
  int64_t looked_ns_ = 0;
  ServiceThread thread_;  // destroyed first
};

}  // namespace horing
