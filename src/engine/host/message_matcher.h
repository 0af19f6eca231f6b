#pragma once
// Matches tagged receives and messages.
//
// A receive names a tag and a rank, or any rank. A message goes to the first posted receive that names its tag and sender; a
// receive takes the first arrived message that it names. So messages between two ranks with one tag do not overtake each other (MPI
// 4.1, section 3.5). No I/O: the caller reports receives and arrivals, and numbers both.
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>

namespace horing {

inline constexpr int kAnyRank = -1;

class MessageMatcher {
 public:
  // The message that this receive takes; nothing: it waits for one.
  std::optional<size_t> post(int from, uint64_t tag, size_t receive);
  // The receive that takes this message; nothing: no receive waits for it.
  std::optional<size_t> arrive(int from, uint64_t tag);
  // A message without a receive has been put aside.
  void keep(int from, uint64_t tag, size_t message) { kept_.push_back({from, tag, message}); }

  // Whether a message of this rank might match a waiting receive.
  bool awaits(int from) const;
  bool awaitsAny() const { return !posted_.empty(); }
  struct Entry {
    int from;
    uint64_t tag;
    size_t number;
  };

 private:
  std::list<Entry> posted_, kept_;  // oldest first
};

}  // namespace horing
