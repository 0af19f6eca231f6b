#include "base/flight_recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace horing {
namespace {

FlightRecord recordOf(uint64_t sequence) {
  FlightRecord record;
  record.sequence = sequence;
  record.count = sequence * 3;
  record.begun_ns = static_cast<int64_t>(sequence * 5);
  record.root = static_cast<int32_t>(sequence % 7) - 1;
  record.collective = static_cast<Collective>(sequence % 3);
  record.type = static_cast<DataType>(sequence % 12);
  record.op = static_cast<RedOp>(sequence % kRedOps);
  return record;
}

void expectSame(const FlightRecord& a, const FlightRecord& b) {
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.begun_ns, b.begun_ns);
  EXPECT_EQ(a.root, b.root);
  EXPECT_EQ(a.collective, b.collective);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.op, b.op);
}

TEST(FlightRecorder, KeepsTheLatestOperations) {
  FlightRecorder recorder;
  EXPECT_TRUE(recorder.last().empty());
  EXPECT_FALSE(recorder.find(0));
  constexpr uint64_t kOperations = FlightRecorder::kEntries * 3 + 5;
  for (uint64_t sequence = 0; sequence < kOperations; ++sequence) {
    recorder.begin(recordOf(sequence));
    EXPECT_EQ(recorder.begun(), sequence + 1);
    EXPECT_EQ(recorder.ended(), sequence);
    EXPECT_EQ(recorder.find(sequence)->outcome, Outcome::kRunning);
    recorder.end(sequence, 1000, Outcome::kDone);
    EXPECT_EQ(recorder.ended(), sequence + 1);
  }
  const auto last = recorder.last();
  ASSERT_EQ(last.size(), FlightRecorder::kEntries);
  for (size_t i = 0; i < last.size(); ++i) {
    expectSame(last[i], recordOf(kOperations - FlightRecorder::kEntries + i));
    EXPECT_EQ(last[i].outcome, Outcome::kDone);
    EXPECT_EQ(last[i].ended_ns, 1000);
  }
  EXPECT_FALSE(recorder.find(4)) << "overwritten long ago";
  EXPECT_FALSE(recorder.find(kOperations)) << "not begun";
}

// Behind one that runs; then all before it are done.
TEST(FlightRecorder, ShowsWhatWasWithdrawnAsSuch) {
  FlightRecorder recorder;
  for (uint64_t sequence = 0; sequence < 2; ++sequence) recorder.begin(recordOf(sequence));
  recorder.end(1, 7, Outcome::kWithdrawn);
  EXPECT_EQ(recorder.ended(), 0U);
  for (uint64_t sequence = 0; sequence < 2; ++sequence) recorder.end(sequence, 8, Outcome::kDone);
  EXPECT_EQ(recorder.ended(), 2U);
  EXPECT_EQ(recorder.find(0)->outcome, Outcome::kDone);
  EXPECT_EQ(recorder.find(1)->outcome, Outcome::kWithdrawn);
  EXPECT_STREQ(outcomeName(recorder.find(1)->outcome), "withdrawn");
}

TEST(FlightRecorder, CountsAFailureAsNotComplete) {
  FlightRecorder recorder;
  recorder.begin(recordOf(0));
  recorder.end(0, 7, Outcome::kFailed);
  EXPECT_EQ(recorder.ended(), 0u);
  EXPECT_EQ(recorder.find(0)->outcome, Outcome::kFailed);
}

// The oldest record is the one that is overwritten next.
TEST(FlightRecorder, ShowsWholeRecordsToAnotherThread) {
  FlightRecorder recorder;
  std::atomic<bool> enough{false};
  std::thread writer([&] {
    for (uint64_t sequence = 0; !enough; ++sequence) recorder.begin(recordOf(sequence));
  });
  int found = 0;
  for (int look = 0; look < 1'000'000 || found == 0; ++look) {
    const uint64_t end = recorder.begun();
    if (end < FlightRecorder::kEntries) continue;
    const uint64_t oldest = end - FlightRecorder::kEntries;
    if (const auto record = recorder.find(oldest)) {
      ++found;
      EXPECT_EQ(record->sequence, oldest);
      EXPECT_EQ(record->count, oldest * 3) << "torn after " << look << " looks";
      EXPECT_EQ(record->root, recordOf(oldest).root);
    }
  }
  enough = true;
  writer.join();
}

}  // namespace
}  // namespace horing
