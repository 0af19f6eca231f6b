#include "comm/messages/rounds.h"

#include <algorithm>
#include <functional>

namespace horing {

namespace {

// By transfer; empty if all are of the first round.
std::vector<size_t> roundsByTransfer(std::span<const Transfer> transfers) {
  constexpr size_t kFewest = 3;  // a receive and a send, and a send before that one
  if (transfers.size() < kFewest) return {};
  const int peers = std::ranges::max_element(transfers, {}, &Transfer::peer)->peer + 1;
  std::vector<size_t> counts(2 * static_cast<size_t>(peers)), rounds(transfers.size());
  bool are_several = false;
  for (size_t i = 0; i < transfers.size(); ++i) {
    const bool sends = transfers[i].direction() == Transfer::Direction::kSend;
    rounds[i] = counts[2 * static_cast<size_t>(transfers[i].peer) + sends]++;
    are_several = are_several || rounds[i] > 0;
  }
  if (!are_several) rounds.clear();
  return rounds;
}

struct Written {
  const std::byte* begin;
  const std::byte* end;
  size_t round;
};

// `written` is in the order of addresses and disjoint, as receives are: what overlaps is then next to each other.
bool readsEarlier(const Transfer& send, size_t round, std::span<const Written> written) {
  const auto comes_before = [](const Written& each, const std::byte* address) {
    return std::less_equal<>()(each.end, address);
  };
  const std::byte* const input = send.input();
  auto each = std::lower_bound(written.begin(), written.end(), input, comes_before);
  for (; each != written.end() && std::less<>()(each->begin, input + send.bytes); ++each)
    if (each->round < round) return true;
  return false;
}

}  // namespace

std::vector<std::vector<Transfer>> roundsOf(std::span<const Transfer> transfers) {
  const std::vector<size_t> rounds = roundsByTransfer(transfers);
  if (rounds.empty()) return {};
  std::vector<Written> written;
  for (size_t i = 0; i < transfers.size(); ++i)
    if (std::byte* const output = transfers[i].output(); output && transfers[i].bytes > 0)
      written.push_back({output, output + transfers[i].bytes, rounds[i]});
  std::ranges::sort(written, std::less<>(), &Written::begin);
  bool are_apart = false;
  for (size_t i = 0; i < transfers.size() && !are_apart; ++i)
    are_apart = transfers[i].direction() == Transfer::Direction::kSend && transfers[i].bytes > 0 &&
                readsEarlier(transfers[i], rounds[i], written);
  std::vector<std::vector<Transfer>> apart(are_apart ? *std::ranges::max_element(rounds) + 1 : 0);
  for (size_t i = 0; i < transfers.size() && are_apart; ++i) apart[rounds[i]].push_back(transfers[i]);
  return apart;
}

}  // namespace horing
