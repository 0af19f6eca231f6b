// Messages in timelines, whatever way they go.
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "written_folder.h"

namespace {

constexpr size_t kElementsOfMessage = 6;

class MessagesInTimelines : public testing::Test {
 protected:
  void SetUp() override { comms_ = makeCommunicators(2, Meeting::kInitAll); }
  horingComm_t comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }
  // Ends the communicators. Every rank's timeline, in any order.
  std::vector<std::string> timelines() {
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
    return folder_.texts();
  }
  // How many of the timelines have this event.
  static int having(const std::vector<std::string>& texts, const std::string& event) {
    int found = 0;
    for (const std::string& text : texts) found += text.find(event) != std::string::npos;
    return found;
  }
  // No two messages of a track overlap.
  static void expectApart(const std::string& text) {
    std::map<int, long long> ends;
    std::istringstream lines(text);
    size_t messages = 0;
    for (std::string line; std::getline(lines, line);) {
      const size_t place = line.find("\"tid\":");
      int track = 0;
      long long begun_us = 0, begun_ns = 0, us = 0, ns = 0;
      if (place == std::string::npos || line.find("\"started_after_us\"") == std::string::npos ||
          std::sscanf(line.c_str() + place, "\"tid\":%d,\"ts\":%lld.%lld,\"dur\":%lld.%lld", &track,
                      &begun_us, &begun_ns, &us, &ns) != 5)
        continue;
      ++messages;
      begun_ns += begun_us * 1000;
      EXPECT_GE(begun_ns, ends[track]) << text;
      ends[track] = begun_ns + us * 1000 + ns;
    }
    EXPECT_GT(messages, 0u) << text;
  }

 private:
  const WrittenFolder folder_{"HORING_TRACE"};
  std::vector<horingComm_t> comms_;
};

TEST_F(MessagesInTimelines, AreSendsAndReceives) {
  onEveryRank(2, [&](int rank) {
    std::vector<float> data(kElementsOfMessage);
    for (int round = 0; round < 2; ++round)
      EXPECT_HORING(rank == 0
                        ? horingSend(data.data(), kElementsOfMessage, horingFloat, 1, comm(rank), nullptr)
                        : horingRecv(data.data(), kElementsOfMessage, horingFloat, 0, comm(rank), nullptr));
  });
  const auto texts = timelines();
  const std::string fields = ",\"bytes\":24,\"type\":\"float32\",\"number\":1,\"state\":\"complete\",";
  EXPECT_EQ(having(texts, "\"args\":{\"call\":\"send\",\"peer\":1" + fields), 1);
  EXPECT_EQ(having(texts, "\"args\":{\"call\":\"recv\",\"peer\":0" + fields), 1);
  EXPECT_EQ(having(texts, "\"args\":{\"name\":\"to rank 1\"}"), 1);
  EXPECT_EQ(having(texts, "\"args\":{\"name\":\"from rank 0\"}"), 1);
}

TEST_F(MessagesInTimelines, AreThoseOnStreamsWithTagsAndFromAnyRank) {
  onEveryRank(2, [&](int rank) {
    horingStream_t stream = nullptr;
    ASSERT_HORING(horingStreamCreate(&stream));
    std::vector<int64_t> data(kElementsOfMessage);
    if (rank == 0) {
      EXPECT_HORING(
          horingSendTagged(data.data(), kElementsOfMessage, horingInt64, 1, 99, comm(rank), stream));
    } else {
      EXPECT_HORING(horingRecvTagged(data.data(), kElementsOfMessage, horingInt64, HORING_ANY_RANK, 99,
                                     nullptr, comm(rank), stream));
    }
    EXPECT_HORING(horingStreamSynchronize(stream));
    EXPECT_HORING(horingStreamDestroy(stream));
  });
  const auto texts = timelines();
  const std::string fields = ",\"bytes\":48,\"type\":\"int64\",\"tag\":\"99\",\"state\":\"complete\",";
  EXPECT_EQ(having(texts, "\"call\":\"send\",\"peer\":1" + fields), 1);
  EXPECT_EQ(having(texts, "\"call\":\"recv\",\"peer\":0" + fields), 1);
}

// Concurrent messages are on tracks of their own.
TEST_F(MessagesInTimelines, AreEachOfAGroup) {
  constexpr int kMessages = 64;
  onEveryRank(2, [&](int rank) {
    std::vector<int32_t> sent(kMessages), received(kMessages);
    EXPECT_HORING(horingGroupStart());
    for (size_t i = 0; i < kMessages; ++i) {
      EXPECT_HORING(horingSend(&sent[i], 1, horingInt32, 1 - rank, comm(rank), nullptr));
      EXPECT_HORING(horingRecv(&received[i], 1, horingInt32, 1 - rank, comm(rank), nullptr));
    }
    EXPECT_HORING(horingGroupEnd());
  });
  const auto texts = timelines();
  for (const char* const call : {"send", "recv"})
    for (const int number : {0, kMessages - 1})
      EXPECT_EQ(
          having(texts, std::string("\"call\":\"") + call + "\",\"peer\":0,\"bytes\":4,\"type\":\"int32\"," +
                            "\"number\":" + std::to_string(number) + ","),
          1)
          << call << number;
  for (const std::string& text : texts) expectApart(text);
}

TEST_F(MessagesInTimelines, ArePutsSignalsAndWaits) {
  onEveryRank(2, [&](int rank) {
    std::vector<double> memory(kElementsOfMessage);
    horingWindow_t window = nullptr;
    EXPECT_HORING(
        horingCommWindowRegister(comm(rank), memory.data(), kElementsOfMessage * sizeof(double), &window, 0));
    if (rank == 0) {
      EXPECT_HORING(horingPutSignal(memory.data(), kElementsOfMessage, horingDouble, 1, window, 0, 0, 0, 0,
                                    comm(rank), nullptr));
      EXPECT_HORING(horingSignal(1, 0, 0, 0, comm(rank), nullptr));
    } else {
      horingWaitSignalDesc_t two{.opCnt = 2, .peer = 0, .sigIdx = 0, .ctx = 0};
      EXPECT_HORING(horingWaitSignal(1, &two, comm(rank), nullptr));
    }
    EXPECT_HORING(horingCommWindowDeregister(comm(rank), window));
  });
  const auto texts = timelines();
  EXPECT_EQ(
      having(texts, "\"call\":\"put\",\"peer\":1,\"bytes\":48,\"type\":\"float64\",\"state\":\"complete\""),
      1);
  EXPECT_EQ(having(texts, "\"call\":\"signal\",\"peer\":1,\"bytes\":0,"), 1);
  EXPECT_EQ(having(texts, "\"call\":\"wait_signal\",\"peer\":0,\"bytes\":0,"), 1);
}

// It is older than the messages that a record of the last ones has.
TEST(MessagesInRecords, AreThoseThatWaitThoughManyCameLater) {
  constexpr int kLater = 280;
  const WrittenFolder timelines("HORING_TRACE"), records("HORING_FLIGHT_DIR");
  const Setting timeout("HORING_TIMEOUT_MS", 1000);
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  onEveryRank(2, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    std::vector<int> data(kLater);
    int never_sent = 0;
    EXPECT_HORING(horingGroupStart());
    if (rank == 0) {
      EXPECT_HORING(horingRecv(&never_sent, 1, horingInt32, 1, comm, nullptr));
    }
    for (int& one : data)
      EXPECT_HORING(rank == 0 ? horingSend(&one, 1, horingInt32, 1, comm, nullptr)
                              : horingRecv(&one, 1, horingInt32, 0, comm, nullptr));
    EXPECT_EQ(horingGroupEnd() == horingSuccess, rank == 1);
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  int waiting = 0;
  for (const std::string& text : records.texts())
    waiting += text.find("{\"sequence\":0,\"call\":\"recv\",\"peer\":1,\"bytes\":4,\"type\":\"int32\"," +
                         std::string("\"number\":0,\"state\":\"enqueued\"")) != std::string::npos;
  EXPECT_EQ(waiting, 1);
}

}  // namespace
