#pragma once
// Receives with tags that wait for a message, and messages with tags that came before a receive waited for them.
//
// A message that no receive waits for is put aside in memory of the inbox, so that those behind it on the same connection can be
// received; up to kMostKeptBytes for the communicator. What does not fit stays in the connection, and so does what is behind it.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/host/message_matcher.h"
#include "engine/host/transfer.h"

namespace horing {

inline constexpr size_t kMostKeptBytes = 64 << 20;

// One thread at a time.
class Inbox {
 public:
  explicit Inbox(int rank) : rank_(rank) {}

  // Receives `receive`, whose peer may be kAnyRank, at once if its message is here: true. Else it waits. Error: kInvalidUsage, the
  // message has another size.
  Result<bool> post(const Transfer& receive);
  // A message begins to arrive: where its data go. Nothing: nobody waits for it, and there is no room for it. Error as for post().
  Result<std::optional<Transfer>> arrive(int from, uint64_t tag, size_t bytes);
  // All data of such a transfer are there: the receive that is complete by that, if any.
  std::optional<Transfer> complete(const Transfer& arrived);

  // Whether receives wait for a message of this rank to begin.
  bool awaits(int from) const { return matcher_.awaitsAny() && matcher_.awaits(from); }
  // The ranks that a receive waits for by number.
  std::vector<int32_t> waitsFor() const;
  std::string describe() const;
  uint64_t memoryBytes() const { return kept_bytes_; }

 private:
  struct Kept {
    int from;
    std::vector<std::byte> data;
    bool is_complete = false;
    std::optional<Transfer> taker;  // receives it once it is complete
  };
  Status wrongSize(const Transfer& receive, int from, size_t bytes) const;
  void hand(uint64_t number, const Transfer& receive);

  int rank_;
  MessageMatcher matcher_;
  uint64_t next_ = 1;
  std::map<uint64_t, Transfer> posted_;
  std::map<uint64_t, Kept> kept_;
  size_t kept_bytes_ = 0;
};

}  // namespace horing
