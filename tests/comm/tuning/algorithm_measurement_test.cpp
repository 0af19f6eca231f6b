#include "comm/tuning/algorithm_measurement.h"

#include <gtest/gtest.h>

#include "selection/model_selection.h"

namespace horing {
namespace {

MeasuredPoint pointOf(Collective collective, uint64_t bytes, double ring_us, double direct_us) {
  return {
      collective, bytes, {{findAlgorithm("ring"), ring_us, 1.01}, {findAlgorithm("direct"), direct_us, 0}}};
}

TEST(MeasuredTable, GivesEachSizeItsFastestAndHalfOfTheWayToTheNext) {
  const std::string text = measuredTableText(
      {pointOf(Collective::kAllReduce, 1024, 20, 10), pointOf(Collective::kAllReduce, 4096, 20, 10),
       pointOf(Collective::kAllReduce, 16384, 20, 30), pointOf(Collective::kAllGather, 1024, 5, 9)},
      {1, 4, RanksPerCore::kMore});
  const Result<SelectionTable> table = SelectionTable::parse(text, "text");
  ASSERT_TRUE(table.ok()) << table.status().message() << text;
  ASSERT_EQ(table.value().rows().size(), 3u) << text;
  const SelectionRow& first = table.value().rows()[0];
  EXPECT_EQ(first.algorithm, findAlgorithm("direct"));
  EXPECT_EQ(first.most_bytes, 8192u);
  EXPECT_EQ(first.members, (SelectionRow::Range{4, 4}));
  EXPECT_EQ(first.ranks_per_core, RanksPerCore::kMore);
  EXPECT_EQ(table.value().rows()[1].algorithm, findAlgorithm("ring"));
  EXPECT_EQ(table.value().rows()[1].most_bytes, SIZE_MAX);
  EXPECT_EQ(table.value().rows()[2].collective, Collective::kAllGather);
  EXPECT_NE(text.find("# all_reduce 1K: ring 20.00 (1.010) direct 10.00\n"), std::string::npos) << text;
}

TEST(MeasuredTable, WritesNoRowForWhatIsHardlyFaster) {
  const std::string text = measuredTableText(
      {pointOf(Collective::kAllReduce, 1024, 20, 10), pointOf(Collective::kAllReduce, 4096, 10, 10.2),
       pointOf(Collective::kAllReduce, 16384, 20, 10)},
      {1, 4, RanksPerCore::kMore});
  const Result<SelectionTable> table = SelectionTable::parse(text, "text");
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table.value().rows().size(), 1u) << text;
}

// Where only latency counts, ring's all-reduce takes 2 (n - 1) hops and doubling log2 n: of two ranks of a node that is not enough.
TEST(ModelSelection, LetsATableStandWhereThePredictionMayErr) {
  SelectionQuestion asked;
  MachineModel& machine = asked.question.machine;
  machine.between = machine.inside = {1000, 0, 0, 0};
  asked.collectives = {Collective::kAllReduce};
  asked.sizes = {1024};
  const SelectionTable table = SelectionTable::only(*findAlgorithm("ring"));
  asked.standing = &table;
  std::string remark;
  const auto chosen = [&](int32_t nodes, int32_t members) {
    machine.nodes = nodes;
    machine.ranks_per_node = members;
    const Result<std::string> text = selectionText(asked);
    EXPECT_TRUE(text.ok()) << text.status().message();
    remark = text.ok() ? text.value().substr(text.value().rfind('#')) : "";
    const Result<SelectionTable> rows = SelectionTable::parse(text.ok() ? text.value() : "", "text");
    return std::string(rows.value().find(Collective::kAllReduce, {nodes, members}, 1024)->name);
  };
  EXPECT_EQ(chosen(1, 2), "ring");
  EXPECT_NE(remark.find(" us; kept, as the prediction errs by more, against "), std::string::npos) << remark;
  EXPECT_NE(chosen(1, 8), "ring");
  EXPECT_NE(remark.find(" us; next "), std::string::npos) << remark;
  EXPECT_NE(chosen(2, 1), "ring") << "between nodes predictions err by less";
  asked.question.most_work = 1;
  EXPECT_EQ(chosen(1, 8), "ring") << "nothing can be predicted";
}

// A file may say nothing of cores, and the ranks of the job share them.
TEST(ModelSelection, AsksTheTableForTheJobAndNotForTheMachine) {
  const SelectionTable table =
      SelectionTable::parse("all_reduce 1 * >1 * star\nall_reduce 1 * * * ring", "text").take();
  SelectionQuestion asked;
  asked.question.machine.ranks_per_node = 8;
  asked.question.most_work = 1;  // so that the table's choice stays
  asked.collectives = {Collective::kAllReduce};
  asked.sizes = {1024};
  asked.standing = &table;
  const auto chosen = [&](RanksPerCore ranks_per_core) {
    asked.job = {1, 8, ranks_per_core};
    const Result<std::string> text = selectionText(asked);
    EXPECT_TRUE(text.ok()) << text.status().message();
    return SelectionTable::parse(text.ok() ? text.value() : "", "text").take().rows()[0].algorithm->name;
  };
  EXPECT_STREQ(chosen(RanksPerCore::kMore), "star");
  EXPECT_STREQ(chosen(RanksPerCore::kAtMostOne), "ring");
}

TEST(ModelSelection, BelievesNoMeasurementOfABusyMachineUnlessTold) {
  Config config = Config::fromLookup([](const std::string&) -> const char* { return nullptr; }).take();
  MachineModel machine;
  machine.ranks_per_node = 2;
  EXPECT_TRUE(modelTableText(config, machine, jobOn(machine)).ok());
  machine.step_us = 1000;
  EXPECT_NE(
      modelTableText(config, machine, jobOn(machine)).status().message().find("2002 us for a small message"),
      std::string::npos);
  config.selection = kSelectionByModel;
  EXPECT_TRUE(modelTableText(config, machine, jobOn(machine)).ok());
}

// The other ranks wait for rank 0's table: one that comes after their deadline ends the job.
TEST(ModelSelection, GivesUpWhereTheOthersWouldWaitTooLong) {
  const Config config = Config::fromLookup([](const std::string&) -> const char* { return nullptr; }).take();
  MachineModel machine;
  machine.ranks_per_node = 2;
  ManualClock clock;
  const Deadline until = Deadline::after(clock, 1);
  EXPECT_TRUE(modelTableText(config, machine, jobOn(machine), &until).ok());
  clock.advanceNs(1'000'000);
  const Result<std::string> text = modelTableText(config, machine, jobOn(machine), &until);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().code(), Code::kTimeout);
}

TEST(ModelSelection, ServesByDefaultWhereTheMachineIsKnown) {
  Config config = Config::fromLookup([](const std::string&) -> const char* { return nullptr; }).take();
  EXPECT_FALSE(selectsByModel(config));
  config.calibrate = "lab.machine";
  EXPECT_TRUE(selectsByModel(config));
  config.selection = kSelectionByTable;
  EXPECT_FALSE(selectsByModel(config));
}

}  // namespace
}  // namespace horing
