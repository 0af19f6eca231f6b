#pragma once
// Ranks that are processes of this machine, each with its own GPU of the fake driver.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gpu_ranks.h"

// What a program that is one rank of several knows.
struct Membership {
  horingUniqueId id;
  int rank = 0;
  int ranks = 2;

  std::string text() const {
    std::string text = std::to_string(rank) + ' ' + std::to_string(ranks);
    for (const char byte : id.internal) text += ' ' + std::to_string(byte);
    return text;
  }
  static Membership fromEnvironment() {
    const char* const text = std::getenv("HORING_TESTS_MEMBERSHIP");
    std::istringstream words(text ? text : "");
    Membership membership;
    words >> membership.rank >> membership.ranks;
    for (char& byte : membership.id.internal) {
      int number = 0;
      words >> number;
      byte = static_cast<char>(number);
    }
    EXPECT_FALSE(words.fail()) << "run by another test";
    return membership;
  }
};

// Another process of this program, that runs one of its disabled tests as a rank.
class OtherProcess {
 public:
  OtherProcess(const char* test, const Membership& membership) {
    const std::string text = membership.text(), filter = std::string("--gtest_filter=") + test;
    process_ = ::fork();
    if (process_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it may wait for ever
    ::setenv("HORING_TESTS_MEMBERSHIP", text.c_str(), 1);
    ::execl("/proc/self/exe", "test", "--gtest_also_run_disabled_tests", filter.c_str(), nullptr);
    ::_exit(127);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() { (void)wait(); }
  // The status from waitpid() after its end.
  int wait() {
    if (process_ > 0) {
      EXPECT_GT(::waitpid(std::exchange(process_, 0), &status_, 0), 0);
    }
    return status_;
  }
  void kill() {
    if (process_ > 0) ::kill(process_, SIGKILL);
    (void)wait();
  }

 private:
  pid_t process_ = 0;
  int status_ = -1;
};

// One of the processes, which may be the parent of the others.
class GpuProcesses : public testing::Test {
 protected:
  void SetUp() override {
    if (horing::test::FakeCuda::isReal()) GTEST_SKIP() << "made for the fake driver";
    cuda_.setKernels(&horing::test::emulatedKernels());
  }
  void TearDown() override {
    if (comm_) {
      EXPECT_HORING(horingCommDestroy(comm_));
    }
    cuda_.setKernels(nullptr);
  }
  virtual void join(const Membership& membership) {
    me_ = membership;
    ASSERT_HORING(horingCommInitRank(&comm_, me_.ranks, me_.id, me_.rank));
  }
  // As rank 0 of so many; the others run that test.
  void host(const char* test, int ranks = 2) {
    Membership membership{{}, 0, ranks};
    ASSERT_HORING(horingGetUniqueId(&membership.id));
    for (membership.rank = 1; membership.rank < ranks; ++membership.rank)
      others_.push_back(std::make_unique<OtherProcess>(test, membership));
    membership.rank = 0;
    join(membership);
  }
  // Each as one of four ranks on two nodes.
  void joinTwoNodes() {
    const Membership membership = Membership::fromEnvironment();
    const Setting node("HORING_HOSTID", membership.rank < 2 ? "node 0" : "node 1");
    join(membership);
  }
  void hostTwoNodes(const char* test) {
    const Setting node("HORING_HOSTID", "node 0");
    host(test, 4);
  }
  horingResult_t add(const horing::test::GpuVector<float>& data, size_t count, void* stream) {
    return horingAllReduce(data.data(), data.data(), count, horingFloat, horingSum, comm_, stream);
  }
  // To every other rank and back, so many at once that no queue holds them; on a stream of CUDA, or complete on return.
  void exchangeMessages(const std::vector<const horing::test::GpuStream*>& streams) {
    const size_t n = 150'001;
    const auto from = [](int rank, int to) { return static_cast<float>(10 * rank + to); };
    std::vector<std::unique_ptr<horing::test::GpuVector<float>>> sent, received;
    EXPECT_HORING(horingGroupStart());
    for (int peer = 0; peer < me_.ranks; ++peer) {
      const auto box = [&](float value) {
        return std::make_unique<horing::test::GpuVector<float>>(cuda_, me_.rank,
                                                                std::vector<float>(n, value));
      };
      void* const on = streams.empty() ? nullptr : streams[static_cast<size_t>(peer) % streams.size()]->get();
      sent.push_back(box(from(me_.rank, peer)));
      received.push_back(box(-1));
      EXPECT_HORING(horingSend(sent.back()->data(), n, horingFloat, peer, comm_, on));
      EXPECT_HORING(horingRecv(received.back()->data(), n, horingFloat, peer, comm_, on));
    }
    EXPECT_HORING(horingGroupEnd());
    for (const horing::test::GpuStream* const stream : streams) stream->synchronize();
    for (int peer = 0; peer < me_.ranks; ++peer)
      EXPECT_EQ(received[static_cast<size_t>(peer)]->read(), std::vector<float>(n, from(peer, me_.rank)))
          << "from rank " << peer;
  }
  void exchangeMessagesTwice() {
    const horing::test::GpuStream stream(cuda_, me_.rank), other(cuda_, me_.rank);
    for (int round = 0; round < 2; ++round) {
      exchangeMessages({&stream});
      exchangeMessages({});
      exchangeMessages({&other, &stream});
    }
  }
  void expectOthersEndWell() {
    EXPECT_HORING(horingCommDestroy(std::exchange(comm_, nullptr)));
    for (const auto& other : others_) EXPECT_EQ(other->wait(), 0);
    others_.clear();
  }
  uint64_t memoryBytes() {
    uint64_t bytes = 0;
    EXPECT_HORING(horingCommMemoryBytes(comm_, &bytes));
    return bytes;
  }

  const horing::test::FakeCuda cuda_;
  Membership me_;
  horingComm_t comm_ = nullptr;
  std::vector<std::unique_ptr<OtherProcess>> others_;
};
