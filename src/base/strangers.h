#pragma once
// Strangers: connections whose other end has not proved yet that it belongs to the job. Any process that reaches the port can make them, so
// they are bounded in number and in time.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "base/status.h"

namespace horing {

inline constexpr size_t kMaxStrangers = 256;
inline constexpr int64_t kProofTimeoutMs = 5000;

// What the owner of the connections does with one.
struct StrangerActions {
  // Reads what it has sent, which may prove it or end it, and so remove it from the list. Whether it has sent anything.
  std::function<bool(int fd)> hear;
  // Closes it and removes it from the list. `why`: for the log.
  std::function<void(int fd, const std::string& why)> drop;
};

// A list of strangers by descriptor. No I/O, no clock. Not thread-safe.
class Strangers {
 public:
  explicit Strangers(int64_t timeout_ms = kProofTimeoutMs) : timeout_ms_(timeout_ms) {}

  void add(int fd, int64_t now_ns) { oldest_first_.push_back({fd, now_ns + timeout_ms_ * 1'000'000}); }
  // Adds a new connection. If there are kMaxStrangers already, one of them is dropped.
  void admit(int fd, int64_t now_ns, const StrangerActions& actions) {
    if (size() >= kMaxStrangers)
      makeRoom(actions, "too many connections came after it before it proved the key");
    add(fd, now_ns);
  }
  // The connection has proved the key, or is closed. False: it is not in the list.
  bool remove(int fd) {
    return std::erase_if(oldest_first_, [fd](const Stranger& each) { return each.fd == fd; }) > 0;
  }
  bool contains(int fd) const {
    return std::any_of(oldest_first_.begin(), oldest_first_.end(),
                       [fd](const Stranger& each) { return each.fd == fd; });
  }
  size_t size() const { return oldest_first_.size(); }
  bool empty() const { return oldest_first_.empty(); }

  // When the oldest is to be dropped; INT64_MAX: the list is empty.
  int64_t deadlineNs() const { return empty() ? INT64_MAX : oldest_first_.front().deadline_ns; }
  // Drops those that have exceeded their time.
  void expire(int64_t now_ns, const StrangerActions& actions) {
    while (now_ns >= deadlineNs())
      actions.drop(oldest_first_.front().fd, formatString("it did not prove the key within %lld ms",
                                                          static_cast<long long>(timeout_ms_)));
  }
  // Drops the oldest silent one, since a rank sends at once; if all have sent something, the oldest. None, if hearing them has
  // removed one. False: there is none to drop.
  bool makeRoom(const StrangerActions& actions, const std::string& why) {
    if (empty()) return false;
    const std::deque<Stranger> before = oldest_first_;
    int least_welcome = before.front().fd;
    for (const auto& [fd, deadline_ns] : before) {
      const bool spoke = actions.hear(fd);
      if (!contains(fd)) return true;
      if (spoke) continue;
      least_welcome = fd;
      break;
    }
    actions.drop(least_welcome, why);
    return true;
  }

 private:
  struct Stranger {
    int fd;
    int64_t deadline_ns;
  };
  int64_t timeout_ms_;
  std::deque<Stranger> oldest_first_;
};

}  // namespace horing
