#pragma once
// Owner of one file descriptor, which is none of the three that programs read and write without asking.
#include <cstdint>
#include <utility>

namespace horing {

class Fd {
 public:
  Fd() = default;
  // Where standard input, output or error is closed, the system gives its number to whatever is opened next, and what the program prints
  // would go there: such a descriptor is moved. Where there is no other number: not valid, and errno.
  explicit Fd(int fd) { reset(fd); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)), generation_(other.generation_) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this == &other) return *this;
    reset();
    fd_ = std::exchange(other.fd_, -1);
    generation_ = other.generation_;
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset(int fd = -1);
  // Gives it up, open; a forked child keeps it, too.
  int release();

  // From the first call on, whenever this process forks, the child closes its copies of all descriptors below
  // kMostClosedInChildren that an Fd owns: else it would keep connections and locks alive after this process is gone, and
  // hide its death. In the child an Fd of before the fork then owns nothing. Descriptors just being made in another thread
  // may escape. Any thread, any number of times; not to be taken back.
  static void closeInForkedChildren();
  static constexpr int kMostClosedInChildren = 1 << 20;

 private:
  int fd_ = -1;
  uint32_t generation_ = 0;  // how many forks lie between the first process and the one that opened it
};

}  // namespace horing
