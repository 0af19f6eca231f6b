#include "base/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>

namespace horing {
namespace {

bool isOpen(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

// What `body` returns in a forked child.
int inChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Fd openNull() {
  return Fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
}

TEST(Fd, IsNoneOfTheStandardOnes) {
  EXPECT_EQ(inChild([] {
              for (int standard = 0; standard < 3; ++standard) ::close(standard);
              const Fd first = openNull(), second = openNull();
              const bool moved = first.get() >= 3 && second.get() >= 3 && isOpen(first.get());
              return moved && !isOpen(0) && !isOpen(1) && !isOpen(2) ? 0 : 1;
            }),
            0);
}

TEST(Fd, IsNotValidWhereThereIsNoOtherNumber) {
  EXPECT_EQ(inChild([] {
              for (int standard = 0; standard < 3; ++standard) ::close(standard);
              const rlimit limit{3, 3};
              ::setrlimit(RLIMIT_NOFILE, &limit);
              const Fd none = openNull();
              return !none.valid() && !isOpen(0) ? 0 : 1;
            }),
            0);
}

TEST(Fd, ClosesOnce) {
  Fd first = openNull();
  ASSERT_TRUE(first.valid());
  const int number = first.get();
  Fd second = std::move(first);
  EXPECT_FALSE(first.valid());
  EXPECT_TRUE(isOpen(number));
  second = Fd();
  EXPECT_FALSE(isOpen(number));
}

TEST(Fd, IsClosedInForkedChildrenAndOwnsNothingThere) {
  Fd::closeInForkedChildren();
  const int stranger = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  Fd kept = openNull(), given_up = openNull();
  const int released = given_up.get();
  given_up.reset();
  EXPECT_EQ(inChild([&] {
              if (isOpen(kept.get())) return 1;
              if (!isOpen(stranger)) return 2;
              // The numbers are free, and may be of something else by the time that old owners go.
              const int reused = ::open("/dev/null", O_RDWR);
              if (reused != std::min(kept.get(), released)) return 3;
              { const Fd old = std::move(kept); }
              if (!isOpen(reused)) return 4;
              // Owners made here are owners, and their children's children close as well.
              Fd own = openNull();
              if (inChild([&] { return isOpen(own.get()) ? 1 : 0; }) != 0) return 5;
              const int number = own.get();
              own.reset();
              return isOpen(number) ? 6 : 0;
            }),
            0);
  EXPECT_TRUE(isOpen(kept.get())) << "the parent's";
  ::close(stranger);
}

}  // namespace
}  // namespace horing
