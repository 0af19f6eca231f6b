#pragma once
// A socket by which `horing-info job` queries a running job, found by the process ID and answered by a rank's control thread. It costs a
// descriptor, so at most kMost communicators of a process have one.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"

namespace horing {

inline constexpr size_t kMaxJobText = 65536;
inline constexpr size_t kMaxJobLine = 1024;
// The prefix of the names of a process's windows, which are abstract sockets in its network namespace. `pid`: as in the process's own PID
// namespace.
std::string jobWindowPrefix(uint64_t pid_namespace, int64_t pid);

// Used by one thread. If the socket cannot be made, valid() is false: queries fail, and everything else works.
class JobWindow {
 public:
  // The most windows of a process at one time.
  static constexpr int kMost = 2;

  JobWindow() = default;
  static JobWindow open();

  int fd() const { return listener_.get(); }
  bool valid() const { return listener_.valid(); }
  // Accepts connections of this user or root. Returns whether any connection waits for an answer.
  bool admit();
  // Whether the last connection could not be accepted for lack of descriptors: it stays in the queue, and fd() stays readable.
  bool isStarved() const { return starved_; }
  // Sends the text to all connections that wait, and closes them.
  void answer(const std::string& text);

 private:
  static constexpr size_t kMostVisitors = 16;

  // Counts the windows of the process.
  struct Place {
    Place();
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    int number;
  };

  std::unique_ptr<Place> place_;
  Fd listener_;
  std::vector<Fd> visitors_;
  bool starved_ = false;
};

}  // namespace horing
