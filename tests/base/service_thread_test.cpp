#include "base/service_thread.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>

#include "../sanitizer.h"

namespace horing {
namespace {

// Ends when the test requests it.
struct Service {
  Service() {
    EXPECT_TRUE(thread.start("a service", [this] { stop.wait(false); }).ok());
  }
  ~Service() {
    thread.end([this] { release(); });
  }
  void release() {
    stop = true;
    stop.notify_all();
  }
  std::atomic<bool> stop{false};
  ServiceThread thread;
};

TEST(ServiceThread, IsJoinedOnce) {
  std::atomic<int> asked{0}, ran{0};
  {
    ServiceThread thread;
    EXPECT_FALSE(thread.started());
    ASSERT_TRUE(thread.start("a service", [&] { ++ran; }).ok());
    EXPECT_TRUE(thread.started());
    EXPECT_FALSE(thread.isOfParent());
    thread.end([&] { ++asked; });
    EXPECT_EQ(ran, 1);
    EXPECT_FALSE(thread.started());
    thread.end([&] { ++asked; });
    EXPECT_EQ(asked, 1);
    ASSERT_TRUE(thread.start("a service", [&] { ++ran; }).ok());
  }
  EXPECT_EQ(ran, 2);
}

TEST(ServiceThread, AForkedChildLetsGoOfTheThreadOfItsParent) {
  if (test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
  auto service = std::make_unique<Service>();
  const pid_t child = ::fork();
  if (child == 0) {
    if (!service->thread.isOfParent()) ::_exit(1);
    // It may get the stack and the name of the parent's thread, and is to be left alone.
    {
      const Service own;
      if (!own.thread.started() || own.thread.isOfParent()) ::_exit(2);
      service.reset();
    }
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(service->thread.started());
}

}  // namespace
}  // namespace horing
