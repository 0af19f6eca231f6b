// Which messages of a group wait for others of it.
#include "comm/messages/rounds.h"

#include <gtest/gtest.h>

#include <array>

namespace horing {
namespace {

std::array<std::byte, 64> memory;

Transfer send(int peer, size_t at, size_t bytes = 8) {
  return {.kind = Transfer::Send{memory.data() + at}, .peer = peer, .bytes = bytes};
}
Transfer receive(int peer, size_t at, size_t bytes = 8) {
  return {.kind = Transfer::Receive{memory.data() + at}, .peer = peer, .bytes = bytes};
}
std::vector<size_t> sizes(const std::vector<Transfer>& transfers) {
  std::vector<size_t> sizes;
  for (const std::vector<Transfer>& round : roundsOf(transfers)) sizes.push_back(round.size());
  return sizes;
}
using Sizes = std::vector<size_t>;

TEST(Rounds, AreForSendsOfWhatAnEarlierRoundReceives) {
  EXPECT_EQ(sizes({send(1, 0), receive(2, 8), send(1, 8), receive(2, 16)}), (Sizes{2, 2}));
  EXPECT_EQ(sizes({send(1, 0), receive(2, 8), send(1, 15)}), (Sizes{2, 1}));  // the last byte of it
  EXPECT_EQ(sizes({send(1, 0), receive(2, 8), send(1, 4)}), (Sizes{2, 1}));   // the first
  EXPECT_EQ(sizes({send(1, 0), send(1, 8), receive(2, 8)}), (Sizes{2, 1}));   // in any order of the calls
}

TEST(Rounds, AreNotForOthers) {
  EXPECT_EQ(sizes({}), Sizes());
  EXPECT_EQ(sizes({receive(1, 0), send(1, 0)}), Sizes());  // both first: neither waits for the other
  EXPECT_EQ(sizes({send(1, 0), send(2, 0), receive(1, 0), receive(2, 8)}), Sizes());
  EXPECT_EQ(sizes({send(1, 0), receive(2, 8), send(1, 16), receive(2, 24)}), Sizes());
  EXPECT_EQ(sizes({send(1, 0), receive(2, 8), send(1, 0, 8), receive(2, 0)}), Sizes());  // received later
  EXPECT_EQ(sizes({send(1, 0), receive(2, 8), send(1, 8, 0)}), Sizes());                 // empty
}

}  // namespace
}  // namespace horing
