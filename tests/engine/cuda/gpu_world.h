#pragma once
// All ranks of a collective on one machine, each with queues to every other, laid out as for GPUs: in memory that the test chooses,
// run by a runner that it chooses. Groups may be nodes, whose ranks reach each other only by transports.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "engine/cuda/bound_plan.h"
#include "engine/cuda/bridge.h"
#include "engine/host/plan.h"

namespace horing::test {

// The host's, in the place of a GPU's.
class HostMemory final : public cuda::Memory {
 public:
  Result<std::byte*> allocate(size_t bytes) override {
    bytes_ += bytes;
    auto* const memory = static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{256}));
    std::fill(memory, memory + bytes, std::byte{0});
    pieces_.push_back({std::unique_ptr<std::byte[], Free>(memory), bytes});
    return memory;
  }
  size_t used() const override { return bytes_; }
  Status rewind(size_t used) override {
    for (; bytes_ > used; pieces_.pop_back()) bytes_ -= pieces_.back().bytes;
    return {};
  }
  Status write(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }
  Status read(void* to, const void* from, size_t bytes) override { return write(to, from, bytes); }
  size_t bytes() const override { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{256}); }
  };
  struct Piece {
    std::unique_ptr<std::byte[], Free> memory;
    size_t bytes;
  };
  size_t bytes_ = 0;
  std::vector<Piece> pieces_;
};

struct GpuWorldOptions {
  std::string algorithm = "ring";
  Collective collective = Collective::kAllReduce;
  Shape shape;
  int32_t root = 0;
  cuda::BoundPlanSettings plan;
  uint32_t slots = 5;
  std::vector<Transport*> transports{};     // by position, if groups are nodes; must outlive the world
  std::vector<int32_t> rank_of_position{};  // empty: they are the same
};

// The part that a rank's host has in the kernels of its GPU. One thread at a time.
struct HostOfGpu {
  Transport* transport = nullptr;
  std::vector<cuda::OutgoingBridge> outgoing{};
  std::vector<cuda::IncomingBridge> incoming{};

  Status poll() {
    for (auto& bridge : outgoing) (void)bridge.poll();
    for (auto& bridge : incoming) (void)bridge.poll();
    return transport->progress();
  }
};

class GpuWorld {
 public:
  // `memory`: of every rank; `abort`: see BoundPlan. Both must outlive it.
  static Result<std::unique_ptr<GpuWorld>> make(const GpuWorldOptions& options, cuda::Memory& memory,
                                                uint32_t* abort) {
    std::unique_ptr<GpuWorld> world(new GpuWorld(options, memory));
    if (!options.transports.empty()) HORING_TRY(world->connect());
    for (int32_t position = 0; position < world->ranks(); ++position)
      HORING_TRY(world->addRank(position, abort));
    return world;
  }

  int32_t ranks() const { return options_.shape.ranks(); }
  // Of the first queue to another rank, part 0.
  const cuda::Port& sendingEnd(int32_t from, int32_t to) const {
    return *queues_[static_cast<size_t>((from * ranks() + to) * kLinkChannels * options_.plan.parts)];
  }
  // Of one launch, if plans want that: then it serves all ranks.
  bool isOneLaunch() const { return options_.plan.in_one_launch; }
  cuda::BoundPlan& plan(int32_t position) { return *plans_[static_cast<size_t>(position)]; }
  // By position; none where there is one node.
  std::vector<HostOfGpu>& hosts() { return hosts_; }
  // [part * lanes + lane]
  std::span<const cuda::Activity> activity(int32_t position) {
    return activities_[static_cast<size_t>(position)];
  }

 private:
  GpuWorld(const GpuWorldOptions& options, cuda::Memory& memory)
      : options_(options),
        memory_(memory),
        queues_(static_cast<size_t>(ranks() * ranks() * kLinkChannels * options.plan.parts)),
        activities_(static_cast<size_t>(ranks())) {}

  bool isBridged(int32_t from, int32_t to) const {
    const int32_t members = options_.shape.members;
    return !options_.transports.empty() && from / members != to / members;
  }
  Link*& link(int32_t rank, int32_t peer) { return links_[static_cast<size_t>(rank * ranks() + peer)]; }

  Status connect() {
    links_.resize(static_cast<size_t>(ranks() * ranks()));
    const LinkShape shape{cuda::bridgeChannel(0, options_.plan.parts), 2, options_.plan.slot_bytes};
    for (int32_t rank = 0; rank < ranks(); ++rank) {
      Transport& own =
          *hosts_.emplace_back(HostOfGpu{options_.transports[static_cast<size_t>(rank)]}).transport;
      for (int32_t peer = 0; peer < ranks(); ++peer)
        if (isBridged(rank, peer)) {
          const auto address = options_.transports[static_cast<size_t>(peer)]->address();
          HORING_ASSIGN(link(rank, peer), own.connect(peer, address, shape));
        }
    }
    const auto isUp = [](const Link* link) { return !link || link->established(); };
    for (int round = 0; round < 100'000 && !std::all_of(links_.begin(), links_.end(), isUp); ++round)
      for (HostOfGpu& host : hosts_) HORING_TRY(host.poll());
    if (std::all_of(links_.begin(), links_.end(), isUp)) return {};
    return makeStatus(Code::kInternalError, "the links do not come up");
  }

  Status addRank(int32_t position, uint32_t* abort) {
    std::vector<int32_t> rank_of_position = options_.rank_of_position;
    for (auto rank = static_cast<int32_t>(rank_of_position.size()); rank < ranks(); ++rank)
      rank_of_position.push_back(rank);
    HORING_ASSIGN(Schedule schedule, buildSchedule(options_.algorithm, options_.collective, options_.shape,
                                                   position, options_.root));
    Ports ports{*this, position};
    HORING_ASSIGN(auto plan, cuda::BoundPlan::make(std::move(schedule), options_.plan, rank_of_position, {},
                                                   abort, memory_, ports));
    plans_.push_back(std::move(plan));
    return {};
  }

  struct Ports final : cuda::PortSource {
    Ports(GpuWorld& w, int32_t own) : world(w), position(own) {}
    Result<cuda::Port*> port(const cuda::PortName& name, int32_t part) override {
      if (name.queue >= 0) {
        HORING_ASSIGN(cuda::Port* const ends, world.scratch(position, name.queue, part));
        return name.kind == cuda::PortName::Kind::kScratchSend ? ends : ends + 1;
      }
      const bool sends = name.kind == cuda::PortName::Kind::kSend;
      if (world.isBridged(position, name.position)) return world.bridge(position, name, part);
      HORING_ASSIGN(cuda::Port* const ends, sends ? world.queue(position, name.position, name.channel, part)
                                                  : world.queue(name.position, position, name.channel, part));
      return sends ? ends : ends + 1;
    }
    Result<cuda::Activity*> activity(size_t blocks) override {
      HORING_ASSIGN(std::byte* const at, world.memory_.allocate(blocks * sizeof(cuda::Activity)));
      auto* const activity = reinterpret_cast<cuda::Activity*>(at);
      world.activities_[static_cast<size_t>(position)] = {activity, blocks};
      return activity;
    }
    GpuWorld& world;
    int32_t position;
  };

  // The kernel's end of a queue with its host.
  Result<cuda::Port*> bridge(int32_t position, const cuda::PortName& name, int32_t part) {
    HORING_ASSIGN(const cuda::Queue queue,
                  cuda::makeQueue({options_.slots, options_.plan.slot_bytes}, memory_, memory_));
    HORING_ASSIGN(std::byte* const at, memory_.allocate(sizeof(cuda::Port)));
    const bool sends = name.kind == cuda::PortName::Kind::kSend;
    HORING_TRY(memory_.write(at, sends ? &queue.send : &queue.receive, sizeof(cuda::Port)));
    Link& carrier = *link(position, name.position);
    HostOfGpu& host = hosts_[static_cast<size_t>(position)];
    const int channel = cuda::bridgeChannel(name.channel, part);
    if (sends) {
      host.outgoing.emplace_back(queue.receive, carrier.sender(channel));
    } else {
      host.incoming.emplace_back(queue.send, carrier.receiver(channel));
    }
    return reinterpret_cast<cuda::Port*>(at);
  }

  // Both ends of a queue, made when first asked for.
  Result<cuda::Port*> queue(int32_t from, int32_t to, int32_t channel, int32_t part) {
    const int32_t number = ((from * ranks() + to) * kLinkChannels + channel) * options_.plan.parts + part;
    return make(queues_[static_cast<size_t>(number)]);
  }
  Result<cuda::Port*> scratch(int32_t position, int32_t queue, int32_t part) {
    return make(scratch_[{position, queue, part}]);
  }
  Result<cuda::Port*> make(cuda::Port*& ends) {
    if (ends) return ends;
    HORING_ASSIGN(const cuda::Queue queue,
                  cuda::makeQueue({options_.slots, options_.plan.slot_bytes}, memory_, memory_));
    HORING_ASSIGN(std::byte* const at, memory_.allocate(sizeof queue));
    HORING_TRY(memory_.write(at, &queue, sizeof queue));
    ends = reinterpret_cast<cuda::Port*>(at);
    return ends;
  }

  GpuWorldOptions options_;
  cuda::Memory& memory_;
  std::vector<cuda::Port*> queues_;
  std::map<std::array<int32_t, 3>, cuda::Port*> scratch_;
  std::vector<Link*> links_;  // [rank * ranks + peer]
  std::vector<HostOfGpu> hosts_;
  std::vector<std::span<const cuda::Activity>> activities_;
  std::vector<std::unique_ptr<cuda::BoundPlan>> plans_;
};
static_assert(sizeof(cuda::Queue) == 2 * sizeof(cuda::Port));

}  // namespace horing::test
