// The socket by which horing-info job queries a process.
#include "control/job_window.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "../open_descriptors.h"

namespace horing {
namespace {

// Programs with hundreds of communicators need their descriptors.
TEST(JobWindow, IsOfFewCommunicatorsOfAProcess) {
  std::optional<JobWindow> first(JobWindow::open());
  const JobWindow second = JobWindow::open();
  ASSERT_TRUE(first->valid() && second.valid());
  const int before = test::openDescriptors();
  for (int more = 0; more < 100; ++more) EXPECT_FALSE(JobWindow::open().valid());
  EXPECT_EQ(test::openDescriptors(), before);
  first.reset();
  EXPECT_TRUE(JobWindow::open().valid()) << "its place is free";
}

Fd visitorOf(const JobWindow& window) {
  sockaddr_un address{};
  socklen_t length = sizeof address;
  EXPECT_EQ(::getsockname(window.fd(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  Fd visitor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  EXPECT_EQ(::connect(visitor.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  return visitor;
}

bool isReadable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

// Left in the queue, they would keep the thread from sleeping.
TEST(JobWindow, TurnsAwayThoseThatAreTooMany) {
  JobWindow window = JobWindow::open();
  ASSERT_TRUE(window.valid());
  std::vector<Fd> visitors;
  for (int number = 0; number < 16; ++number) {
    visitors.push_back(visitorOf(window));
    EXPECT_TRUE(window.admit());
  }
  const Fd late = visitorOf(window);
  EXPECT_TRUE(window.admit());
  EXPECT_FALSE(isReadable(window.fd()));
  char part = 0;
  EXPECT_EQ(::read(late.get(), &part, 1), 0);
  window.answer("!");
  for (const Fd& visitor : visitors) EXPECT_EQ(::read(visitor.get(), &part, 1), 1);
  visitors.push_back(visitorOf(window));
  EXPECT_TRUE(window.admit()) << "there is room again";
}

TEST(JobWindow, SaysThatItLacksDescriptors) {
  JobWindow window = JobWindow::open();
  ASSERT_TRUE(window.valid());
  const Fd visitor = visitorOf(window);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_FALSE(window.admit());
  EXPECT_TRUE(window.isStarved());
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(window.admit());
  EXPECT_FALSE(window.isStarved());
}

}  // namespace
}  // namespace horing
