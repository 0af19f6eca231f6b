// Communicators made out of others, by real processes.
#include <gtest/gtest.h>

#include "program.h"

namespace horing::test {
namespace {

TEST(Offspring, SplitsByNodeAndAcrossNodesRunInterleaved) {
  HORING_NEEDS_NODES();
  const Outcome outcome = runProgram(
      {HORING_RUN_PROGRAM, "-n", "8", "--nodes", "2", "--timeout", "40", "--", HORING_OFFSPRING_PROGRAM});
  EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
}

// All other ranks report that they continued.
void killAndLook(const std::vector<std::string>& options, int ranks, int victim) {
  std::vector<std::string> command = {HORING_RUN_PROGRAM, "-n",        std::to_string(ranks),
                                      "--keep-going",     "--timeout", "40"};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", HORING_OFFSPRING_PROGRAM, std::to_string(victim)});
  const Outcome outcome = runProgram(command);
  for (int rank = 0; rank < ranks; ++rank) {
    const bool went_on =
        outcome.output.find("rank " + std::to_string(rank) + " went on") != std::string::npos;
    EXPECT_EQ(went_on, rank != victim) << outcome.output << outcome.errors;
  }
}

TEST(Offspring, GoOnWithoutARankThatWasKilled) {
  // Rank 0 hosts the rendezvous of the parent.
  for (const int victim : {0, 2}) killAndLook({}, 4, victim);
}

TEST(Offspring, GoOnAcrossNodesWithoutARankThatWasKilled) {
  HORING_NEEDS_NODES();
  killAndLook({"--nodes", "2"}, 4, 0);
}

}  // namespace
}  // namespace horing::test
