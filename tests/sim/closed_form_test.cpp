// Without slices the simulator must give what can be worked out by hand, to the last picosecond.
//
// te = a_e + c b_e is one hop of a chunk of c bytes between nodes, ti the all-gather (or reduce-scatter) of a row inside a node:
// (m-1)(a_i + c b_i) for a ring, a_i + (m-1) c b_i for direct exchange.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/wire_bound.h"
#include "simulated.h"

namespace horing {
namespace {

struct Case {
  Shape shape;
  double intra_gbytes_per_s;  // 1000 / this is a whole number of picoseconds for a byte
};

constexpr int64_t kChunk = 4096;  // bytes
constexpr int64_t kLatencyBetween = 5'000'000, kLatencyInside = 2'000'000, kPerByteBetween = 80;

MachineModel machineOf(const Case& c) {
  MachineModel machine;
  machine.between = {5, 12.5, 0, 0};
  machine.inside = {2, c.intra_gbytes_per_s, 0, 0};
  return machine;
}

class ClosedForm : public testing::TestWithParam<Case> {
 protected:
  Picoseconds timeOf(const char* algorithm, Collective collective) const {
    const Shape shape = GetParam().shape;
    return simulated({algorithm, collective, shape, static_cast<uint64_t>(kChunk * shape.ranks()),
                      machineOf(GetParam()), unsliced()})
        .time;
  }
  int64_t perByteInside() const { return std::llround(1000 / GetParam().intra_gbytes_per_s); }
  int64_t groups() const { return GetParam().shape.groups; }
  int64_t members() const { return GetParam().shape.members; }
  // (M-1) * max(te, ti) + ti
  int64_t overlapped(int64_t inside) const {
    const int64_t between = kLatencyBetween + kChunk * kPerByteBetween;
    return (groups() - 1) * std::max(between, inside) + inside;
  }
  int64_t ringInside() const { return (members() - 1) * (kLatencyInside + kChunk * perByteInside()); }
  int64_t directInside() const {
    return members() == 1 ? 0 : kLatencyInside + (members() - 1) * kChunk * perByteInside();
  }
};

TEST_P(ClosedForm, IsThatOfHoRing) {
  EXPECT_EQ(timeOf("ho_ring", Collective::kAllGather), overlapped(ringInside()));
  EXPECT_EQ(timeOf("ho_ring", Collective::kReduceScatter), overlapped(ringInside()));
  EXPECT_EQ(timeOf("ho_ring", Collective::kAllReduce), 2 * overlapped(ringInside()));
}

TEST_P(ClosedForm, IsThatOfHoRingWithDirectExchangeInside) {
  EXPECT_EQ(timeOf("ho_ring_direct", Collective::kAllGather), overlapped(directInside()));
  EXPECT_EQ(timeOf("ho_ring_direct", Collective::kReduceScatter), overlapped(directInside()));
  EXPECT_EQ(timeOf("ho_ring_direct", Collective::kAllReduce), 2 * overlapped(directInside()));
}

// Rows that take longer inside than a hop between, and the other way round.
INSTANTIATE_TEST_SUITE_P(Shapes, ClosedForm,
                         testing::Values(Case{{2, 4}, 100}, Case{{4, 4}, 100}, Case{{5, 3}, 100},
                                         Case{{8, 8}, 200}, Case{{4, 4}, 1}, Case{{3, 8}, 0.5},
                                         Case{{7, 2}, 8}, Case{{16, 8}, 125}));

// Every rank at once, all links alike: n - 1 hops, twice for all-reduce.
TEST(FlatRing, TakesOneHopLessThanRanks) {
  MachineModel machine;
  machine.between = machine.inside = {3, 10, 0, 0};
  const Picoseconds hop = 3'000'000 + kChunk * 100;
  for (const Shape& shape : {Shape{1, 2}, Shape{1, 7}, Shape{4, 4}, Shape{16, 1}}) {
    const uint64_t bytes = static_cast<uint64_t>(kChunk * shape.ranks());
    const int64_t n = shape.ranks();
    EXPECT_EQ(simulated({"ring", Collective::kAllGather, shape, bytes, machine, unsliced()}).time,
              (n - 1) * hop);
    EXPECT_EQ(simulated({"ring", Collective::kReduceScatter, shape, bytes, machine, unsliced()}).time,
              (n - 1) * hop);
    EXPECT_EQ(simulated({"ring", Collective::kAllReduce, shape, bytes, machine, unsliced()}).time,
              2 * (n - 1) * hop);
  }
}

// The m rails of a node take turns on its NIC: the first waits for nobody, and the last, whose turn comes m - 1 chunks later, finds the NIC
// idle again in the next hop, since the latency is longer than that.
TEST(SharedNic, IsTakenInTurnsByTheRails) {
  MachineModel machine;
  machine.nic = Owner::kNode;
  machine.between = {5, 12.5, 0, 0};
  machine.inside = {};
  const Shape shape{4, 8};
  const uint64_t bytes = static_cast<uint64_t>(kChunk * shape.ranks());
  EXPECT_EQ(simulated({"ho_ring", Collective::kAllGather, shape, bytes, machine, unsliced()}).time,
            3 * kLatencyBetween + (8 + 1 + 1) * kChunk * kPerByteBetween);
  machine.between.latency_us = 0;
  EXPECT_EQ(simulated({"ho_ring", Collective::kAllGather, shape, bytes, machine, unsliced()}).time,
            wireBound(Collective::kAllGather, static_cast<double>(bytes), [&] {
              machine.nodes = shape.groups;
              machine.ranks_per_node = shape.members;
              return machine;
            }()));
}

// The root sends to 4, 2 and 1, one after the other; 4 sends to 6 after one message, and to 5; 6 sends to 7. All of 3, 5, 6 and 7 have it
// after three messages, and 7 after three latencies. If the root's messages shared its NIC, 7 would have to wait for six.
TEST(Messages, ThatLeaveTogetherTakeTurns) {
  MachineModel machine;
  machine.between = {5, 12.5, 0, 0};
  EXPECT_EQ(
      simulated({"binomial", Collective::kBroadcast, {8, 1}, uint64_t{kChunk}, machine, unsliced()}).time,
      3 * (kLatencyBetween + kChunk * kPerByteBetween));
}

// A chain of three hops. The first NIC passes two slices of 512 bytes at once, and the others after it at its rate, so that the NICs of the
// next nodes recover before the next slice comes and delay none.
TEST(Messages, PassARestedNicInNoTime) {
  MachineModel machine;
  machine.between = {5, 12.5, 0, 0, 0, 2 * 512};
  Pipelining sliced;
  sliced.slices_per_chunk = 8;
  EXPECT_EQ(simulated({"chain", Collective::kBroadcast, {4, 1}, 8 * 512, machine, sliced}).time,
            3 * kLatencyBetween + (8 - 2) * 512 * kPerByteBetween);
}

// R ranks with work for C cores take R / C times as long as with cores enough.
TEST(Cores, AreSharedByTheRanks) {
  MachineModel machine;
  machine.between = machine.inside = {};
  machine.step_us = 1;
  const auto timeWith = [&](double cores, Owner owner) {
    machine.cores = cores;
    machine.cores_of = owner;
    return simulated({"ring", Collective::kAllGather, {2, 8}, 16 * kChunk, machine, unsliced()}).time;
  };
  EXPECT_EQ(timeWith(0, Owner::kNode), 16 * 1'000'000);
  EXPECT_EQ(timeWith(8, Owner::kNode), 16 * 1'000'000);
  EXPECT_EQ(timeWith(2, Owner::kNode), 4 * 16 * 1'000'000);
  EXPECT_EQ(timeWith(2, Owner::kMachine), 8 * 16 * 1'000'000);
}

// Four ranks on one core, that send three messages and take three. In its turn each does all that it can: the first only sends; each of
// the next sends and takes what those before it have sent, the last of them all; then the others take what is left.
TEST(Cores, AreKeptUntilThereIsNothingToDoWhereTurnsCostSomething) {
  MachineModel machine;
  machine.inside = {};
  machine.step_us = 1;
  machine.cores = 1;
  machine.turn_us = 10;
  const Picoseconds time =
      simulated({"direct", Collective::kAllGather, {1, 4}, 4 * kChunk, machine, unsliced()}).time;
  EXPECT_EQ(time, (3 + 14 + 15 + 16 + 13 + 12 + 11) * 1'000'000);
}

// Two ranks on a core, and 15 us for a message. Rank 0 has sent at 1 us, rank 1 at 12. Rank 0 looks until 22, in vain; rank 1 until 32
// and finds the message of 16; rank 0 until 43.
TEST(Cores, AreKeptFromOthersByWhoOnlyLooks) {
  MachineModel machine;
  machine.inside = {15, 0, 0, 0};
  machine.step_us = 1;
  machine.cores = 1;
  machine.turn_us = 10;
  machine.patience_us = 1000;
  EXPECT_EQ(simulated({"direct", Collective::kAllGather, {1, 2}, 2 * kChunk, machine, unsliced()}).time,
            44 * 1'000'000);
}

// Four messages' ends of 4096 bytes at 1000 ps, one after the other on the one core; then a ring whose neighbours never share one.
TEST(Cores, HandBytesToEachOtherAtAnotherRateThanToThemselves) {
  MachineModel machine;
  machine.inside = {};
  machine.cores = 1;
  machine.turn_us = 1e-6;
  machine.patience_us = 1e6;
  machine.same_core_cpu_gbytes_per_s = 1;
  constexpr double kTurns = 100;
  EXPECT_NEAR(
      static_cast<double>(
          simulated({"direct", Collective::kAllGather, {1, 2}, 2 * kChunk, machine, unsliced()}).time),
      4 * kChunk * 1000, kTurns);
  machine.cores = 2;
  const Simulated ring{"ring", Collective::kAllGather, {1, 4}, 4 * kChunk, machine, unsliced()};
  EXPECT_NEAR(static_cast<double>(simulated(ring).time), 0, kTurns);
  Simulated apart = ring;
  std::swap(apart.machine.same_core_cpu_gbytes_per_s, apart.machine.inside.cpu_gbytes_per_s);
  EXPECT_NEAR(static_cast<double>(simulated(apart).time), 3 * 2 * 2 * kChunk * 1000, kTurns)
      << "two ranks of each core send and take three messages";
}

// Two hops of one message each: both ends of each pay, for the line is empty. Of four slices at once the first alone does.
TEST(Messages, PayForAnEmptyLine) {
  MachineModel machine;
  machine.between = {5, 0.001, 1, 0, 7};
  EXPECT_EQ(simulated({"ring", Collective::kAllGather, {3, 1}, 3 * kChunk, machine, unsliced()}).time,
            (8 + 4096 + 5 + 16 + 4096 + 5 + 8) * int64_t{1'000'000});
  Pipelining sliced;
  sliced.slices_per_chunk = 4;
  EXPECT_EQ(simulated({"ring", Collective::kAllGather, {2, 1}, 2 * kChunk, machine, sliced}).time,
            (8 + 4096 + 5 + 1) * int64_t{1'000'000});
}

// What is folded costs its bytes; what is only moved costs its copies.
TEST(Computing, IsPaidByTheByte) {
  MachineModel machine;
  machine.between = machine.inside = {};
  machine.fold_gbytes_per_s = 10;
  const Picoseconds fold = kChunk * 100;
  EXPECT_EQ(simulated({"ring", Collective::kReduceScatter, {1, 5}, 5 * kChunk, machine, unsliced()}).time,
            4 * fold);
  // Five operands in one pass: five are read and one is stored, in place of two and one.
  EXPECT_EQ(simulated({"direct", Collective::kReduceScatter, {1, 5}, 5 * kChunk, machine, unsliced()}).time,
            2 * fold);
  EXPECT_EQ(simulated({"ring", Collective::kAllGather, {1, 5}, 5 * kChunk, machine, unsliced()}).time, 0);
  machine.copy_gbytes_per_s = 10;
  // A slot, then three times the output and a slot, then the output.
  EXPECT_EQ(simulated({"ring", Collective::kAllGather, {1, 5}, 5 * kChunk, machine, unsliced()}).time,
            (2 + 3 * 2 + 1) * fold);
}

// A hop takes 5 us + 4096 bytes * 80 ps.
TEST(ClosedForm, ARankThatWaitedNeedsATurnOrHasToBeWoken) {
  const auto timeOf = [](double patience_us) {
    MachineModel machine = machineOf({{}, 200});
    machine.turn_us = 7;
    machine.wake_us = 30;
    machine.patience_us = patience_us;
    return simulated({"ring", Collective::kAllGather, {3, 1}, 3 * kChunk, machine, unsliced()}).time;
  };
  const int64_t hop = kLatencyBetween + kChunk * kPerByteBetween;
  EXPECT_EQ(timeOf(6), 2 * (hop + 7'000'000));
  EXPECT_EQ(timeOf(5), 2 * (hop + 30'000'000));
}

}  // namespace
}  // namespace horing
