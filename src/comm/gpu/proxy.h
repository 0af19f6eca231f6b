#pragma once
// The host's part in kernels that talk to ranks whose memory they do not reach: a thread that carries their messages on
// (engine/cuda/bridge.h), over transports of its own.
//
// No call of the host starts it: kernels tell in pinned memory that they run, also those that a graph replays. While one runs it
// waits as a communicator does (comm/progress/waiter.h); a launch wakes it, and where graphs may replay kernels it looks once a millisecond.
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
  LinkShape shape{};         // see cuda::bridgeChannel(); of transports that copy
  uint32_t queue_slots = 0;  // and where slots are those of queues
  WaitPolicy wait{};
  int64_t timeout_ms = 0;    // how long to wait for peers that are to take what ended kernels have sent
  int64_t left_ms = 30'000;  // how long what graphs replay may stand still beside a peer that has left
  int sleep_ms = 500;        // at a time, while no kernel is expected; a launch and peers wake it
  const uint32_t* abort = nullptr;  // set: kernels end, and what they sent is of no use
  // Asked now and then: whether something has ended the communicator. Then it has told kernels to end.
  std::function<Status()> news{};
  // A kernel waits for what will never come: the next news shall say so.
  std::function<void(const Status&)> fail{};
  // When any of a rank's proxies moved something, which share this.
  std::shared_ptr<std::atomic<int64_t>> moved_ns = std::make_shared<std::atomic<int64_t>>(0);
};

// A resource. Any thread, one at a time.
class GpuProxy {
 public:
  explicit GpuProxy(GpuProxyOptions options);
  // Waits until peers have what ended kernels have sent. No kernel may run any more.
  ~GpuProxy();
  GpuProxy(const GpuProxy&) = delete;
  GpuProxy& operator=(const GpuProxy&) = delete;

  // Before start(): what peers need, and then for each rank the transport to it (-1: none).
  std::vector<std::vector<std::byte>> addresses() const { return connector_.addresses(); }
  void setAddresses(AddressTable table) { connector_.setAddresses(std::move(table)); }
  size_t transports() const { return connector_.transports().size(); }
  const char* transportName(size_t transport) const { return connector_.transports()[transport]->name(); }
  bool canReach(int peer, size_t transport) const { return connector_.canReach(peer, transport); }
  bool mayKeepMemory(size_t transport) const { return connector_.transports()[transport]->mayKeepMemory(); }
  // For good, to one that may keep it: slots of queues are there.
  void lend(size_t transport, const Region& region) { connector_.lend(1u << transport, region); }
  // Whether adapters by which the transport reaches peers have all of that.
  bool holds(size_t transport, std::span<const std::byte> memory) const {
    return connector_.transports()[transport]->holds(memory.data(), memory.size());
  }
  Status start(std::vector<int> transport_of_rank);

  // From now on it carries a queue: the host's end of it, in pinned memory.
  struct Lane {
    int peer = -1;
    int channel = 0;     // of its link
    bool sends = false;  // a kernel sends into it
    cuda::Port end{};
    MemoryOf slots = MemoryOf::kHost;  // a GPU's: the transport to that peer holds them
    int link = 0;                      // see collectiveLink()
  };
  void add(const Lane& lane);
  // Blocks of one more plan tell there that they run.
  void watch(std::span<const cuda::Activity> blocks);
  // So many blocks of a kernel are on their way that will tell so, or, `kReplayed`, may be time and again.
  enum class Launch { kOnce, kReplayed };
  void launched(Launch launch, uint64_t blocks);
  // The first block of kernels of messages tells there that it runs; and, once for each of these kernels that no graph replays, with whom
  // it exchanges some.
  void watchMessages(const cuda::Activity* block);
  void launchedMessages(std::vector<int> peers);
  // It ends as the destructor says, which then need not wait as long.
  void stop();
  // Of its links.
  uint64_t memoryBytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Carried {
    Link* link = nullptr;
    std::vector<Lane> lanes{};  // until the link is up
    std::vector<cuda::OutgoingBridge> outgoing{};
    std::vector<cuda::IncomingBridge> incoming{};
    Status failed{};  // nothing more goes over the link
    // What it sent before still comes.
    bool hasLeft() const { return link && link->departed(); }
    // It takes nothing any more.
    bool isGone() const { return !failed.ok() || hasLeft(); }
  };

  void ring();
  void serve();
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
  // Of kernels, as they tell it.
  bool underWay() const;
  bool expectsKernels() const;

  GpuProxyOptions options_;
  SteadyClock clock_;
  Connector connector_;
  Fd bell_;
  std::unique_ptr<Waiter> waiter_;
  std::mutex mutex_;
  std::vector<Lane> added_;  // under mutex_, as what follows
  std::vector<std::span<const cuda::Activity>> added_activities_;
  const cuda::Activity* messages_ = nullptr;
  struct Messages {
    uint64_t number;  // of their kernel, from 1
    std::vector<int> peers;
  };
  std::deque<Messages> launched_messages_;  // the first ones may have ended
  uint64_t messages_launched_ = 0;
  bool stop_ = false;
  std::atomic<uint64_t> launched_{0};  // blocks that were to run once
  std::atomic<bool> replays_{false};
  std::atomic<uint64_t> memory_bytes_{0};
  // Of the thread.
  struct LinkName {
    int peer;
    int link;
    auto operator<=>(const LinkName&) const = default;
  };
  std::map<LinkName, Carried> links_;
  std::vector<std::span<const cuda::Activity>> activities_;  // by plan
  bool stopping_ = false;
  bool ended_ = false;  // the communicator
  int64_t stopped_ns_ = 0;
  int64_t idle_since_ns_ = 0;
  int64_t looked_ns_ = 0;
  ServiceThread thread_;  // goes first
};

}  // namespace horing
