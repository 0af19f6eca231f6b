// What horing-info trace says of the messages in flight records.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../../temporary_folder.h"
#include "base/clock.h"
#include "control/flight_file.h"
#include "program.h"

namespace horing::test {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int kMostRanks = 24;

// Of three ranks, or kMostRanks, of which those with files are chosen.
class MessageVerdicts : public ::testing::Test {
 protected:
  CallLog& calls(size_t rank) { return ranks_[rank].calls; }
  MessageRecorder& messages(size_t rank) { return calls(rank).messages(); }
  MessageRecorder& launched(size_t rank) { return ranks_[rank].launches.messages(); }

  static RecordedMessage receiveFrom(int peer, uint64_t number) {
    return {.bytes = 8, .number = number, .peer = peer, .kind = MessageKind::kReceive};
  }
  void send(size_t rank, int peer, uint64_t number) {
    messages(rank).end(messages(rank).begin({.bytes = 8, .number = number, .peer = peer}));
  }

  // The record that this rank leaves so long after its messages were enqueued.
  std::string fileOf(int rank, int64_t after_ns = kSecondNs) {
    ManualClock clock;
    clock.advanceNs(after_ns);
    const Ranks& of = ranks_[static_cast<size_t>(rank)];
    Result<std::string> path =
        writeFlightFile({folder_.path().string(), "job", rank, count_}, of.calls, of.launches, clock, error_);
    EXPECT_TRUE(path.ok()) << path.status().message();
    return path.ok() ? path.take() : std::string();
  }
  std::string traceOf(const std::vector<std::string>& files) {
    std::vector<std::string> command = {HORING_INFO_PROGRAM, "trace"};
    command.insert(command.end(), files.begin(), files.end());
    const Outcome outcome = runProgram(command);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return outcome.output;
  }
  // As fileOf(), changed.
  template <typename Change>
  std::string changedFileOf(int rank, Change change) {
    const std::string path = fileOf(rank);
    nlohmann::json record = nlohmann::json::parse(std::ifstream(path));
    change(record);
    std::ofstream(path) << record;
    return path;
  }
  static void expectPart(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  static void expectNoVerdict(const std::string& text) {
    EXPECT_EQ(text.find("verdict on messages"), std::string::npos) << text;
  }

 private:
  struct Ranks {
    CallLog calls;
    CallLog launches{kFirstLaunch};
  };
  const TemporaryFolder folder_;
  Ranks ranks_[kMostRanks];

 protected:
  int count_ = 3;
  Status error_;
};

TEST_F(MessageVerdicts, SayWhoHasNotBegunASend) {
  messages(0).begin(receiveFrom(1, 3));
  for (const uint64_t number : {0u, 1u, 2u}) send(1, 0, number);
  send(1, 2, 3);
  const std::string text = traceOf({fileOf(0), fileOf(1)});
  expectPart(text,
             "verdict on messages: rank 0 has waited 1000 ms in recv of 8 bytes from rank 1 (#3), and rank 1 "
             "has not begun the send for it\n");
  expectPart(text, "): in recv of 8 bytes from rank 1 (#3) for 1000 ms\n");
  expectPart(text, "): all its messages are complete\n");
}

TEST_F(MessageVerdicts, AreNoneOfAMessageThatMayBeAboutToArrive) {
  messages(0).begin(receiveFrom(1, 3));
  expectNoVerdict(traceOf({fileOf(0, 199'999'999), fileOf(1)}));
}

TEST_F(MessageVerdicts, AreNoneOfASendThatHasBegun) {
  messages(0).begin(receiveFrom(1, 3));
  messages(1).begin({.bytes = 8, .number = 3, .peer = 0});
  expectNoVerdict(traceOf({fileOf(0), fileOf(1)}));
}

// A later one of the same two ranks would be there, had it been begun.
TEST_F(MessageVerdicts, AreNoneOfWhatMayBeDisplaced) {
  messages(0).begin(receiveFrom(1, 3));
  for (uint64_t number = 0; number < 2 * MessageRecorder::kUsualEntries; ++number) send(1, 2, number);
  expectNoVerdict(traceOf({fileOf(0), fileOf(1)}));
  send(1, 0, 2);
  expectPart(traceOf({fileOf(0), fileOf(1)}), "and rank 1 has not begun the send for it\n");
}

TEST_F(MessageVerdicts, AreNoneOfATagWhoseSendMayBeDisplaced) {
  RecordedMessage receive = receiveFrom(1, 9);
  receive.has_tag = true;
  messages(0).begin(receive);
  send(1, 0, 9);  // without a tag
  expectPart(traceOf({fileOf(0), fileOf(1)}), "recv of 8 bytes from rank 1 with tag 9, and rank 1 has not");
  for (uint64_t number = 0; number < MessageRecorder::kUsualEntries; ++number) send(1, 0, number);
  expectNoVerdict(traceOf({fileOf(0), fileOf(1)}));
}

// Their records have the number of the launch.
TEST_F(MessageVerdicts, AreNoneOfSendsThatKernelsMayCarry) {
  messages(0).begin(receiveFrom(1, 3));
  launched(1).begin({.bytes = 8, .number = 5, .peer = 0});
  const std::string text = traceOf({fileOf(0), fileOf(1)});
  expectNoVerdict(text);
  expectPart(text, "; its GPU: in send of 8 bytes to rank 0 (launch #5) for 1000 ms");
}

TEST_F(MessageVerdicts, BlameNoRankInACollectiveIfAnotherIsIdle) {
  messages(0).begin(receiveFrom(1, 0));
  messages(0).begin(receiveFrom(2, 0));
  calls(1).recorder().begin({});
  const std::string text = traceOf({fileOf(0), fileOf(1), fileOf(2)});
  expectPart(text, "from rank 2 (#0), and rank 2 has not begun the send for it\n");
  EXPECT_EQ(text.find("rank 1 has not begun"), std::string::npos) << text;
}

TEST_F(MessageVerdicts, NameARankWithoutAFile) {
  messages(0).begin(receiveFrom(1, 0));
  expectPart(traceOf({fileOf(0)}), "in recv of 8 bytes from rank 1 (#0), and rank 1 left no file\n");
}

TEST_F(MessageVerdicts, TellTagsInFull) {
  RecordedMessage receive = receiveFrom(1, UINT64_MAX);
  receive.has_tag = true;
  messages(0).begin(receive);
  const std::string file = fileOf(0);
  expectPart(traceOf({file, fileOf(1)}), "with tag 18446744073709551615, and");
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(file)).at("messages").at(0).at("tag"),
            "18446744073709551615");
}

// Ranks 0 to 9 wait for ranks that compute, the later ones longer; rank 21 for rank 20, which left no file.
class MessageVerdictsOnManyRanks : public MessageVerdicts {
 protected:
  std::string trace() {
    count_ = kMostRanks;
    for (int rank = 0; rank < 10; ++rank) {
      messages(static_cast<size_t>(rank)).setNow(700'000'000 - rank * 10'000'000);
      messages(static_cast<size_t>(rank)).begin(receiveFrom(10 + rank, 0));
    }
    messages(21).setNow(750'000'000);
    messages(21).begin(receiveFrom(20, 0));
    std::vector<std::string> files;
    for (int rank = 0; rank < kMostRanks; ++rank)
      if (rank != 20) files.push_back(fileOf(rank));
    return traceOf(files);
  }
};

TEST_F(MessageVerdictsOnManyRanks, NameOnlyTheRankThatWasLost) {
  error_ = makeStatus(Code::kRemoteError, "rank 20 was lost");
  const std::string text = trace();
  expectPart(
      text,
      "verdict on messages: rank 21 has waited 250 ms in recv of 8 bytes from rank 20 (#0), and rank 20 "
      "left no file\n");
  EXPECT_EQ(text.find("has not begun"), std::string::npos) << text;
}

TEST_F(MessageVerdictsOnManyRanks, NameRanksWithoutAFileAndThenTheLongestWaits) {
  error_ = makeStatus(Code::kTimeout, "rank 20 never called");
  const std::string text = trace();
  const std::string of_messages = "verdict on messages: rank ";
  size_t place = 0;
  for (const int rank : {21, 9, 8, 7, 6, 5, 4, 3}) {
    place = text.find(of_messages, place);
    ASSERT_NE(place, std::string::npos) << text;
    place += of_messages.size();
    const std::string number = std::to_string(rank) + " ";
    EXPECT_EQ(text.substr(place, number.size()), number) << text;
  }
  EXPECT_EQ(text.find(of_messages, place), std::string::npos) << text;
  expectPart(text, "verdict on messages: and 3 more\n");
}

TEST_F(MessageVerdicts, AreNoneOfWhatMayBeInAGap) {
  messages(0).begin(receiveFrom(1, 3));
  for (const uint64_t number : {0u, 1u, 2u}) send(1, 2, number);
  expectPart(traceOf({fileOf(0), fileOf(1)}), "and rank 1 has not begun the send for it\n");
  const auto with_a_gap = [](nlohmann::json& record) { record.at("messages").erase(1); };
  expectNoVerdict(traceOf({fileOf(0), changedFileOf(1, with_a_gap)}));
}

// One before a gap does not prove that a later one would be there.
TEST_F(MessageVerdicts, AreNoneOfWhatMayBeInAGapBehindAnotherToTheSameRank) {
  messages(0).begin(receiveFrom(1, 3));
  send(1, 0, 2);
  for (const uint64_t number : {0u, 1u, 2u}) send(1, 2, number);
  const auto with_a_gap = [](nlohmann::json& record) { record.at("messages").erase(2); };
  expectNoVerdict(traceOf({fileOf(0), changedFileOf(1, with_a_gap)}));
}

// Records come from folders that others may write to.
TEST_F(MessageVerdicts, RefuseWhatNoRankWrites) {
  RecordedMessage receive = receiveFrom(1, 9);
  receive.has_tag = true;
  messages(0).begin(receive);
  const auto expectRefused = [&](const char* field, const nlohmann::json& value) {
    const std::string path =
        changedFileOf(0, [&](nlohmann::json& record) { record.at("messages").at(0)[field] = value; });
    const Outcome outcome = runProgram({HORING_INFO_PROGRAM, "trace", path});
    EXPECT_EQ(outcome.code, 2) << field << " " << value << outcome.output;
    EXPECT_EQ(outcome.errors.find('\x1b'), std::string::npos) << outcome.errors;
  };
  for (const char* const tag :
       {" 9", "9 ", "", "-9", "18446744073709551616", " 9 and\nverdict: all is well\x1b[31m"})
    expectRefused("tag", tag);
  for (const int64_t peer : {int64_t{1} << 32 | 1, int64_t{77777}, int64_t{3}, int64_t{-2}})
    expectRefused("peer", peer);
  for (const char* const field : {"call", "state"}) expectRefused(field, "recv\nverdict: \x1b[31m");
  for (const int64_t time_ns : {int64_t{-1}, INT64_MIN}) expectRefused("enqueued_ns", time_ns);
}

TEST_F(MessageVerdicts, AreNotDrawnOverByTheTextsOfARecord) {
  const std::string text = "a\nverdict: all is well\x1b[31m", shown = "a?verdict: all is well?[31m";
  const std::string path = changedFileOf(0, [&](nlohmann::json& record) {
    record["error"] = record["host"] = record["job"] = text;
    record["begun"] = 1;
    record["waiting"] = {{"sequence", 0}, {"for", {1}}, {"obstacle", text}};
    record["operations"] = {{{"sequence", 0},
                             {"call", text},
                             {"arguments", text},
                             {"outcome", text},
                             {"digest", "1"},
                             {"begun_ns", 0}}};
  });
  const std::string traced = traceOf({path});
  for (const std::string& part :
       {"rank 0 (" + shown, "in " + shown, "(" + shown + ")", ", " + shown, "reported: " + shown})
    expectPart(traced, part);
  EXPECT_EQ(traced.find('\x1b'), std::string::npos) << traced;
  EXPECT_EQ(traced.find("\nverdict: all is well"), std::string::npos) << traced;
}

TEST_F(MessageVerdicts, RefuseTimesBeforeTheFirstAndMoreOrOtherMessagesThanAreWritten) {
  const auto expectRefused = [&](auto change) {
    const Outcome outcome = runProgram({HORING_INFO_PROGRAM, "trace", changedFileOf(0, change)});
    EXPECT_EQ(outcome.code, 2) << outcome.output;
  };
  const auto repeat = [](nlohmann::json& record, size_t times) {
    nlohmann::json& list = record.at("messages");
    const nlohmann::json one = list.at(0);
    for (list.clear(); list.size() < times; list.back()["sequence"] = list.size()) list.push_back(one);
  };
  messages(0).begin(receiveFrom(1, 0));
  expectRefused([](nlohmann::json& record) { record["now_ns"] = -1; });
  expectRefused([&](nlohmann::json& record) { repeat(record, kMostFlightMessages + 1); });
  expectRefused([&](nlohmann::json& record) {
    repeat(record, 2);
    record["messages"][1]["sequence"] = record["messages"][0]["sequence"];
  });
  traceOf({changedFileOf(0, [&](nlohmann::json& record) { repeat(record, kMostFlightMessages); })});
}

// Of a rank that has a timeline, too.
class FlightFile : public ::testing::Test {
 protected:
  MessageRecorder& messages() { return calls_.messages(); }
  nlohmann::json written() {
    const Result<std::string> path =
        writeFlightFile({folder_.path().string(), "job", 0, 2}, calls_, launches_, ManualClock(), {});
    EXPECT_TRUE(path.ok()) << path.status().message();
    return path.ok() ? nlohmann::json::parse(std::ifstream(path.value())).at("messages") : nlohmann::json();
  }

 private:
  const TemporaryFolder folder_;
  CallLog calls_{0, 0, MessageRecorder::kEntriesOfTimeline}, launches_{kFirstLaunch};
};

TEST_F(FlightFile, HasTheLatestMessagesThoughMoreAreKeptForATimeline) {
  for (uint64_t number = 0; number < 1000; ++number) messages().end(messages().begin({.number = number}));
  const nlohmann::json list = written();
  ASSERT_EQ(list.size(), MessageRecorder::kUsualEntries);
  EXPECT_EQ(list.front().at("number"), 1000 - MessageRecorder::kUsualEntries);
  EXPECT_EQ(list.back().at("number"), 999);
}

TEST_F(FlightFile, HasOlderMessagesThatWait) {
  for (uint64_t number = 0; number < 1000; ++number) {
    const uint32_t message = messages().begin({.number = number});
    if (number != 7 && number != 600) messages().end(message);
  }
  const nlohmann::json list = written();
  ASSERT_EQ(list.size(), MessageRecorder::kUsualEntries + 2);
  EXPECT_EQ(list.at(0).at("number"), 7);
  EXPECT_EQ(list.at(1).at("number"), 600);
  EXPECT_EQ(list.at(2).at("number"), 1000 - MessageRecorder::kUsualEntries);
}

TEST_F(FlightFile, HasTheOldestOfMoreThatWait) {
  for (uint64_t number = 0; number < 1000; ++number) messages().begin({.number = number});
  const nlohmann::json list = written();
  ASSERT_EQ(list.size(), kMostFlightMessages);
  EXPECT_EQ(list.front().at("number"), 0);
  EXPECT_EQ(list.at(MessageRecorder::kUsualEntries).at("number"), 1000 - MessageRecorder::kUsualEntries);
  EXPECT_EQ(list.back().at("number"), 999);
}

}  // namespace
}  // namespace horing::test
