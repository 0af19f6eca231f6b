// Communicators made out of others, by real processes.
#include <gtest/gtest.h>

#include "program.h"

namespace horing::test {
namespace {

TEST(Offspring, SplitsByNodeAndAcrossNodesRunInterleaved) {
  const Outcome possible = runProgram({HORING_RUN_PROGRAM, "--check-nodes"});
  if (possible.code != 0) GTEST_SKIP() << possible.errors;
  const Outcome outcome = runProgram(
      {HORING_RUN_PROGRAM, "-n", "8", "--nodes", "2", "--timeout", "40", "--", HORING_OFFSPRING_PROGRAM});
  EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
}

}  // namespace
}  // namespace horing::test
