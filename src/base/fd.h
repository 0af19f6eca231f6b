#pragma once
// Owner of one file descriptor, never 0, 1 or 2.
#include <cstdint>
#include <utility>

namespace horing {

class Fd {
 public:
  Fd() = default;
  // If standard input, output or error is closed, the system reuses its number for the next open file, and the program's output would go
  // there: so such a descriptor is duplicated to a higher number. If that fails: not valid, and errno is set.
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
  // Releases ownership and leaves the descriptor open, also in forked children.
  int release();

  // From the first call on, whenever this process forks, the child closes its copies of all descriptors below kMostClosedInChildren that an
  // Fd owns. Otherwise the child would keep connections and locks alive after this process is gone, and peers would not notice its death.
  // In the child, an Fd from before the fork then owns nothing. A descriptor that another thread is opening during the fork may be missed.
  // Any thread, any number of times; cannot be undone.
  static void closeInForkedChildren();
  static constexpr int kMostClosedInChildren = 1 << 20;

 private:
  int fd_ = -1;
  uint32_t generation_ = 0;  // the number of forks between the first process and the one that opened it
};

}  // namespace horing
