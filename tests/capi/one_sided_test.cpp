// Windows, puts, signals and waits for them.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "ways.h"

namespace {

constexpr size_t kPart = 200'000;  // elements that each rank has for each other rank

void put(const std::vector<int32_t>& data, int peer, horingWindow_t window, size_t element, horingComm_t comm,
         horingStream_t stream = nullptr) {
  ASSERT_HORING(horingPutSignal(data.data(), data.size(), horingInt32, peer, window,
                                element * sizeof(int32_t), 0, 0, 0, comm, stream));
}
void await(int peer, int signals, horingComm_t comm, horingStream_t stream = nullptr) {
  horingWaitSignalDesc_t wait = {signals, peer, 0, 0};
  ASSERT_HORING(horingWaitSignal(1, &wait, comm, stream));
}
void meet(horingComm_t comm) {
  int32_t one = 1;
  ASSERT_HORING(horingAllReduce(&one, &one, 1, horingInt32, horingSum, comm, nullptr));
}

// A rank's part of a window: a part for each rank, of its own size.
struct Part {
  Part(horingComm_t its_comm, int ranks, size_t elements = kPart) : comm(its_comm) {
    values.assign(static_cast<size_t>(ranks) * elements, -1);
    EXPECT_HORING(horingCommWindowRegister(comm, values.data(), values.size() * sizeof(int32_t), &window,
                                           HORING_WIN_COLL_SYMMETRIC));
    EXPECT_NE(window, nullptr);
  }
  ~Part() { EXPECT_HORING(horingCommWindowDeregister(comm, window)); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  testing::AssertionResult has(const std::vector<int32_t>& data, size_t element) const {
    return holds(values.data() + element, data.size(), [&](size_t i) { return data[i]; });
  }

  horingComm_t comm;
  std::vector<int32_t> values;
  horingWindow_t window = nullptr;
};

using OneSided = Collectives;

TEST_P(OneSided, PutsArriveBeforeTheirSignals) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    Part part(comm, ranks());
    void* address = nullptr;
    ASSERT_HORING(horingWinGetUserPtr(comm, part.window, &address));
    EXPECT_EQ(address, part.values.data());
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1021}, size_t{16'384}, kPart}) {
      const auto sent = numbers(count, 1000 * rank + static_cast<int32_t>(count));
      for (int step = 0; step < ranks(); ++step)
        put(sent, (rank + step) % ranks(), part.window, static_cast<size_t>(rank) * kPart, comm);
      for (int peer = 0; peer < ranks(); ++peer) {
        await(peer, 1, comm);
        EXPECT_TRUE(part.has(numbers(count, 1000 * peer + static_cast<int32_t>(count)),
                             static_cast<size_t>(peer) * kPart))
            << count << " from " << peer;
      }
      meet(comm);
    }
  });
}

// Rank 0 fills the parts of all others, which are in a collective that rank 0 joins last.
TEST_P(OneSided, PutsAreTakenInCollectives) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    Part part(comm, 1, 20 * kPart);
    const auto sent = numbers(20 * kPart, 7);
    if (rank == 0)
      for (int peer = 1; peer < ranks(); ++peer) put(sent, peer, part.window, 0, comm);
    meet(comm);
    if (rank == 0) return;
    await(0, 1, comm);
    EXPECT_TRUE(part.has(sent, 0));
  });
}

// Both ends put more than fits on the way before either waits.
TEST_P(OneSided, PutsCrossOnTheWay) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    Part part(comm, 1, 20 * kPart);
    put(numbers(20 * kPart, rank), next, part.window, 0, comm);
    await(previous, 1, comm);
    EXPECT_TRUE(part.has(numbers(20 * kPart, previous), 0));
    meet(comm);
  });
}

TEST_P(OneSided, SignalsNeedNoWindow) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    for (int peer = 0; peer < ranks(); ++peer)
      for (int i = 0; i < 3; ++i) ASSERT_HORING(horingSignal(peer, 0, 0, 0, comm, nullptr));
    std::vector<horingWaitSignalDesc_t> waits;
    for (int peer = 0; peer < ranks(); ++peer) waits.push_back({2, peer, 0, 0});
    for (int peer = 0; peer < ranks(); ++peer) waits.push_back({1, peer, 0, 0});
    ASSERT_HORING(horingWaitSignal(static_cast<int>(waits.size()), waits.data(), comm, nullptr));
    meet(comm);
  });
}

TEST_P(OneSided, OperationsOnStreamsDoNotWaitForEachOther) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    Part part(comm, 1);
    horingStream_t waiting = nullptr, putting = nullptr;
    ASSERT_HORING(horingStreamCreate(&waiting));
    ASSERT_HORING(horingStreamCreate(&putting));
    await(previous, 2, comm, waiting);
    const auto first = numbers(kPart / 2, rank), second = numbers(kPart / 2, 100 + rank);
    put(first, next, part.window, 0, comm, putting);
    meet(comm);
    EXPECT_EQ(horingStreamQuery(waiting), horingInProgress) << "one signal of two";
    meet(comm);
    put(second, next, part.window, kPart / 2, comm, putting);
    ASSERT_HORING(horingStreamSynchronize(waiting));
    EXPECT_TRUE(part.has(numbers(kPart / 2, previous), 0));
    EXPECT_TRUE(part.has(numbers(kPart / 2, 100 + previous), kPart / 2));
    ASSERT_HORING(horingStreamDestroy(putting));
    ASSERT_HORING(horingStreamDestroy(waiting));
    meet(comm);
  });
}

// A wait in the middle: the reply goes out when the question is here.
TEST_P(OneSided, GroupsKeepTheOrder) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    if (ranks() == 1) return;
    Part part(comm, 2);
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    const auto question = numbers(kPart, rank);
    // So that a rank that does not wait for the question has nothing to answer with.
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ASSERT_HORING(horingGroupStart());
    put(question, next, part.window, 0, comm);
    await(previous, 1, comm);
    // What has arrived goes back.
    ASSERT_HORING(horingPutSignal(part.values.data(), kPart, horingInt32, previous, part.window,
                                  kPart * sizeof(int32_t), 0, 0, 0, comm, nullptr));
    await(next, 1, comm);
    ASSERT_HORING(horingGroupEnd());
    EXPECT_TRUE(part.has(numbers(kPart, previous), 0));
    EXPECT_TRUE(part.has(question, kPart)) << "the reply";
    meet(comm);
  });
}

// Rank 1 signals when it has been in the collective that rank 0 has behind its wait.
TEST_P(OneSided, WaitsComeLastInAGroup) {
  onEveryRank(ranks(), [&](int rank) {
    const horingComm_t comm = this->comm(rank);
    if (ranks() == 1) return;
    if (rank == 0) {
      ASSERT_HORING(horingGroupStart());
      int32_t one = 1;
      await(1, 1, comm);
      ASSERT_HORING(horingAllReduce(&one, &one, 1, horingInt32, horingSum, comm, nullptr));
      ASSERT_HORING(horingGroupEnd());
      return;
    }
    meet(comm);
    if (rank != 1) return;
    ASSERT_HORING(horingSignal(0, 0, 0, 0, comm, nullptr));
  });
}

TEST_P(OneSided, OneThreadDrivesSeveralRanksInGroups) {
  const auto n = static_cast<size_t>(ranks());
  std::vector<std::vector<int32_t>> parts(n, std::vector<int32_t>(kPart, -1)), sent;
  std::vector<horingWindow_t> windows(n);
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < ranks(); ++rank)
    ASSERT_HORING(horingCommWindowRegister(comm(rank), parts[static_cast<size_t>(rank)].data(),
                                           kPart * sizeof(int32_t), &windows[static_cast<size_t>(rank)],
                                           HORING_WIN_DEFAULT));
  ASSERT_HORING(horingGroupEnd());
  for (int rank = 0; rank < ranks(); ++rank) sent.push_back(numbers(kPart, rank));
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < ranks(); ++rank) {
    put(sent[static_cast<size_t>(rank)], (rank + 1) % ranks(), windows[static_cast<size_t>(rank)], 0,
        comm(rank));
    await((rank + ranks() - 1) % ranks(), 1, comm(rank));
  }
  ASSERT_HORING(horingGroupEnd());
  for (size_t rank = 0; rank < n; ++rank) {
    EXPECT_EQ(parts[rank], sent[(rank + n - 1) % n]) << "rank " << rank;
    EXPECT_HORING(horingCommWindowDeregister(comm(static_cast<int>(rank)), windows[rank]));
  }
}

// More than the connection holds, while the target is in no call of the library.
TEST_P(OneSided, PutsEndWhileTheTargetIsElsewhere) {
  if (ranks() == 1) GTEST_SKIP() << "needs a peer";
  using Clock = std::chrono::steady_clock;
  for (const bool on_stream : {false, true}) {
    std::atomic<bool> is_put{false};
    onEveryRank(ranks(), [&](int rank) {
      const horingComm_t comm = this->comm(rank);
      Part part(comm, 1, 10 * kPart);
      const auto sent = numbers(10 * kPart, 3);
      if (rank == 0) {
        horingStream_t stream = nullptr;
        if (on_stream) {
          ASSERT_HORING(horingStreamCreate(&stream));
        }
        put(sent, 1, part.window, 0, comm, stream);
        if (on_stream) {
          ASSERT_HORING(horingStreamDestroy(stream));
        }
        is_put = true;
      } else if (rank == 1) {
        const auto until = Clock::now() + std::chrono::seconds(60);
        while (!is_put && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_TRUE(is_put) << "the put waits for a call of its target" << (on_stream ? ", on a stream" : "");
        await(0, 1, comm);
        EXPECT_TRUE(part.has(sent, 0));
      }
      meet(comm);
    });
  }
}

// Its last put is there after a rank has left, and what the others do goes on.
TEST_P(OneSided, PutsOutliveTheirRank) {
  if (ranks() < 2) GTEST_SKIP() << "needs a peer";
  const std::vector<horingComm_t> comms = makeCommunicators(3, GetParam().meeting);
  std::atomic<bool> has_left{false};
  onEveryRank(3, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    std::vector<int32_t> values(100, -1), received(kPart);
    const auto sent = numbers(100, 5), mine = numbers(kPart, rank);
    horingWindow_t window = nullptr;
    ASSERT_HORING(horingCommWindowRegister(comm, values.data(), 400, &window, 0));
    if (rank == 0) {
      put(sent, 1, window, 0, comm);
      ASSERT_HORING(horingCommDestroy(comm));
      has_left = true;
      return;
    }
    while (!has_left) std::this_thread::yield();
    const int other = 3 - rank;
    ASSERT_HORING(horingGroupStart());
    ASSERT_HORING(horingSend(mine.data(), kPart, horingInt32, other, comm, nullptr));
    ASSERT_HORING(horingRecv(received.data(), kPart, horingInt32, other, comm, nullptr));
    ASSERT_HORING(horingGroupEnd());
    EXPECT_EQ(received, numbers(kPart, other));
    if (rank == 1) {
      await(0, 1, comm);
      EXPECT_EQ(values, sent);
    }
    EXPECT_HORING(horingCommWindowDeregister(comm, window));
    EXPECT_HORING(horingCommDestroy(comm));
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, OneSided, testing::ValuesIn(kWays));
INSTANTIATE_TEST_SUITE_P(Rdma, OneSided, testing::Values(kVerbsWay));

// Two ranks with a window of 1000 and 2000 bytes.
class OneSidedErrors : public testing::Test {
 protected:
  void SetUp() override {
    comms_ = makeCommunicators(2, Meeting::kInitRank);
    onEveryRank(2, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      parts_[r].assign(1000 * (r + 1), 'x');
      ASSERT_HORING(horingCommWindowRegister(comms_[r], parts_[r].data(), parts_[r].size(), &windows_[r], 0));
    });
  }
  void TearDown() override {
    for (const horingComm_t comm : comms_) {
      if (!comm) continue;
      EXPECT_HORING(horingCommDestroy(comm));
    }
  }
  horingComm_t comm(size_t rank) const { return comms_[rank]; }
  horingResult_t putBytes(size_t from, size_t bytes, int peer, horingWindow_t window, size_t offset) {
    return horingPutSignal(data_.data(), bytes, horingInt8, peer, window, offset, 0, 0, 0, comm(from),
                           nullptr);
  }

  std::vector<horingComm_t> comms_;
  std::vector<char> parts_[2];
  horingWindow_t windows_[2] = {};
  std::vector<char> data_ = std::vector<char>(4000, 'y');
};

// As many as config.numRmaSig asks for.
TEST(SignalIndices, AreCountedSeparately) {
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  horingComm_t parents[2] = {}, children[2] = {};
  onEveryRank(2, [&](int rank) {
    horingConfig_t config = HORING_CONFIG_INITIALIZER;
    config.numRmaSig = 3;
    horingComm_t &parent = parents[rank], &child = children[rank];
    ASSERT_HORING(horingCommInitRankConfig(&parent, 2, id, rank, &config));
    ASSERT_HORING(horingCommSplit(parent, 0, rank, &child, nullptr)) << "it counts as many";
    for (const horingComm_t comm : {parent, child}) {
      const int peer = 1 - rank;
      Part part(comm, 1, 8);
      const std::vector<int32_t> data(8, rank);
      EXPECT_HORING(
          horingPutSignal(data.data(), 8, horingInt32, peer, part.window, 0, 2, 0, 0, comm, nullptr));
      EXPECT_HORING(horingSignal(peer, 0, 0, 0, comm, nullptr));
      EXPECT_HORING(horingSignal(rank, 2, 0, 0, comm, nullptr));
      horingWaitSignalDesc_t waits[] = {{1, peer, 0, 0}, {1, peer, 2, 0}, {1, rank, 2, 0}};
      EXPECT_HORING(horingWaitSignal(3, waits, comm, nullptr));
      EXPECT_TRUE(part.has(std::vector<int32_t>(8, peer), 0));
      const char* const kBelow = "below config.numRmaSig, which is 3";
      EXPECT_TRUE(refuses(horingSignal(peer, 3, 0, 0, comm, nullptr), horingInvalidArgument, kBelow));
      EXPECT_TRUE(refuses(horingSignal(peer, -1, 0, 0, comm, nullptr), horingInvalidArgument, kBelow));
      meet(comm);
    }
  });
  EXPECT_HORING(horingSignal(1, 0, 0, 0, parents[0], nullptr)) << "not what rank 1 waits for";
  ASSERT_HORING(horingCommSetTimeout(parents[1], 200));
  horingWaitSignalDesc_t wait = {1, 0, 1, 0};
  EXPECT_TRUE(refuses(horingWaitSignal(1, &wait, parents[1], nullptr), horingTimeout, "from rank 0"));
  for (const horingComm_t comm : {children[0], children[1], parents[0], parents[1]})
    EXPECT_HORING(horingCommAbort(comm));
}

TEST_F(OneSidedErrors, NamePutsThatLeaveTheWindowOfTheirPeer) {
  EXPECT_TRUE(refuses(putBytes(0, 2001, 1, windows_[0], 0), horingInvalidArgument,
                      "2001 bytes to peerWinOffset 0 leaves the window of rank 1, which has 2000 bytes"));
  EXPECT_TRUE(refuses(putBytes(0, 1001, 0, windows_[0], 0), horingInvalidArgument, "which has 1000 bytes"));
  EXPECT_TRUE(refuses(putBytes(0, 2, 1, windows_[0], 1999), horingInvalidArgument, "leaves the window"));
  EXPECT_TRUE(refuses(putBytes(0, 1, 1, windows_[0], SIZE_MAX), horingInvalidArgument, "leaves the window"));
  EXPECT_TRUE(refuses(putBytes(0, 0, 1, windows_[0], 2001), horingInvalidArgument, "leaves the window"));
  EXPECT_HORING(putBytes(0, 1, 1, windows_[0], 1999));
  EXPECT_HORING(putBytes(0, 0, 1, windows_[0], 2000));
  await(0, 2, comm(1));
  EXPECT_EQ(parts_[1][1999], 'y');
  EXPECT_EQ(std::count(parts_[1].begin(), parts_[1].end(), 'x'), 1999);
}

TEST_F(OneSidedErrors, NameWhatIsWrongWithACall) {
  const char* const kInvalid = "is not a window of this communicator";
  EXPECT_TRUE(refuses(putBytes(0, 1, 1, nullptr, 0), horingInvalidArgument, kInvalid));
  EXPECT_TRUE(refuses(putBytes(0, 1, 1, windows_[1], 0), horingInvalidArgument, kInvalid)) << "of another";
  EXPECT_TRUE(refuses(putBytes(0, 1, 2, windows_[0], 0), horingInvalidArgument, "peer is 2"));
  EXPECT_TRUE(refuses(putBytes(0, 1, -1, windows_[0], 0), horingInvalidArgument, "peer is -1"));
  EXPECT_TRUE(refuses(horingPutSignal(nullptr, 1, horingInt8, 1, windows_[0], 0, 0, 0, 0, comm(0), nullptr),
                      horingInvalidArgument, "localbuff is NULL"));
  EXPECT_TRUE(
      refuses(horingPutSignal(data_.data(), 1, horingInt8, 1, windows_[0], 0, 1, 0, 0, comm(0), nullptr),
              horingInvalidArgument, "sigIdx is 1"));
  EXPECT_TRUE(
      refuses(horingPutSignal(data_.data(), 1, horingInt8, 1, windows_[0], 0, 0, 2, 0, comm(0), nullptr),
              horingInvalidArgument, "ctx is 2"));
  EXPECT_TRUE(
      refuses(horingPutSignal(data_.data(), 1, horingInt8, 1, windows_[0], 0, 0, 0, 4, comm(0), nullptr),
              horingInvalidArgument, "flags is 4"));
  EXPECT_TRUE(refuses(
      horingPutSignal(data_.data(), SIZE_MAX / 2, horingInt32, 1, windows_[0], 0, 0, 0, 0, comm(0), nullptr),
      horingInvalidArgument, "count is"));
  EXPECT_TRUE(refuses(horingPutSignal(data_.data(), 1, static_cast<horingDataType_t>(99), 1, windows_[0], 0,
                                      0, 0, 0, comm(0), nullptr),
                      horingInvalidArgument, "datatype is 99"));
  EXPECT_TRUE(refuses(horingSignal(2, 0, 0, 0, comm(0), nullptr), horingInvalidArgument, "peer is 2"));
  EXPECT_TRUE(refuses(horingSignal(1, 0, 0, 1, comm(0), nullptr), horingInvalidArgument, "flags is 1"));
  horingWaitSignalDesc_t wait = {1, 2, 0, 0};
  EXPECT_TRUE(refuses(horingWaitSignal(1, &wait, comm(0), nullptr), horingInvalidArgument, "peer is 2"));
  EXPECT_TRUE(refuses(horingWaitSignal(0, &wait, comm(0), nullptr), horingInvalidArgument, "nDesc is 0"));
  EXPECT_TRUE(refuses(horingWaitSignal(-1, &wait, comm(0), nullptr), horingInvalidArgument, "nDesc is -1"));
  EXPECT_TRUE(refuses(horingWaitSignal(1, nullptr, comm(0), nullptr), horingInvalidArgument, "signalDescs"));
  wait = {0, 1, 0, 0};
  EXPECT_TRUE(refuses(horingWaitSignal(1, &wait, comm(0), nullptr), horingInvalidArgument, "opCnt is 0"));
  wait = {-3, 1, 0, 0};
  EXPECT_TRUE(refuses(horingWaitSignal(1, &wait, comm(0), nullptr), horingInvalidArgument, "opCnt is -3"));
  wait = {1, 1, 1, 0};
  EXPECT_TRUE(refuses(horingWaitSignal(1, &wait, comm(0), nullptr), horingInvalidArgument, "sigIdx is 1"));
  wait = {1, 1, 0, -1};
  EXPECT_TRUE(refuses(horingWaitSignal(1, &wait, comm(0), nullptr), horingInvalidArgument, "ctx"));
  horingWindow_t window = nullptr;
  EXPECT_TRUE(
      refuses(horingCommWindowRegister(comm(0), nullptr, 8, &window, 0), horingInvalidArgument, "buff"));
  EXPECT_TRUE(
      refuses(horingCommWindowRegister(comm(0), &window, 8, nullptr, 0), horingInvalidArgument, "win"));
  EXPECT_TRUE(
      refuses(horingCommWindowRegister(comm(0), &window, 0, &window, 0), horingInvalidArgument, "size"));
  EXPECT_TRUE(
      refuses(horingWinGetUserPtr(comm(0), windows_[0], nullptr), horingInvalidArgument, "outUserPtr"));
  EXPECT_TRUE(refuses(horingCommWindowDeregister(comm(0), windows_[1]), horingInvalidArgument, kInvalid));
  EXPECT_HORING(horingCommWindowDeregister(comm(0), nullptr));
  EXPECT_TRUE(refuses(horingCommSuspend(comm(0), HORING_SUSPEND_MEM), horingInvalidUsage, "registered"));
  EXPECT_HORING(horingCommWindowDeregister(comm(0), windows_[0]));
  EXPECT_TRUE(refuses(putBytes(0, 1, 1, windows_[0], 0), horingInvalidArgument, kInvalid)) << "deregistered";
  EXPECT_TRUE(refuses(horingCommWindowDeregister(comm(0), windows_[0]), horingInvalidArgument, kInvalid));
}

TEST_F(OneSidedErrors, APutIntoADeregisteredWindowWritesNothing) {
  EXPECT_HORING(horingCommWindowDeregister(comm(1), windows_[1]));
  EXPECT_HORING(putBytes(0, 100, 1, windows_[0], 0)) << "it is on its way";
  horingWaitSignalDesc_t wait = {1, 0, 0, 0};
  EXPECT_TRUE(refuses(horingWaitSignal(1, &wait, comm(1), nullptr), horingInvalidUsage,
                      "rank 1 does not take a put of rank 0"));
  EXPECT_EQ(std::count(parts_[1].begin(), parts_[1].end(), 'x'), 2000);
  wait = {1, 1, 0, 0};
  EXPECT_TRUE(refuses(horingWaitSignal(1, &wait, comm(0), nullptr), horingRemoteError,
                      "rank 1 does not take a put of rank 0"))
      << "the other rank is told";
}

TEST_F(OneSidedErrors, AWaitNamesARankThatHasLeft) {
  EXPECT_HORING(horingCommDestroy(std::exchange(comms_[0], nullptr)));
  horingWaitSignalDesc_t wait = {1, 0, 0, 0};
  EXPECT_TRUE(refuses(horingWaitSignal(1, &wait, comm(1), nullptr), horingRemoteError, "rank 0"));
  EXPECT_HORING(horingCommWindowDeregister(comm(1), windows_[1])) << "after an error, too";
}

TEST_F(OneSidedErrors, ARefusedRegistrationLeavesTheRanksInStep) {
  char more = 0;
  horingWindow_t window = nullptr;
  EXPECT_TRUE(
      refuses(horingCommWindowRegister(comm(1), &more, 0, &window, 0), horingInvalidArgument, "size"));
  onEveryRank(2, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    horingWindow_t second = nullptr;
    EXPECT_HORING(horingCommWindowRegister(comm(r), &parts_[r][0], 8, &second, 0))
        << "a refused call counts not";
    EXPECT_NE(second, windows_[r]);
  });
}

TEST_F(OneSidedErrors, ADeadlineNamesTheRankThatDoesNotSignal) {
  ASSERT_HORING(horingCommSetTimeout(comm(1), 300));
  horingWaitSignalDesc_t wait = {2, 0, 0, 0};
  EXPECT_HORING(horingSignal(1, 0, 0, 0, comm(0), nullptr));
  EXPECT_TRUE(refuses(horingWaitSignal(1, &wait, comm(1), nullptr), horingTimeout, "rank 0"));
}

TEST_F(OneSidedErrors, AnAbortEndsAWait) {
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  await(0, 1, comm(1), stream);
  ASSERT_HORING(horingCommAbort(comm(1)));
  EXPECT_EQ(horingStreamSynchronize(stream), horingInvalidUsage);
  EXPECT_HORING(horingStreamDestroy(stream));
  comms_[1] = nullptr;
}

// Rank 1 ends while rank 0 waits for its signal, or puts more than the connection holds.
int putOrWait(const horingUniqueId& id, int rank, bool puts) {
  horingComm_t comm = nullptr;
  std::vector<int32_t> values(5'000'000);
  horingWindow_t window = nullptr;
  if (horingCommInitRank(&comm, 2, id, rank) != horingSuccess) return 10;
  if (horingCommWindowRegister(comm, values.data(), values.size() * 4, &window, 0) != horingSuccess)
    return 11;
  if (rank == 1) return ::kill(::getpid(), SIGKILL);
  horingResult_t result = horingSuccess;
  horingWaitSignalDesc_t wait = {1, 1, 0, 0};
  for (int i = 0; i < 100 && result == horingSuccess; ++i)
    result = puts ? horingPutSignal(values.data(), values.size(), horingInt32, 1, window, 0, 0, 0, 0, comm,
                                    nullptr)
                  : horingWaitSignal(1, &wait, comm, nullptr);
  if (result != horingRemoteError) return 12;
  return std::string(horingGetLastError(nullptr)).find("rank 1") == std::string::npos ? 13 : 0;
}

TEST(OneSidedTrouble, NamesAKilledRank) {
  if (horing::test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
  const Setting patience("HORING_TIMEOUT_MS", "20000");
  for (const char* transport : {"shm", "socket"}) {
    const Setting only("HORING_TRANSPORTS", transport);
    for (const bool puts : {false, true}) {
      horingUniqueId id;
      ASSERT_HORING(horingGetUniqueId(&id));
      pid_t children[2];
      for (int rank = 0; rank < 2; ++rank) {
        children[rank] = ::fork();
        ASSERT_GE(children[rank], 0);
        if (children[rank] == 0) ::_exit(putOrWait(id, rank, puts));
      }
      int status[2] = {-1, -1};
      for (int rank = 0; rank < 2; ++rank) {
        ASSERT_EQ(::waitpid(children[rank], &status[rank], 0), children[rank]);
      }
      EXPECT_EQ(status[0], 0) << transport << (puts ? ", putting: " : ", waiting: ")
                              << WEXITSTATUS(status[0]);
      EXPECT_TRUE(WIFSIGNALED(status[1]));
    }
  }
}

// Emulated nodes: ranks of two groups, over shared memory inside and TCP between them.
TEST(OneSidedNodes, PutsReachEveryRank) {
  const Setting shared("HORING_TRANSPORTS", "shm,socket");
  const std::vector<horingComm_t> comms = makeGroups({"A", "A", "B", "B"});
  onEveryRank(4, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    {
      Part part(comm, 4);
      const auto sent = numbers(kPart, rank);
      for (int peer = 0; peer < 4; ++peer)
        put(sent, peer, part.window, static_cast<size_t>(rank) * kPart, comm);
      for (int peer = 0; peer < 4; ++peer) {
        await(peer, 1, comm);
        EXPECT_TRUE(part.has(numbers(kPart, peer), static_cast<size_t>(peer) * kPart)) << peer;
      }
      meet(comm);
    }
    EXPECT_HORING(horingCommDestroy(comm));
  });
}

}  // namespace
