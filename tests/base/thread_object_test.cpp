#include "base/thread_object.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

namespace horing {
namespace {

std::atomic<int> alive{0};
struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  std::string text = "text that needs memory of its own";
};
using Each = ThreadObject<Counted>;

TEST(ThreadObject, BelongsToAThreadAndGoesWithIt) {
  const int before = alive;
  Each::get().text = "of this thread";
  std::thread([&] {
    EXPECT_NE(Each::get().text, "of this thread");
    EXPECT_EQ(&Each::get(), &Each::get());
    EXPECT_EQ(alive, before + 2);
  }).join();
  EXPECT_EQ(alive, before + 1);
}

TEST(ThreadObject, IsThereWhileTheProgramEnds) {
  EXPECT_EXIT(
      {
        std::atexit([] { ::_exit(Each::get().text == "kept until the very end of it" ? 0 : 1); });
        Each::get().text = "kept until the very end of it";
        std::exit(2);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace horing
