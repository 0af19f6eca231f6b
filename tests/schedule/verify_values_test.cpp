// Each fault that verifyValues refuses, made by hand in the smallest schedule that can have it.
#include <gtest/gtest.h>

#include <functional>

#include "build_all.h"
#include "schedule/builder.h"
#include "schedule/network.h"
#include "schedule/postcondition.h"
#include "schedule/verify.h"

namespace horing {
namespace {

constexpr auto kAllReduce = Collective::kAllReduce;

TEST(Contract, HasARootWhereOneRankAloneHasInputOrOutput) {
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    const Contract contract = contractOf(collective);
    EXPECT_EQ(hasRoot(collective),
              contract.in == ChunkSet::kEveryAtRoot || contract.out == ChunkSet::kEveryAtRoot)
        << collectiveName(collective);
  }
}

// Two ranks, one lane each, written by `write(lane, me, other)`.
std::vector<Schedule> pair(Collective collective,
                           const std::function<void(std::vector<LaneBuilder>&, int32_t, int32_t)>& write) {
  std::vector<Schedule> all;
  for (int32_t me = 0; me < 2; ++me) {
    Schedule schedule{"hand", collective, me, 2, {1, 2}, 1, {}};
    std::vector<LaneBuilder> lanes(3);
    write(lanes, me, 1 - me);
    for (const LaneBuilder& lane : lanes) schedule.lanes.push_back(lane.build());
    while (!schedule.lanes.empty() && schedule.lanes.back().blocks.empty()) schedule.lanes.pop_back();
    all.push_back(schedule);
  }
  return all;
}

// All-reduce of two chunks by exchanging everything; right.
void exchange(std::vector<LaneBuilder>& lanes, int32_t, int32_t other) {
  for (int32_t chunk : {0, 1}) lanes[0].at(chunk).read(kInput).send(other);
  for (int32_t chunk : {0, 1}) lanes[0].at(chunk).recv(other).fold(kInput).complete().keep(kOutput);
}

void expectRefused(const std::vector<Schedule>& all, InPlace in_place, const std::string& why) {
  const Status status = verifyValues(all, in_place);
  ASSERT_FALSE(status.ok()) << "expected: " << why;
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find(why), std::string::npos) << status.message() << "\nexpected: " << why;
}

TEST(VerifyValues, AcceptsAnExchange) {
  const auto all = pair(kAllReduce, exchange);
  EXPECT_TRUE(verifyValues(all, InPlace::kNo).ok()) << verifyValues(all, InPlace::kNo).message();
  EXPECT_TRUE(verifyValues(all, InPlace::kYes).ok()) << verifyValues(all, InPlace::kYes).message();
}

TEST(VerifyValues, RefusesWhatWouldTakeAllMemory) {
  std::vector<Schedule> all;
  for (int32_t me = 0; me < 64; ++me) all.push_back({"hand", kAllReduce, me, 64, {4096, 4096}, 0, {}});
  expectRefused(all, InPlace::kNo, "a proof of 64 ranks, 16777216 chunks and 0 lanes takes 12288 MiB");
}

TEST(VerifyValues, RefusesDoubleCounting) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    exchange(lanes, me, other);
    if (me == 1) lanes[0].at(0).read(kOutput).fold(kInput).keep(kOutput);
  });
  expectRefused(
      all, InPlace::kNo,
      "hand all_reduce, position 1, lane 0, step 4 (chunk 0): folds the contribution of position 1 in twice");
}

TEST(VerifyValues, RefusesAMessageOfAnotherChunk) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    for (int32_t chunk : {0, 1}) lanes[0].at(chunk).read(kInput).send(other);
    for (int32_t chunk : {0, 1})
      lanes[0].at(me == 0 ? chunk : 1 - chunk).recv(other).fold(kInput).complete().keep(kOutput);
  });
  expectRefused(all, InPlace::kNo,
                "position 1, lane 0, step 2 (chunk 1): gets a value of chunk 0 from position 0");
}

TEST(VerifyValues, RefusesAScratchValueOfAnotherChunk) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    exchange(lanes, me, other);
    lanes[0].at(0).read(kOutput).keep(scratchQueue(0));
    lanes[0].at(1).read(scratchQueue(0)).keep(kOutput);
  });
  expectRefused(all, InPlace::kNo, "gets a value of chunk 0 from scratch queue 0");
}

TEST(VerifyValues, RefusesReadsOfNothing) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    lanes[0].at(0).read(kOutput).keep(kOutput);
    exchange(lanes, me, other);
  });
  for (InPlace in_place : {InPlace::kNo, InPlace::kYes})
    expectRefused(all, in_place, "reads the output chunk before anything is written there");
}

TEST(VerifyValues, RefusesChunksThatABufferDoesNotHave) {
  const auto gather = pair(Collective::kAllGather, [](auto& lanes, int32_t, int32_t other) {
    lanes[0].at(other).read(kInput).keep(kOutput);
  });
  expectRefused(gather, InPlace::kNo, "reads a chunk that the input of all_gather does not have");
  const auto scatter = pair(Collective::kReduceScatter, [](auto& lanes, int32_t, int32_t other) {
    lanes[0].at(other).read(kInput).keep(kOutput);
  });
  expectRefused(scatter, InPlace::kNo, "writes a chunk that the output of reduce_scatter does not have");
}

TEST(VerifyValues, RefusesInputThatOutputHasOverwrittenInPlace) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t, int32_t other) {
    for (int32_t chunk : {0, 1}) lanes[0].at(chunk).read(kInput).keep(kOutput).send(other);
    for (int32_t chunk : {0, 1}) lanes[0].at(chunk).recv(other).fold(kInput).complete().keep(kOutput);
  });
  EXPECT_TRUE(verifyValues(all, InPlace::kNo).ok());
  expectRefused(all, InPlace::kYes,
                "step 2 (chunk 0), in place: reads the input chunk after lane 0, step 0 has written the "
                "output over it");
}

TEST(VerifyValues, RefusesACircle) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t, int32_t other) {
    for (int32_t chunk : {0, 1}) lanes[0].at(chunk).recv(other).fold(kInput).complete().keep(kOutput);
    for (int32_t chunk : {0, 1}) lanes[0].at(chunk).read(kInput).send(other);
  });
  expectRefused(all, InPlace::kNo,
                "never ends: position 0, lane 0, step 0 waits for a message from position 1; position 1, "
                "lane 0, step 0 "
                "waits for a message from position 0; which closes the circle");
}

TEST(VerifyValues, RefusesAWaitThatIsNeverOver) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    exchange(lanes, me, other);
    lanes[1].at(0).read(kOutput).keep(kOutput).after(2, 0);
    lanes[2].at(0).read(kOutput).keep(kOutput).after(1, 0);
  });
  expectRefused(
      all, InPlace::kNo,
      "waits for its lane 2, step 0; position 0, lane 2, step 0 waits for its lane 1, step 0; which closes");
}

TEST(VerifyValues, RefusesWhatIsLeftOver) {
  auto all = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    exchange(lanes, me, other);
    if (me == 1) lanes[0].at(1).read(kOutput).send(other);
  });
  expectRefused(all, InPlace::kNo, "position 1, lane 0 sends chunk 1 to position 0, which never receives it");
  all = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    exchange(lanes, me, other);
    lanes[0].at(1).read(kOutput).keep(scratchQueue(0));
  });
  expectRefused(all, InPlace::kNo, "position 0: a value of chunk 1 is left in scratch queue 0");
}

TEST(VerifyValues, RefusesWrongResults) {
  auto all =
      pair(kAllReduce, [](auto& lanes, int32_t, int32_t) { lanes[0].at(0).read(kInput).keep(kOutput); });
  expectRefused(all, InPlace::kNo, "position 0: output chunk 0 ends without the contribution of position 1");
  all = pair(kAllReduce, [](auto& lanes, int32_t, int32_t other) {
    lanes[0].at(0).read(kInput).send(other);
    lanes[0].at(0).recv(other).fold(kInput).complete().keep(kOutput);
  });
  expectRefused(all, InPlace::kNo, "position 0: output chunk 1 is never written");
  expectRefused(all, InPlace::kYes, "position 0, in place: output chunk 1 is never written");
  all = pair(Collective::kReduceScatter,
             [](auto& lanes, int32_t me, int32_t) { lanes[0].at(me).read(kInput).keep(kOutput); });
  expectRefused(all, InPlace::kNo, "position 0: output chunk 0 ends without the contribution of position 1");
}

TEST(VerifyValues, RefusesCompletionsInTheWrongPlace) {
  const auto all = pair(kAllReduce, exchange);
  const auto changed = [&](size_t step) {
    auto mutant = all;
    Step& at = mutant[0].lanes[0].blocks[0].body[step];
    at.completes = !at.completes;
    return mutant;
  };
  expectRefused(changed(0), InPlace::kNo, "completes the chunk without the contribution of position 1");
  expectRefused(changed(2), InPlace::kNo, "position 0: output chunk 0 is never completed");
  expectRefused(pair(kAllReduce,
                     [](auto& lanes, int32_t me, int32_t other) {
                       exchange(lanes, me, other);
                       lanes[0].at(0).read(kOutput).complete().keep(kOutput);
                     }),
                InPlace::kNo, "completes the chunk a second time");
  auto gather = buildAll("ring", Collective::kAllGather, {1, 2});
  gather[0].lanes[0].blocks[0].body[0].completes = true;
  expectRefused(gather, InPlace::kNo, "completes a chunk, but nothing is folded here");
}

// Races: lane 1 touches what lane 0 writes, with nothing between them.
TEST(VerifyValues, RefusesAReadThatDoesNotWaitForTheWrite) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    exchange(lanes, me, other);
    if (me == 0) return;
    lanes[1].at(0).read(kOutput).keep(scratchQueue(0)).after(0, 1);
    lanes[1].at(0).read(scratchQueue(0)).keep(kOutput);
  });
  expectRefused(all, InPlace::kNo,
                "position 1, lane 1, step 0 (chunk 0): data race: reads the output chunk, written by lane 0, "
                "step 2, without waiting");
}

TEST(VerifyValues, RefusesAWriteThatDoesNotWaitForTheRead) {
  const auto racing = [](int32_t wait_step) {
    return pair(kAllReduce, [wait_step](auto& lanes, int32_t me, int32_t other) {
      exchange(lanes, me, other);
      lanes[0].at(1).read(kOutput).keep(scratchQueue(0));  // step 4
      lanes[1].at(1).read(kOutput).keep(kOutput).after(0, wait_step);
      lanes[1].at(1).read(scratchQueue(0)).keep(kOutput);
    });
  };
  EXPECT_TRUE(verifyValues(racing(4), InPlace::kNo).ok()) << verifyValues(racing(4), InPlace::kNo).message();
  expectRefused(
      racing(3), InPlace::kNo,
      "lane 1, step 0 (chunk 1): data race: writes the output chunk while lane 0, step 4 may still read it");
}

TEST(VerifyValues, RefusesTwoWritesInNoOrder) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    exchange(lanes, me, other);
    for (int32_t chunk : {0, 1}) lanes[1].at(chunk).read(kInput).send(other);
    for (int32_t chunk : {0, 1}) lanes[1].at(chunk).recv(other).fold(kInput).complete().keep(kOutput);
  });
  expectRefused(
      all, InPlace::kNo,
      "data race: writes the output chunk, as lane 0, step 2 does, and neither waits for the other");
}

// In place the input is memory that lane 1 overwrites while lane 0 may not have sent it yet.
TEST(VerifyValues, SeesRacesThatOnlyInPlaceHas) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t, int32_t other) {
    for (int32_t chunk : {0, 1}) lanes[0].at(chunk).read(kInput).send(other);
    for (int32_t chunk : {0, 1}) lanes[0].at(chunk).recv(other).keep(scratchQueue(0));
    for (int32_t chunk : {0, 1})
      lanes[1].at(chunk).read(scratchQueue(0)).fold(kInput).complete().keep(kOutput);
    lanes[2].at(0).read(kInput).send(other);
    lanes[2].at(0).recv(other).keep(kOutput).after(1, 0);
  });
  EXPECT_NE(verifyValues(all, InPlace::kNo).message().find("ends without"), std::string::npos);
  expectRefused(all, InPlace::kYes, "data race");
}

// Lane 2 of position 0 reads the input that lane 0 overwrites in place. The two are ordered at position 1: it answers lane 0 only
// after a message from lane 2.
TEST(VerifyValues, FollowsOrderThroughOtherRanks) {
  const auto around = [](bool answers_late) {
    auto all = pair(kAllReduce, [answers_late](auto& lanes, int32_t me, int32_t other) {
      if (me == 0) {
        lanes[0].at(0).read(kInput).send(other);
        lanes[0].at(0).recv(other).keep(kOutput);
        lanes[2].at(0).read(kInput).send(other);
        return;
      }
      auto answer = lanes[0].at(0);
      answer.recv(other).fold(kInput).complete().keep(scratchQueue(0)).send(other);
      if (answers_late) answer.after(2, 0);
      lanes[0].at(0).read(scratchQueue(1)).keep(kOutput);
      lanes[0].at(0).read(scratchQueue(0)).keep(kOutput);
      lanes[2].at(0).recv(other).keep(scratchQueue(1));
    });
    for (Schedule& schedule : all) schedule.grid = {1, 1}, schedule.scratch_queues = 2;
    return all;
  };
  for (InPlace in_place : {InPlace::kNo, InPlace::kYes})
    EXPECT_TRUE(verifyValues(around(true), in_place).ok()) << verifyValues(around(true), in_place).message();
  EXPECT_TRUE(verifyValues(around(false), InPlace::kNo).ok())
      << verifyValues(around(false), InPlace::kNo).message();
  const Status racing = verifyValues(around(false), InPlace::kYes);
  ASSERT_FALSE(racing.ok());
  EXPECT_NE(racing.message().find("position 0, lane "), std::string::npos) << racing.message();
}

// Shape: what Network::build() refuses.
struct ShapeFault {
  const char* why;
  std::function<void(std::vector<Schedule>&)> make;
};

Step& firstStep(std::vector<Schedule>& all) {
  return all[1].lanes[0].blocks[0].body[0];
}

TEST(VerifyValues, RefusesMalformedSchedules) {
  const ShapeFault faults[] = {
      {"chunk 2 is outside the grid of 2", [](auto& all) { firstStep(all).chunk = 2; }},
      {"chunk -1 is outside the grid of 2", [](auto& all) { firstStep(all).chunk = -1; }},
      {"has no source", [](auto& all) { firstStep(all).sources.clear(); }},
      {"1025 sources or signals; at most 1024 are possible",
       [](auto& all) { firstStep(all).sources.resize(kMaxSources + 1); }},
      {"neither keeps nor sends", [](auto& all) { firstStep(all).send_to = -1; }},
      {"sends to its own position", [](auto& all) { firstStep(all).send_to = 1; }},
      {"sends to position 2 of 2", [](auto& all) { firstStep(all).send_to = 2; }},
      {"sends to position -2 of 2", [](auto& all) { firstStep(all).send_to = -2; }},
      {"receives from position 5 of 2",
       [](auto& all) {
         firstStep(all).sources = {{Source::Kind::kRecv, 5}};
       }},
      {"receives from its own position",
       [](auto& all) {
         firstStep(all).sources = {{Source::Kind::kRecv, 1}};
       }},
      {"receives twice from position 0",
       [](auto& all) {
         firstStep(all).sources.assign(2, {Source::Kind::kRecv, 0});
       }},
      {"reads the same place twice", [](auto& all) { firstStep(all).sources.resize(2); }},
      {"names scratch queue 1 of 1",
       [](auto& all) {
         firstStep(all).sources = {{Source::Kind::kScratch, 1}};
       }},
      {"names scratch queue -1 of 1",
       [](auto& all) {
         firstStep(all).keep = {Keep::Kind::kScratch, -1};
       }},
      {"reads an unknown space",
       [](auto& all) {
         firstStep(all).sources = {{static_cast<Source::Kind>(9), 0}};
       }},
      {"keeps its value in an unknown space",
       [](auto& all) {
         firstStep(all).keep = {static_cast<Keep::Kind>(9), 0};
       }},
      {"gives an index, 3, to a source that has none",
       [](auto& all) { firstStep(all).sources[0].index = 3; }},
      {"gives an index, 3, to a keep that has none",
       [](auto& all) {
         firstStep(all).keep = {Keep::Kind::kOut, 3};
       }},
      {"waits for lane 1 of 1",
       [](auto& all) {
         firstStep(all).wait = {1, 0, 0};
       }},
      {"waits for steps 4 to 4 of lane 0, which has 4",
       [](auto& all) {
         firstStep(all).wait = {0, 4, 0};
       }},
      {"waits for steps -1 to -1 of lane 0",
       [](auto& all) {
         firstStep(all).wait = {0, -1, 0};
       }},
      {"waits for a step of no lane",
       [](auto& all) {
         firstStep(all).wait = {-1, 2, 0};
       }},
      {"a block repeats -1 times", [](auto& all) { all[1].lanes[0].blocks[0].count = -1; }},
      {"more than 32767 steps", [](auto& all) { all[1].lanes[0].blocks[0].count = 10000; }},
      {"9 lanes; at most 8 are possible", [](auto& all) { all[1].lanes.resize(kMaxLanes + 1); }},
      {"1025 scratch queues; at most 1024 are possible", [](auto& all) { all[1].scratch_queues = 1025; }},
      {"is at index 1 of the list", [](auto& all) { all[1].position = 0; }},
      {"is for 3 ranks, but 2 schedules are given", [](auto& all) { all[1].ranks = 3; }},
      {"differs from position 0", [](auto& all) { all[1].collective = Collective::kAllGather; }},
      {"differs from position 0", [](auto& all) { all[1].algorithm = "other"; }},
      {"a grid of 0 x 2", [](auto& all) { all[0].grid.rows = all[1].grid.rows = 0; }},
      {"a grid of 65536 x 65536",
       [](auto& all) {
         all[0].grid = all[1].grid = {65536, 65536};
       }},
      {"has one chunk per rank",
       [](auto& all) {
         for (Schedule& schedule : all) schedule.collective = Collective::kAllGather, schedule.grid = {1, 3};
       }},
  };
  for (const ShapeFault& fault : faults) {
    auto all = pair(kAllReduce, exchange);
    fault.make(all);
    expectRefused(all, InPlace::kNo, fault.why);
  }
}

TEST(VerifyValues, RefusesScratchQueuesSharedAtOneEnd) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    exchange(lanes, me, other);
    lanes[0].at(0).read(kOutput).keep(scratchQueue(0));
    lanes[1].at(0).read(scratchQueue(0)).keep(kOutput);
    lanes[2].at(0).read(scratchQueue(0)).keep(kOutput);
  });
  expectRefused(all, InPlace::kNo, "lanes 1 and 2 both empty scratch queue 0");
}

// Reduce-scatter by reading each other's input; right. Lane 0 signals, lane 1 reads.
void readEachOther(std::vector<LaneBuilder>& lanes, int32_t me, int32_t other) {
  lanes[0].at(0).signal({other});
  lanes[0].at(0).await({other});
  lanes[0].at(0).signal({other}).after(1, 0);
  lanes[0].at(0).await({other});
  lanes[1].at(me).readInputOf(other).fold(kInput).complete().keep(kOutput).after(0, 1);
}

std::vector<Schedule> readers(const std::function<void(std::vector<Schedule>&)>& change) {
  auto all = pair(Collective::kReduceScatter, readEachOther);
  change(all);
  return all;
}
std::vector<Step>& bodyOf(Schedule& schedule, size_t lane) {
  return schedule.lanes[lane].blocks[0].body;
}

TEST(VerifyValues, AcceptsReadsOfAPeerBetweenReadyAndReleased) {
  for (InPlace in_place : {InPlace::kNo, InPlace::kYes}) {
    const Status status = verifyValues(readers([](auto&) {}), in_place);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(VerifyValues, RefusesReadsOfAPeerThatMayNotBeReady) {
  expectRefused(
      readers([](auto& all) { bodyOf(all[1], 1)[0].wait = {}; }), InPlace::kNo,
      "position 1, lane 1, step 0 (chunk 1): reads the input of position 0 without a signal that it "
      "is ready");
  // Its own step does not order the other.
  expectRefused(readers([](auto& all) { bodyOf(all[1], 1)[0].wait.step = 0; }), InPlace::kNo, "is ready");
}

TEST(VerifyValues, RefusesOwnersThatMayEndWhileSomebodyReads) {
  expectRefused(readers([](auto& all) {
                  for (Schedule& schedule : all) bodyOf(schedule, 0).resize(2);
                }),
                InPlace::kNo,
                "position 0 may end while position 1, lane 1, step 0 still reads chunk 1 of its input");
  // Released before it has read.
  expectRefused(readers([](auto& all) { bodyOf(all[1], 0)[2].wait = {}; }), InPlace::kNo,
                "position 0 may end while position 1");
}

TEST(VerifyValues, RefusesWritesOverAnInputThatAPeerMayRead) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    readEachOther(lanes, me, other);
    // The other chunk, which only the peer reads, is made from both.
    lanes[2].at(other).readInputOf(other).fold(kInput).complete().keep(kOutput).after(0, 1);
  });
  Status status = verifyValues(all, InPlace::kYes);
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(status.message().find("over the input while position") != std::string::npos ||
              status.message().find("writes the output over it") != std::string::npos)
      << status.message();
}

TEST(VerifyValues, RefusesInputsThatAPeerDoesNotHave) {
  const auto all = pair(Collective::kAllGather, [](auto& lanes, int32_t me, int32_t other) {
    readEachOther(lanes, me, other);
    lanes[1].at(me).readInputOf(other).keep(kOutput);
  });
  expectRefused(all, InPlace::kNo, "reads a chunk that the input of position 1 does not have");
}

TEST(VerifyValues, RefusesSignalsAmongData) {
  const std::pair<const char*, std::function<void(std::vector<Schedule>&)>> faults[] = {
      {"moves data in a lane of signals", [](auto& all) { bodyOf(all[0], 1)[0].signal_to = {1}; }},
      {"signals in a lane that moves data",
       [](auto& all) {
         bodyOf(all[0], 1)[0].sources.push_back({Source::Kind::kSignal, 1});
       }},
      {"moves data in a lane of signals", [](auto& all) { bodyOf(all[0], 0)[1].completes = true; }},
      {"moves data in a lane of signals", [](auto& all) { bodyOf(all[0], 0)[1].chunk = 1; }},
      {"moves data in a lane of signals",
       [](auto& all) {
         bodyOf(all[0], 0)[1] = {0, {{Source::Kind::kIn, 0}}, {Keep::Kind::kOut, 0}};
       }},
      {"reads data in a lane of signals",
       [](auto& all) {
         bodyOf(all[0], 0)[1].sources.push_back({Source::Kind::kIn, 0});
       }},
      {"signals twice to one position",
       [](auto& all) {
         bodyOf(all[0], 0)[0].signal_to = {1, 1};
       }},
      {"signals to its own position", [](auto& all) { bodyOf(all[0], 0)[0].signal_to = {0}; }},
      {"signals to position 2 of 2", [](auto& all) { bodyOf(all[0], 0)[0].signal_to = {2}; }},
      {"awaits a signal from its own position", [](auto& all) { bodyOf(all[0], 0)[1].sources[0].index = 0; }},
      {"reads the input of its own position", [](auto& all) { bodyOf(all[0], 1)[0].sources[0].index = 0; }},
      {"position 0, lane 0 sends a signal to position 1, which never receives it",
       [](auto& all) { bodyOf(all[0], 0)[3].signal_to = {1}; }},
  };
  for (const auto& [why, change] : faults) expectRefused(readers(change), InPlace::kNo, why);
}

TEST(VerifyValues, RefusesSignalsWhereValuesAreDueAndValuesWhereSignalsAre) {
  const auto all = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    exchange(lanes, me, other);
    if (me == 1) lanes[0] = LaneBuilder(), lanes[0].at(0).signal({other});
  });
  expectRefused(all, InPlace::kNo, "gets a signal from position 1 where a value is due");
  const auto other_way = pair(kAllReduce, [](auto& lanes, int32_t me, int32_t other) {
    exchange(lanes, me, other);
    if (me == 1) lanes[0] = LaneBuilder(), lanes[0].at(0).await({other});
  });
  expectRefused(other_way, InPlace::kNo, "gets a value of chunk 0 from position 0 where a signal is due");
}

TEST(VerifyValues, RefusesNoAndTooManySchedules) {
  expectRefused({}, InPlace::kNo, "0 schedules to verify");
  expectRefused(std::vector<Schedule>(kMaxVerifiedRanks + 1), InPlace::kNo, "4097 schedules to verify");
}

TEST(VerifyValues, WalksRepeatsWithoutUnrolling) {
  auto all = buildAll("ring", kAllReduce, {1, 200});
  EXPECT_TRUE(verifyValues(all, InPlace::kYes).ok());
  all[120].lanes[0].blocks[1].column_stride = 1;
  EXPECT_FALSE(verifyValues(all, InPlace::kYes).ok());
}

}  // namespace
}  // namespace horing
