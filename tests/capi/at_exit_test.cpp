// Calls from handlers of exit() and destructors of static objects, by a thread that had a failure before: its texts are still there.
#include <gtest/gtest.h>
#include <horing/horing.h>
#include <horing/paro.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

// Fails, with an error text that needs memory.
bool failsAndSaysWhy() {
  const bool failed = horingCommCount(nullptr, nullptr) != horingSuccess;
  return failed && std::strlen(horingGetLastError(nullptr)) > 20;
}

bool failsInAGroup() {
  horingGroupStart();
  const bool failed =
      horingAllReduce(nullptr, nullptr, 1, horingFloat, horingSum, nullptr, nullptr) != horingSuccess;
  return failed && horingGroupEnd() != horingSuccess;
}

bool paroFailsAndSaysWhy() {
  const bool failed = horingParoGetStrategy(horingParoNNN, nullptr) != horingSuccess;
  return failed && std::strlen(horingParoGetLastError()) > 20;
}

bool allFail() {
  return failsAndSaysWhy() && failsInAGroup() && paroFailsAndSaysWhy();
}

TEST(AtExit, HandlersMayCall) {
  EXPECT_EXIT(
      {
        std::atexit([] { ::_exit(allFail() ? 0 : 1); });
        if (allFail()) std::exit(2);
      },
      testing::ExitedWithCode(0), "");
}

TEST(AtExit, DestructorsOfStaticObjectsMayCall) {
  EXPECT_EXIT(
      {
        static const struct Last {
          ~Last() { ::_exit(allFail() ? 0 : 1); }
        } last;
        if (allFail()) std::exit(2);
      },
      testing::ExitedWithCode(0), "");
}

// It has no trace of the library before.
TEST(AtExit, HandlersMayCallFirst) {
  EXPECT_EXIT(
      {
        std::atexit([] { ::_exit(allFail() && allFail() ? 0 : 1); });
        std::exit(2);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
