#include "comm/gpu/plan_room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <vector>

#include "algorithms/catalogue.h"
#include "engine/cuda/arena.h"
#include "engine/cuda/bound_plan.h"
#include "engine/cuda/queue.h"

namespace horing {
namespace {

constexpr cuda::QueueShape kQueues{5, 4096};
constexpr size_t kPlenty = size_t{1} << 40, kBridgedBytes = 1000;
constexpr int32_t kPartsOfLinks = 4;  // further parts have spare queues

// That of a rank's GPU.
class RankMemory final : public cuda::Memory {
 public:
  Result<std::byte*> allocate(size_t bytes) override { return arena_.allocate(bytes); }
  size_t used() const override { return arena_.used(); }
  Status rewind(size_t used) override {
    arena_.rewind(used);
    return {};
  }
  Status write(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }
  Status read(void* to, const void* from, size_t bytes) override { return write(to, from, bytes); }
  size_t bytes() const override { return arena_.bytes(); }

 private:
  static constexpr size_t kBytes = size_t{32} << 20;
  const std::unique_ptr<std::byte[]> memory_{new std::byte[kBytes]};
  cuda::Arena arena_{memory_.get(), kBytes, "here"};
};

// As a team has them: to other ranks, whose queues have their place, and between lanes, which take memory.
class RankPorts final : public cuda::PortSource {
 public:
  RankPorts(RankMemory& memory, int32_t proxied) : memory_(memory), proxied_(proxied) {}
  Result<cuda::Port*> port(const cuda::PortName& name, int32_t part) override {
    const bool is_own = name.queue >= 0;
    const auto keyOf = [&](bool sends) {
      return std::tuple(sends, is_own ? -1 : name.position, is_own ? -1 : name.channel, name.queue, part);
    };
    auto& known = ports_[keyOf(name.sends())];
    if (known) return known;
    cuda::Queue queue;
    if (is_own) {
      RankMemory& place = part < kPartsOfLinks ? memory_ : spare_;
      HORING_ASSIGN(queue, cuda::makeQueue(kQueues, place, place));
      HORING_ASSIGN(ports_[keyOf(!name.sends())],
                    cuda::place(memory_, std::span<const cuda::Port>(&queue.send, 1)));
    }
    HORING_ASSIGN(known, cuda::place(memory_, std::span<const cuda::Port>(&queue.receive, 1)));
    bridged += !is_own && name.position == proxied_ && part < kPartsOfLinks ? kBridgedBytes : 0;
    return known;
  }
  Result<cuda::Activity*> activity(size_t more) override {
    blocks += more;
    return nullptr;
  }

  size_t blocks = 0, bridged = 0;

 private:
  RankMemory& memory_;
  RankMemory spare_;  // of spare queues
  const int32_t proxied_;
  std::map<std::tuple<bool, int32_t, int32_t, int32_t, int32_t>, cuda::Port*> ports_;
};

struct PlanBytes {
  std::vector<PlanRoom::Bytes> of_rank{};
  bool is_made = true;
};

// Proxies carry the queues of the first and the last rank to each other.
PlanBytes bytesOfPlan(const std::vector<Schedule>& schedules, std::span<const int32_t> ranks, int32_t parts) {
  PlanBytes taken;
  const auto last = static_cast<int32_t>(schedules.size()) - 1;
  for (const Schedule& schedule : schedules) {
    RankMemory memory;
    const auto rank = static_cast<int32_t>(taken.of_rank.size());
    RankPorts ports(memory, rank == 0 ? last : rank == last ? 0 : -1);
    uint32_t abort = 0;
    cuda::BoundPlanSettings settings;
    settings.parts = parts;
    taken.is_made =
        taken.is_made && cuda::BoundPlan::make(schedule, settings, ranks, {}, &abort, memory, ports).ok();
    taken.of_rank.push_back(
        {memory.used(), cuda::Memory::roomOf(ports.blocks * sizeof(cuda::Activity)), ports.bridged});
  }
  return taken;
}

PlanRoom roomOf(const std::vector<PlanRoom::Bytes>& of_rank) {
  std::vector<PlanRoom::Rank> ranks;
  for (const PlanRoom::Bytes& free : of_rank) ranks.push_back({free, std::vector<bool>(of_rank.size())});
  ranks.front().proxied.back() = ranks.back().proxied.front() = true;
  return {std::move(ranks), {cuda::queueBytes(kQueues), kBridgedBytes, kPartsOfLinks}};
}

// No rank asks the others: to the byte, what each takes.
TEST(PlanRoom, ReckonsWithAllThatAPlanTakesOnEachRank) {
  int plans = 0;
  for (const Shape& shape : {Shape{1, 2}, Shape{1, 5}, Shape{2, 4}, Shape{4, 2}})
    for (const Algorithm& algorithm : algorithmCatalogue())
      for (int number = 0; number < kCollectives; ++number) {
        std::vector<int32_t> all(static_cast<size_t>(shape.ranks()));
        std::iota(all.begin(), all.end(), 0);
        std::vector<Schedule> schedules;
        for (const int32_t position : all) {
          auto schedule = buildSchedule(algorithm.name, static_cast<Collective>(number), shape, position, 0);
          if (schedule.ok()) schedules.push_back(schedule.take());
        }
        if (schedules.size() != all.size()) continue;
        for (const int32_t parts : {1, 7}) {
          SCOPED_TRACE(std::string(algorithm.name) + " " + collectiveName(static_cast<Collective>(number)));
          const PlanBytes taken = bytesOfPlan(schedules, all, parts);
          EXPECT_EQ(roomOf(taken.of_rank).take(schedules, all, parts), taken.is_made);
          if (!taken.is_made) continue;
          ++plans;
          for (size_t rank = 0; rank < all.size(); ++rank)
            for (size_t PlanRoom::Bytes::*const kind :
                 {&PlanRoom::Bytes::gpu, &PlanRoom::Bytes::told, &PlanRoom::Bytes::bridged}) {
              std::vector<PlanRoom::Bytes> less = taken.of_rank;
              if (less[rank].*kind == 0) continue;
              --(less[rank].*kind);
              EXPECT_FALSE(roomOf(less).take(schedules, all, parts)) << "rank " << rank;
            }
        }
      }
  EXPECT_GT(plans, 50);
}

// Queues between lanes, most of what some plans take, are there for the next one, too; and what does not fit takes nothing.
TEST(PlanRoom, IsLeftByPlansThatShareQueues) {
  const Shape groups{4, 2};
  std::vector<int32_t> all(static_cast<size_t>(groups.ranks()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<Schedule> schedules;
  for (const int32_t position : all)
    schedules.push_back(buildSchedule("ho_leaders", Collective::kReduceScatter, groups, position, 0).take());
  int queues = 0;
  for (const Schedule& schedule : schedules)
    for (const cuda::ImageLane& lane : cuda::PlanImage::make(schedule, all, {}).lanes)
      for (const cuda::PortName& port : lane.ports) queues += port.queue >= 0 ? 1 : 0;
  ASSERT_GT(queues, 0);
  const std::vector<PlanRoom::Bytes> taken = bytesOfPlan(schedules, all, 1).of_rank;
  size_t of_one = 0;
  for (const PlanRoom::Bytes& of_rank : taken) of_one = std::max(of_one, of_rank.gpu);
  PlanRoom room = roomOf(std::vector<PlanRoom::Bytes>(all.size(), {10 * of_one, kPlenty, kPlenty}));
  int plans = 0;
  while (room.take(schedules, all, 1)) ++plans;
  EXPECT_GT(plans, 15);
  EXPECT_LT(plans, 1000);
  PlanRoom exact = roomOf(taken);
  EXPECT_FALSE(exact.take(schedules, all, 2));
  EXPECT_TRUE(exact.take(schedules, all, 1));
  EXPECT_FALSE(exact.take(schedules, all, 1));
  EXPECT_FALSE(PlanRoom().take(schedules, all, 1));
}

}  // namespace
}  // namespace horing
