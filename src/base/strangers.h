#pragma once
// Strangers: connections whose other end has not proved yet that it belongs to the job. Any process that reaches the port can make them, so
// they are bounded in number and in time.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace horing {

inline constexpr size_t kMaxStrangers = 256;
inline constexpr int64_t kProofTimeoutMs = 5000;

// A list of strangers by descriptor, which the caller owns. No I/O, no clock. Not thread-safe.
class Strangers {
 public:
  explicit Strangers(int64_t timeout_ms = kProofTimeoutMs) : timeout_ns_(timeout_ms * 1'000'000) {}

  void add(int fd, int64_t now_ns) { oldest_first_.push_back({fd, now_ns + timeout_ns_}); }
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
  bool full() const { return size() >= kMaxStrangers; }

  // When the oldest is to be dropped; INT64_MAX: the list is empty.
  int64_t deadlineNs() const { return empty() ? INT64_MAX : oldest_first_.front().deadline_ns; }
  // A connection that has exceeded its time, if any.
  std::optional<int> overdue(int64_t now_ns) const {
    return now_ns >= deadlineNs() ? std::optional(oldest_first_.front().fd) : std::nullopt;
  }

  // The connection to drop for a new one: the oldest silent one, since a rank sends at once; if all have sent something, the
  // oldest. `has_spoken` first reads a connection's bytes, which may prove it or end it, and so remove it: then none is dropped.
  std::optional<int> leastWelcome(auto&& has_spoken) const {
    const std::deque<Stranger> before = oldest_first_;
    for (const auto& [fd, deadline_ns] : before) {
      const bool spoke = has_spoken(fd);
      if (!contains(fd)) return std::nullopt;
      if (!spoke) return fd;
    }
    return empty() ? std::nullopt : std::optional(oldest_first_.front().fd);
  }

 private:
  struct Stranger {
    int fd;
    int64_t deadline_ns;
  };
  int64_t timeout_ns_;
  std::deque<Stranger> oldest_first_;
};

}  // namespace horing
