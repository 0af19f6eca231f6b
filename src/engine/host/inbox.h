#pragma once
// Tagged receives that wait for a message, and tagged messages that came before their receive.
//
// A message without a receive is put aside in memory of the inbox, up to kMostKeptBytes for the communicator, so that later ones on
// the same connection can be received. A message that does not fit stays in the connection, and so do later ones.
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

  // Receives `receive`, a TaggedReceive whose peer may be kAnyRank, at once if its message is here: the sender. Otherwise it waits.
  // kInvalidUsage: the message has another size.
  Result<std::optional<int>> post(const Transfer& receive);
  // A message begins to arrive: where its data go. Nothing: no receive waits for it, and it does not fit. Errors as for post().
  Result<std::optional<Transfer>> arrive(int from, uint64_t tag, size_t bytes);
  // All data of such a transfer have arrived: the receive that this completes, if any, with the sender as its peer.
  std::optional<Transfer> complete(const Transfer& arrived);

  // Whether receives wait for the beginning of a message of this rank.
  bool awaits(int from) const { return matcher_.awaitsAny() && matcher_.awaits(from); }
  // The receives that wait for the beginning of a message, to be recorded.
  std::map<uint64_t, Transfer>& posted() { return posted_; }
  // The ranks named by waiting receives.
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
