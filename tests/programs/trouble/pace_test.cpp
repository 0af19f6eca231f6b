// What a running job reports about late ranks and slow paths, in its log and to `horing-info job`.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <optional>

#include "job.h"

namespace horing::test {
namespace {

// Runs a job, which would not end, until it has said that text; all that it has said then.
std::string saidUntil(JobOptions options, const std::string& text) {
  options.words.emplace_back("rounds=1000000");
  options.environment.emplace_back("HORING_DEBUG=info");
  const Program job(jobCommand(options));
  const auto said = [&] { return job.output() + job.errors(); };
  EXPECT_TRUE(eventually([&] { return said().find(text) != std::string::npos; })) << said();
  return said();
}

TEST(Pace, NamesTheRankThatComesLate) {
  const std::string late = "comes late: in each call the others wait ";
  const std::string said =
      saidUntil({.ranks = 3, .words = {"each_late_ms=2", "2:each_late_ms=40", "count=100"}}, late);
  const std::string line = said.substr(0, said.find(late));
  EXPECT_TRUE(namesRank(line.substr(line.rfind('\n') + 1), 2)) << said;
  EXPECT_EQ(said.find("moves slowly"), std::string::npos) << said;
}

// The all-reduce sends 1 MB to a rank at once, which the system's buffers take: no sender waits for room.
TEST(Pace, NamesTheSlowPathAndNoLateRank) {
  HORING_NEEDS_NODES();
  for (const char* const collective : {"collective=exchange", "collective=all_reduce"}) {
    const std::string said = saidUntil({.ranks = 4,
                                        .run = {"--nodes", "4", "--rate", "200,200,50,200"},
                                        .words = {collective, "count=1000000", "HORING_CALIBRATE=0"}},
                                       "data moves slowly from rank ");
    EXPECT_EQ(said.find("comes late"), std::string::npos) << said;
  }
}

// The process of a rank of a running job.
std::string pidIn(const Program& job) {
  const std::string word = "process ";
  EXPECT_TRUE(eventually([&] { return job.output().find(word) != std::string::npos; })) << job.errors();
  const std::string said = job.output();
  const size_t at = said.find(word) + word.size();
  return said.substr(at, said.find('\n', at) - at);
}

TEST(JobWindow, ShowsAllRanksOfARunningJobThroughOneOfThem) {
  const Program job(jobCommand({.ranks = 2,
                                .words = {"rounds=1000000", "count=100", "1:each_late_ms=50"},
                                .before = {"sh", "-c", "echo process $$; exec \"$0\" \"$@\""}}));
  const std::string pid = pidIn(job);
  Outcome seen;
  EXPECT_TRUE(eventually([&] {
    seen = runProgram({HORING_INFO_PROGRAM, "job", pid});
    return seen.code == 0 && seen.output.find("% of the time for data from rank 1\n") != std::string::npos;
  })) << seen.output
      << seen.errors;
  EXPECT_NE(seen.output.find(", pid " + pid + ")"), std::string::npos) << seen.output;
  for (const char* part : {"\nrank 0 (", "\nrank 1 (", " calls/s, "})
    EXPECT_NE(seen.output.find(part), std::string::npos) << seen.output;
}

// A call that no call went before has made nobody wait for long yet, and has no time.
TEST(JobWindow, TellsTheRanksInTheirFirstCallFromTheOneInNone) {
  const Program job(jobCommand({.ranks = 3,
                                .words = {"count=100", "1:call_late_ms=50000"},
                                .before = {"sh", "-c", "echo process $$; exec \"$0\" \"$@\""}}));
  const std::string pid = pidIn(job);
  Outcome seen;
  const auto line_has = [&](const std::string& who, const std::string& what) {
    const size_t line = seen.output.find(who);
    return line != std::string::npos && seen.output.find(what, line) < seen.output.find('\n', line + 1);
  };
  EXPECT_TRUE(eventually([&] {
    seen = runProgram({HORING_INFO_PROGRAM, "job", pid});
    return line_has("\nrank 0 (", "; in all_reduce #0 (") && line_has("\nrank 2 (", "; in all_reduce #0 (");
  })) << seen.output
      << seen.errors;
  EXPECT_TRUE(line_has("\nrank 1 (", "): no calls\n")) << seen.output;
  const std::string name = seen.output.substr(0, seen.output.find(':'));  // "job 1a2b3c4d"
  seen = runProgram({HORING_INFO_PROGRAM, "job"});                        // with all jobs of the machine
  EXPECT_TRUE(line_has(name + ": rank 1 of 3 (", ") in no call\n")) << name << '\n' << seen.output;
}

// The ranks from 1 on are stopped; with a job that lives on.
class StoppedRanks : public testing::Test {
 protected:
  void start(int ranks, const std::string& heartbeat_ms) {
    JobOptions options{.ranks = ranks, .words = {"rounds=100000000", "count=1000"}};
    options.environment = {"HORING_HEARTBEAT_MS=" + heartbeat_ms};
    options.before = {"sh", "-c", "[ $RANK != 0 ] || echo process $$; exec \"$0\" \"$@\""};
    for (int rank = 1; rank < ranks; ++rank) {
      options.words.push_back(std::to_string(rank) + ":signal_after_ms=300");
      options.words.push_back(std::to_string(rank) + ":signal=" + std::to_string(SIGSTOP));
    }
    job_.emplace(jobCommand(options));
    ASSERT_TRUE(eventually([&] { return countOf(*job_, "signal") == ranks - 1; })) << job_->errors();
  }
  // What is said of the rank.
  static std::string lineOf(int rank, const std::string& output) {
    const size_t at = output.find("\nrank " + std::to_string(rank) + " (");
    return at == std::string::npos ? "" : output.substr(at + 1, output.find('\n', at + 1) - at - 1);
  }
  // From the ranks of the process's job on: other jobs may run on this machine.
  static std::string fromJobOf(const std::string& pid, const std::string& output) {
    const size_t line = output.rfind('\n', output.find(", pid " + pid + ")")) + 1;
    const std::string name = output.substr(line, output.find(':', line) - line);  // "job 1a2b3c4d"
    const size_t ranks = output.find('\n' + name + '\n');
    return ranks == std::string::npos ? "" : output.substr(ranks);
  }
  std::optional<Program> job_;
};

// One after the other they would take 12 s.
TEST_F(StoppedRanks, AreAskedTogetherAndNamed) {
  start(5, "10000");
  const auto began = std::chrono::steady_clock::now();
  const Outcome seen = runProgram({HORING_INFO_PROGRAM, "job"});
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  EXPECT_EQ(seen.code, 0) << seen.errors;
  const std::string of_job = fromJobOf(pidIn(*job_), seen.output);
  for (int rank = 1; rank < 5; ++rank)
    EXPECT_TRUE(lineOf(rank, of_job).ends_with("): does not answer; its process is stopped (state T)"))
        << seen.output;
}

// Here as seen by a rank that does not know their processes.
TEST_F(StoppedRanks, AreNotSaidToHaveMadeNoCalls) {
  start(2, "2000");
  Outcome seen;
  EXPECT_TRUE(eventually([&] {
    seen = runProgram({HORING_INFO_PROGRAM, "job", pidIn(*job_)});
    return lineOf(1, seen.output).find("): nothing heard of it for ") != std::string::npos;
  })) << seen.output
      << seen.errors;
}

TEST(JobWindow, IsFoundOnEmulatedNodes) {
  HORING_NEEDS_NODES();
  const Program job(jobCommand(
      {.ranks = 2, .run = {"--nodes", "2"}, .words = {"rounds=1000000", "count=100", "1:each_late_ms=50"}}));
  Outcome seen;
  EXPECT_TRUE(eventually([&] {
    seen = runProgram({HORING_INFO_PROGRAM, "job"});
    return seen.output.find("\nrank 1 (node1, ") != std::string::npos;
  })) << seen.output
      << seen.errors;
}

TEST(JobWindow, TellsWhatIsNoJob) {
  EXPECT_EQ(runProgram({HORING_INFO_PROGRAM, "job", "x"}).code, 2);
  EXPECT_NE(
      runProgram({HORING_INFO_PROGRAM, "job", "1"}).errors.find("process 1 has no communicator of horing"),
      std::string::npos);
}

}  // namespace
}  // namespace horing::test
