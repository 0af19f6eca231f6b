#pragma once
// Which ranks reach each other by which transport: each rank tries every transport and tells the others the result; a transport is used if
// both ends can reach each other.
#include <cstddef>
#include <utility>
#include <vector>

namespace horing {

// A value.
class TransportReach {
 public:
  // Encodes what a rank tells the others: a bit for each peer and transport. `reaches(peer, transport)` is not called for the rank itself.
  template <typename Reaches>
  static std::vector<std::byte> encode(int rank, int ranks, size_t transports, const Reaches& reaches) {
    std::vector<std::byte> bits((static_cast<size_t>(ranks) * transports + 7) / 8);
    for (int peer = 0; peer < ranks; ++peer)
      for (size_t transport = 0; transport < transports; ++transport) {
        const size_t bit = static_cast<size_t>(peer) * transports + transport;
        if (peer != rank && reaches(peer, transport)) bits[bit / 8] |= std::byte{1} << (bit % 8);
      }
    return bits;
  }

  // `told`: by rank. A missing bit counts as 0.
  TransportReach(std::vector<std::vector<std::byte>> told, size_t transports)
      : told_(std::move(told)), transports_(transports) {}

  bool both(size_t a, size_t b, size_t transport) const {
    return tells(a, b, transport) && tells(b, a, transport);
  }
  bool tells(size_t from, size_t to, size_t transport) const {
    const size_t bit = to * transports_ + transport;
    return bit / 8 < told_[from].size() && (told_[from][bit / 8] >> (bit % 8) & std::byte{1}) != std::byte{0};
  }
  // The first transport from `from` on that works both ways; -1: none.
  int choice(size_t a, size_t b, size_t from = 0) const {
    for (size_t transport = from; transport < transports_; ++transport)
      if (both(a, b, transport)) return static_cast<int>(transport);
    return -1;
  }
  // The choices of one rank, by peer; -1 for the rank itself.
  std::vector<int> choicesOf(size_t rank) const {
    std::vector<int> choices;
    for (size_t peer = 0; peer < told_.size(); ++peer)
      choices.push_back(peer == rank ? -1 : choice(rank, peer));
    return choices;
  }
  // The next transport after each choice.
  std::vector<int> nextOf(size_t rank) const {
    std::vector<int> next = choicesOf(rank);
    for (size_t peer = 0; peer < next.size(); ++peer)
      if (next[peer] >= 0) next[peer] = choice(rank, peer, static_cast<size_t>(next[peer]) + 1);
    return next;
  }

 private:
  std::vector<std::vector<std::byte>> told_;
  size_t transports_;
};

}  // namespace horing
