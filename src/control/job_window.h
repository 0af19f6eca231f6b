#pragma once
// Lets others look into a running job: a socket that the rank's control thread answers, found by the number of the process
// (`horing-info job`). Costs a descriptor while nobody asks: so few of a process's communicators have one, and hundreds can live.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"

namespace horing {

inline constexpr size_t kMaxJobText = 65536;
inline constexpr size_t kMaxJobLine = 1024;
// How the names of the process's windows begin, among the abstract sockets of its network namespace. Its number as in its own pid
// namespace.
std::string jobWindowPrefix(uint64_t pid_namespace, int64_t pid);

// One thread. Where it cannot be made, nobody can look in, and nothing else is missing.
class JobWindow {
 public:
  // The most that a process has at one time.
  static constexpr int kMost = 2;

  JobWindow() = default;
  static JobWindow open();

  int fd() const { return listener_.get(); }
  bool valid() const { return listener_.valid(); }
  // Takes those that have come to ask, if they are of this user or root. Whether anybody waits for an answer.
  bool admit();
  // Whether the last visitor could not be taken, for lack of descriptors: it stays in the queue, and fd() readable.
  bool isStarved() const { return starved_; }
  // Answers all who wait.
  void answer(const std::string& text);

 private:
  static constexpr size_t kMostVisitors = 16;

  // Counted while it exists.
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
