#include "comm/tuning/machine_fit.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

// Two nodes of four ranks, 5 us of latency and 0.125 GB/s between them, on `cores` cores that all share.
MachineReadings readingsOf(double cores) {
  MachineReadings readings;
  readings.groups = 2;
  readings.members = 4;
  readings.cores = cores;
  readings.cores_of = Owner::kMachine;
  readings.large_bytes = readings.near_bytes = 1'000'000;
  readings.near_small_us = 2;
  readings.near_large_us = 202;  // 2 x 10^6 bytes copied in 100 us, and as long on the way
  readings.far_small_us = 20;
  readings.far_burst_us = 34;       // 2 us for each of seven more
  readings.far_large_us = 8020;     // 10^6 bytes on the line in 8000 us
  readings.far_handling_us = 2100;  // 2 x 10^6 copied in 100 us, handled in 2000 us
  readings.far_shared_us = 32'020;  // four pairs
  readings.sharing = 4;
  readings.wake_us = 30;
  readings.patience_us = 500;
  readings.fold_gbytes_per_s = 40 / 3.0;
  return readings;
}

TEST(MachineFit, FindsLatencyRateAndWhoSharesALine) {
  const MachineModel machine = fitMachine(readingsOf(8));
  EXPECT_EQ(machine.nodes, 2);
  EXPECT_EQ(machine.ranks_per_node, 4);
  EXPECT_DOUBLE_EQ(machine.step_us, 1);
  EXPECT_DOUBLE_EQ(machine.inside.latency_us, 0);
  EXPECT_DOUBLE_EQ(machine.copy_gbytes_per_s, 20);
  EXPECT_DOUBLE_EQ(machine.inside.cpu_gbytes_per_s, 20);
  EXPECT_DOUBLE_EQ(machine.fold_gbytes_per_s, 13.33);
  EXPECT_DOUBLE_EQ(machine.between.latency_us, 18);
  EXPECT_DOUBLE_EQ(machine.between.message_us, 0);
  EXPECT_DOUBLE_EQ(machine.between.gbytes_per_s, 0.125);
  EXPECT_DOUBLE_EQ(machine.between.cpu_gbytes_per_s, 1);
  EXPECT_EQ(machine.nic, Owner::kNode);
  EXPECT_EQ(machine.cores_of, Owner::kMachine);
  EXPECT_DOUBLE_EQ(machine.wake_us, 30);
  EXPECT_DOUBLE_EQ(machine.patience_us, 500);
}

// What differs by less is noise.
TEST(MachineFit, TakesTheMedianOfPairsUnlessOneIsFar) {
  const TimeOfPairs equal = timeOfPairs({{2.2, 0, 1}, {2.0, 2, 3}, {2.9, 4, 5}});
  EXPECT_DOUBLE_EQ(equal.us, 2.2);
  EXPECT_TRUE(equal.unequal.empty()) << equal.unequal;
  const TimeOfPairs unequal = timeOfPairs({{2.2, 0, 1}, {9.5, 2, 3}, {2.0, 4, 5}});
  EXPECT_DOUBLE_EQ(unequal.us, 9.5);
  EXPECT_DOUBLE_EQ(unequal.median_us, 2.2);
  EXPECT_EQ(unequal.unequal, "ranks 2 and 3 take 9.5 us, the median of 3 pairs is 2.2 us");
  EXPECT_DOUBLE_EQ(timeOfPairs({{7, 0, 1}}).us, 7);
  EXPECT_DOUBLE_EQ(timeOfPairs({{7, 0, 1}, {20, 2, 3}}).us, 20);
}

// Both ranks' copies, of 100 us each, are one after the other; what else it takes, 20 us, is of both, too.
TEST(MachineFit, TellsMessagesOnOneCoreFromThoseBetweenTwo) {
  MachineReadings readings = readingsOf(2);
  EXPECT_DOUBLE_EQ(fitMachine(readings).same_core_cpu_gbytes_per_s, 20)
      << "as between two where none was read";
  readings.same_core_small_us = 4;
  readings.same_core_large_us = 224;
  EXPECT_DOUBLE_EQ(fitMachine(readings).same_core_cpu_gbytes_per_s, 200);
  EXPECT_DOUBLE_EQ(fitMachine(readings).inside.cpu_gbytes_per_s, 20);
  readings.same_core_large_us = 150;
  EXPECT_DOUBLE_EQ(fitMachine(readings).same_core_cpu_gbytes_per_s, 0) << "nothing but the copies";
}

TEST(MachineFit, GivesEachRankALineWherePairsDoNotSlowEachOther) {
  MachineReadings readings = readingsOf(8);
  readings.far_shared_us = 9000;
  EXPECT_EQ(fitMachine(readings).nic, Owner::kRank);
  EXPECT_DOUBLE_EQ(fitMachine(readings).between.gbytes_per_s, 0.125);
}

// Eight ranks on two cores: a quarter of the time of a crowd's exchange is what a core spends on it.
TEST(MachineFit, TellsCoresFromLatencyByCrowds) {
  MachineReadings readings = readingsOf(2);
  readings.near_crowd_us = 4;
  const MachineModel machine = fitMachine(readings);
  EXPECT_DOUBLE_EQ(machine.step_us, 0.5);
  EXPECT_DOUBLE_EQ(machine.inside.latency_us, 1);
  EXPECT_DOUBLE_EQ(machine.between.message_us, 0.5);
  EXPECT_DOUBLE_EQ(machine.cores, 2);
}

// A crowd's exchange costs a core 5 us, a pair's 2: the rest is the wait for a turn.
TEST(MachineFit, TellsTurnsFromStepsByCrowds) {
  MachineReadings readings = readingsOf(2);
  readings.near_crowd_us = 20;
  readings.far_crowd_us = 60;
  const MachineModel machine = fitMachine(readings);
  EXPECT_DOUBLE_EQ(machine.step_us, 1);
  EXPECT_DOUBLE_EQ(machine.turn_us, 3);
  EXPECT_DOUBLE_EQ(machine.between.message_us, 0);
  EXPECT_DOUBLE_EQ(machine.between.start_us, 5)
      << "of the 12 us without the turn, each end, beyond the burst's 1";
  EXPECT_DOUBLE_EQ(machine.between.latency_us, 8);
  readings.far_crowd_us = 600;
  EXPECT_DOUBLE_EQ(fitMachine(readings).between.start_us, 9) << "all that it takes alone";
  EXPECT_DOUBLE_EQ(fitMachine(readings).between.latency_us, 0);
  EXPECT_DOUBLE_EQ(fitMachine(readingsOf(8)).turn_us, 0);
}

// Seven more exchanges at once take 1.4 us: 0.2 us each for a core, and one by itself 1.8 us of latency. A crowd's costs a core 5 us.
TEST(MachineFit, TellsStepsFromLatencyByBursts) {
  MachineReadings readings = readingsOf(8);
  readings.near_burst_us = 3.4;
  EXPECT_DOUBLE_EQ(fitMachine(readings).step_us, 0.1);
  EXPECT_DOUBLE_EQ(fitMachine(readings).inside.latency_us, 1.8);
  readings.near_burst_us = 1;
  EXPECT_DOUBLE_EQ(fitMachine(readings).step_us, 0.05) << "noise";
  readings = readingsOf(2);
  readings.near_burst_us = 3.4;
  readings.near_crowd_us = 20;
  EXPECT_DOUBLE_EQ(fitMachine(readings).step_us, 0.1);
  EXPECT_DOUBLE_EQ(fitMachine(readings).turn_us, 4.8);
  readings = readingsOf(8);
  readings.far_burst_us = 90;
  EXPECT_DOUBLE_EQ(fitMachine(readings).between.message_us, 4) << "each end of 10 us, without its step";
  EXPECT_DOUBLE_EQ(fitMachine(readings).between.latency_us, 10);
  readings.far_burst_us = 0;
  EXPECT_DOUBLE_EQ(fitMachine(readings).between.latency_us, 0) << "cannot be told";
}

// 98,304 bytes each: three more take 3072 us, so one takes 1024, but the first took half of that: the other half passed at once. Of the
// 8000 us for 10^6 bytes none is for these.
TEST(MachineFit, TellsWhatPassesARestedLinkAtOnce) {
  MachineReadings readings = readingsOf(8);
  EXPECT_DOUBLE_EQ(fitMachine(readings).between.burst_bytes, 0) << "where none was read";
  readings.far_rested_us = 20 + 512;
  readings.far_rested_more_us = 20 + 512 + 3 * 1024;
  readings.far_shared_us = 9000;
  EXPECT_DOUBLE_EQ(fitMachine(readings).between.burst_bytes, 49150);
  EXPECT_NEAR(fitMachine(readings).between.gbytes_per_s, (1'000'000 - 49152) / 8e6, 1e-4);
  readings.far_shared_us = 32'020;
  EXPECT_NEAR(fitMachine(readings).between.gbytes_per_s, (4'000'000 - 49152) / 32e6, 1e-4) << "of the node";
  readings.far_rested_us = readings.far_small_us;
  readings.far_rested_more_us = readings.far_small_us + 1024;
  EXPECT_DOUBLE_EQ(fitMachine(readings).between.burst_bytes, 98'300) << "as much as was sent";
  for (const double first_us : {950.0, 1024.0, 2000.0}) {
    readings.far_rested_us = 20 + first_us;
    readings.far_rested_more_us = readings.far_rested_us + 3 * 1024;
    EXPECT_DOUBLE_EQ(fitMachine(readings).between.burst_bytes, 0) << "noise: " << first_us;
  }
}

// Another program had the cores while small messages were measured.
TEST(MachineFit, FindsARateInNoise) {
  MachineReadings readings = readingsOf(8);
  readings.near_small_us = 500;
  readings.far_small_us = 9000;
  readings.far_handling_us = 100;
  const MachineModel machine = fitMachine(readings);
  EXPECT_DOUBLE_EQ(machine.copy_gbytes_per_s, 20);
  EXPECT_DOUBLE_EQ(machine.inside.cpu_gbytes_per_s, 2000);
  EXPECT_NEAR(machine.between.gbytes_per_s, 1000 / 4010.0, 0.001);
  EXPECT_DOUBLE_EQ(machine.between.cpu_gbytes_per_s, 40);
}

TEST(MachineFit, LeavesOutWhatThereIsNot) {
  MachineReadings readings = readingsOf(8);
  readings.groups = 1;
  const MachineModel machine = fitMachine(readings);
  EXPECT_EQ(machine.nodes, 1);
  EXPECT_EQ(machine.links, Links::kInside);
  MachineReadings lonely = readingsOf(8);
  lonely.members = 1;
  lonely.near_small_us = lonely.near_large_us = 0;
  EXPECT_EQ(fitMachine(lonely).links, Links::kBetween);
  EXPECT_EQ(fitMachine(readingsOf(8)).links, Links::kBoth);
  EXPECT_DOUBLE_EQ(fitMachine(lonely).step_us, 0);
  EXPECT_DOUBLE_EQ(fitMachine(lonely).between.message_us, 1);
  EXPECT_DOUBLE_EQ(fitMachine(lonely).between.latency_us, 18);
  const Result<MachineModel> read =
      parseMachine(describeReadings(lonely) + describeMachine(fitMachine(lonely)), "text");
  EXPECT_TRUE(read.ok()) << read.status().message();
}

}  // namespace
}  // namespace horing
