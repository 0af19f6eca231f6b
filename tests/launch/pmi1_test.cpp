// A server of PMI-1 as mpiexec is one, in this process: one socket pair and one thread for each rank.
#include "launch/pmi1.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "../control/control_ranks.h"
#include "base/fd.h"
#include "launch/launcher.h"

namespace horing {
namespace {

using namespace testing_comm;

struct Ends {
  Fd rank;
  Fd server;
};

Ends socketPair() {
  int fds[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

// Answers as MPICH 4.0 does.
class PmiServer {
 public:
  explicit PmiServer(int ranks) : ranks_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) ends_.push_back(socketPair());
    for (int rank = 0; rank < ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
  }
  ~PmiServer() {
    for (Ends& ends : ends_) ::shutdown(ends.server.get(), SHUT_RDWR);
    barrier_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  int fd(int rank) const { return ends_[static_cast<size_t>(rank)].rank.get(); }
  int finalized() {
    const std::lock_guard lock(mutex_);
    return finalized_;
  }

 private:
  void serve(int rank) {
    const int fd = ends_[static_cast<size_t>(rank)].server.get();
    std::string line;
    char letter;
    while (::recv(fd, &letter, 1, 0) == 1) {
      if (letter != '\n') {
        line += letter;
        continue;
      }
      const std::string answer = answerTo(line) + "\n";
      line.clear();
      // In two pieces: a stream keeps no boundaries.
      ::send(fd, answer.data(), answer.size() / 2, MSG_NOSIGNAL);
      ::send(fd, answer.data() + answer.size() / 2, answer.size() - answer.size() / 2, MSG_NOSIGNAL);
    }
  }

  std::string answerTo(const std::string& line) {
    std::unique_lock lock(mutex_);
    if (line == "cmd=init pmi_version=1 pmi_subversion=1")
      return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    if (line == "cmd=get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_7_0";
    if (line.starts_with("cmd=put kvsname=kvs_7_0 key=")) {
      stored_ = line.substr(line.find(" value=") + 7);
      return "cmd=put_result rc=0 msg=success";
    }
    if (line == "cmd=barrier_in") {
      if (++in_barrier_ == ranks_) barrier_.notify_all();
      barrier_.wait_for(lock, std::chrono::seconds(20), [this] { return in_barrier_ == ranks_; });
      return "cmd=barrier_out";
    }
    if (line.starts_with("cmd=get kvsname=kvs_7_0 key="))
      return stored_.empty() ? "cmd=get_result rc=-1 msg=key_not_found"
                             : "cmd=get_result rc=0 msg=success value=" + stored_;
    if (line != "cmd=finalize") return "cmd=unknown rc=-1";
    ++finalized_;
    return "cmd=finalize_ack";
  }

  int ranks_;
  std::vector<Ends> ends_;
  std::mutex mutex_;
  std::condition_variable barrier_;
  std::string stored_;
  int in_barrier_ = 0;
  int finalized_ = 0;
  std::vector<std::thread> threads_;
};

TEST(Pmi1, CarriesTheTextOfRankZeroToAll) {
  PmiServer server(5);
  inThreads(5, [&](int rank) {
    const auto got = broadcastOverPmi1(server.fd(rank), rank, rank == 0 ? "a=b_of_rank_0" : "", in(20'000));
    ASSERT_TRUE(got.ok()) << got.status().toString();
    EXPECT_EQ(got.value(), "a=b_of_rank_0");
  });
  EXPECT_EQ(server.finalized(), 5) << "mpiexec takes a rank that does not finalize for a crash";
}

TEST(Pmi1, LetsRanksMeet) {
  PmiServer server(3);
  inThreads(3, [&](int rank) {
    const std::map<std::string, std::string> variables = {{"PMI_RANK", std::to_string(rank)},
                                                          {"PMI_SIZE", "3"},
                                                          {"SLURM_PROCID", std::to_string(rank)},
                                                          {"SLURM_NTASKS", "3"},
                                                          {"SLURM_LOCALID", "2"},
                                                          {"PMI_FD", std::to_string(server.fd(rank))}};
    const EnvironmentLookup lookup = [&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    };
    Result<Launched> launched = launchedRank(Config::fromLookup([](const char*) { return nullptr; }).take(),
                                             Log(LogLevel::kNone), lookup);
    ASSERT_TRUE(launched.ok()) << launched.status().toString();
    EXPECT_EQ(launched.value().local_rank, 2);
    Result<std::unique_ptr<Control>> control = Control::join(joinOptions(launched.value().id, rank, 3));
    ASSERT_TRUE(control.ok()) << control.status().toString();
    control.value()->leave();
  });
}

TEST(Pmi1, EndsWithItsDeadline) {
  const Ends ends = socketPair();
  const Status status = broadcastOverPmi1(ends.rank.get(), 0, "x", in(20)).status();
  EXPECT_EQ(status.code(), Code::kTimeout) << status.toString();
}

TEST(Pmi1, SaysThatMpiexecIsGone) {
  Ends ends = socketPair();
  ends.server.reset();
  const Status status = broadcastOverPmi1(ends.rank.get(), 0, "x", in(20'000)).status();
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_TRUE(mentions(status, "PMI-1 serves a process once")) << status.toString();
}

TEST(Pmi1, RefusesAnswersThatAreNone) {
  for (const std::string& answer :
       {std::string("cmd=response_to_init rc=-1\n"), std::string("cmd=barrier_out\n"), std::string("\n"),
        std::string(5000, 'x'), std::string("cmd=\n")}) {
    const Ends ends = socketPair();
    ASSERT_EQ(::send(ends.server.get(), answer.data(), answer.size(), 0),
              static_cast<ssize_t>(answer.size()));
    const Status status = broadcastOverPmi1(ends.rank.get(), 0, "x", in(20'000)).status();
    EXPECT_EQ(status.code(), Code::kRemoteError) << answer.substr(0, 40);
  }
}

}  // namespace
}  // namespace horing
