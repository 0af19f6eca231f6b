// bench/peers/turns: how a rank answers each message of the conductor, with libraries made here.
#include "peers/turns.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "../../temporary_folder.h"
#include "base/fd.h"

namespace horing::bench {
namespace {

enum class Habit { kHonest, kLazy, kInPlace, kBroken };

// A job of one rank.
class OneRank final : public Library {
 public:
  explicit OneRank(Habit habit) : habit_(habit) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Result<const float*> run(const Call& call) override {
    ++calls;
    if (on_run) on_run();
    if (habit_ == Habit::kBroken) return makeStatus(Code::kRemoteError, "the other end is gone");
    if (habit_ == Habit::kInPlace) return call.send;
    if (habit_ == Habit::kHonest) std::memcpy(call.receive, call.send, call.count * sizeof(float));
    return call.receive;
  }
  int calls = 0;
  std::function<void()> on_run;

 private:
  Habit habit_;
};

// The conductor's end.
class Conductor {
 public:
  Conductor() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    listener_ = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
  }

  // What the library's rank answers to each line, first of all its greeting; then the connection ends.
  std::vector<std::string> talk(Library& library, const std::vector<std::string>& lines) {
    std::string program = "peer";
    char* arguments[] = {program.data(), path_.data()};
    int code = -1;
    std::thread rank([&] { code = takeTurns(library, 2, arguments); });
    Fd connection(accept(listener_.get(), nullptr, nullptr));
    const timeval limit = {20, 0};
    setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::vector<std::string> answers = {readLine(connection)};
    for (const std::string& line : lines) {
      const std::string text = line + "\n";
      EXPECT_EQ(write(connection.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
      answers.push_back(readLine(connection));
    }
    connection.reset();
    rank.join();
    EXPECT_EQ(code, 0);
    return answers;
  }

 private:
  static std::string readLine(const Fd& connection) {
    std::string line;
    for (char byte = 0; read(connection.get(), &byte, 1) == 1 && byte != '\n';) line += byte;
    return line;
  }

  const test::TemporaryFolder folder_{"/tmp"};  // the name of a socket is short
  std::string path_ = folder_.path() / "socket";
  Fd listener_;
};

std::string lastWord(const std::string& text) {
  return text.substr(text.rfind(' ') + 1);
}

TEST(Turns, SayWhoARankIsAndRunEachCollective) {
  OneRank library(Habit::kHonest);
  const auto answers = Conductor().talk(
      library, {"all_reduce 64 0 1 check", "reduce_scatter 64 0 1 check", "all_gather 64 0 1 check"});
  EXPECT_EQ(answers[0], "0 1");
  for (size_t i = 1; i < answers.size(); ++i) {
    EXPECT_TRUE(answers[i].starts_with("ok ")) << answers[i];
    EXPECT_EQ(lastWord(answers[i]), "0") << answers[i];
  }
}

TEST(Turns, BindARankToTheCoreItIsTold) {
  cpu_set_t before, during;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  OneRank library(Habit::kHonest);
  library.on_run = [&] { ASSERT_EQ(sched_getaffinity(0, sizeof during, &during), 0); };
  const auto answers =
      Conductor().talk(library, {"core " + std::to_string(core), "all_reduce 64 0 1 check", "core 100000"});
  EXPECT_EQ(answers[1], "ok");
  EXPECT_EQ(CPU_COUNT(&during), 1);
  EXPECT_TRUE(CPU_ISSET(core, &during));
  EXPECT_TRUE(answers[3].starts_with("failed ")) << answers[3];
}

TEST(Turns, RunWarmupsAndIterationsBetweenTwoBarriers) {
  OneRank library(Habit::kHonest);
  Conductor().talk(library, {"all_reduce 64 3 5 trust"});
  EXPECT_EQ(library.calls, 3 + 5 + 2);
}

TEST(Turns, FindALibraryThatDoesNothing) {
  OneRank library(Habit::kLazy);
  const auto answers = Conductor().talk(library, {"all_reduce 64 0 1 check", "all_gather 4096 0 1 check"});
  EXPECT_EQ(lastWord(answers[1]), "16");
  EXPECT_EQ(lastWord(answers[2]), "1024");
}

TEST(Turns, AcceptAResultInTheSendBuffer) {
  OneRank library(Habit::kInPlace);
  EXPECT_EQ(lastWord(Conductor().talk(library, {"reduce_scatter 64 0 1 check"})[1]), "0");
}

TEST(Turns, PassALibrarysErrorOn) {
  OneRank library(Habit::kBroken);
  EXPECT_EQ(Conductor().talk(library, {"all_reduce 64 0 1 trust"})[1], "failed the other end is gone");
}

TEST(Turns, RefuseWhatIsNoTurn) {
  OneRank library(Habit::kHonest);
  const auto answers = Conductor().talk(library, {"all_reduce", "all_or_nothing 8 0 1 trust"});
  EXPECT_TRUE(answers[1].starts_with("failed no turn")) << answers[1];
  EXPECT_TRUE(answers[2].starts_with("failed unknown collective")) << answers[2];
}

}  // namespace
}  // namespace horing::bench
