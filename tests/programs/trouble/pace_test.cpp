// What a running job reports about late ranks and slow paths, in its log and to `horing-info job`.
#include <gtest/gtest.h>

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
