// The ho_ family run on groups of different sizes, or that reduce parts of different sizes: sums of integers, which are the same in whatever
// order they are folded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "schedule/postcondition.h"
#include "world.h"

namespace horing {
namespace {

using Numbers = std::vector<int32_t>;

// What rank `rank` has at element i of the whole vector.
int32_t numberAt(int32_t rank, size_t i) {
  return static_cast<int32_t>(i % 9973) * (rank + 3) + rank;
}

struct Try {
  const char* algorithm;
  Collective collective;
  std::vector<int32_t> sizes;
  size_t count;  // of a block, or of the vector
  bool in_place;
  bool uneven = false;  // rank r's block has r more elements
  Shares shares = {};
};

class UnequalGroups {
 public:
  explicit UnequalGroups(const Try& what)
      : try_(what), shape_(Shape::of(what.sizes)), ranks_(shape_.ranks()) {
    shape_.shares = what.shares;
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      counts_.push_back(try_.count + (try_.uneven ? static_cast<size_t>(rank) : 0));
      offsets_.push_back(all_);
      all_ += counts_.back();
    }
    if (try_.collective == Collective::kAllReduce) all_ = try_.count;
    // Ranks are in the groups in the opposite order.
    for (int32_t position = 0; position < ranks_; ++position)
      rank_of_position_.push_back(ranks_ - 1 - position);
  }

  void run() {
    WorldOptions options;
    options.algorithm = try_.algorithm;
    options.collective = try_.collective;
    options.shape = shape_;
    options.slot_bytes = 1024;
    options.rank_of_position = rank_of_position_;
    World world(options);
    std::vector<Call> calls;
    for (int32_t position = 0; position < ranks_; ++position) calls.push_back(callAt(position));
    ASSERT_TRUE(world.run(calls));
    for (int32_t position = 0; position < ranks_; ++position) {
      ASSERT_TRUE(world.operation(position).status().ok()) << world.operation(position).status().message();
      check(position);
    }
  }

 private:
  bool gathers() const { return try_.collective == Collective::kAllGather; }
  bool scatters() const { return try_.collective == Collective::kReduceScatter; }

  Call callAt(int32_t position) {
    const auto rank = static_cast<size_t>(rank_of_position_[static_cast<size_t>(position)]);
    const size_t block = counts_[rank], from = offsets_[rank];
    Numbers& input = inputs_.emplace_back(gathers() ? block : all_);
    for (size_t i = 0; i < input.size(); ++i)
      input[i] = numberAt(static_cast<int32_t>(rank), gathers() ? from + i : i);
    Numbers& output = outputs_.emplace_back(scatters() ? block : all_, -1);
    Call call;
    call.type = DataType::kInt32;
    call.op = RedOp::kSum;
    call.count = try_.collective == Collective::kAllReduce ? all_ : block;
    call.uneven = try_.uneven;
    if (try_.uneven)
      (gathers() ? call.output_blocks : call.input_blocks) = Blocks{counts_.data(), offsets_.data()};
    int32_t* in = input.data();
    int32_t* out = output.data();
    if (try_.in_place && gathers()) {
      std::copy(input.begin(), input.end(), output.begin() + static_cast<std::ptrdiff_t>(from));
      in = out + from;
    } else if (try_.in_place) {
      out = in + (scatters() ? from : 0);
    }
    call.input = reinterpret_cast<const std::byte*>(in);
    call.output = reinterpret_cast<std::byte*>(out);
    results_.push_back(out);
    return call;
  }

  void check(int32_t position) {
    const auto rank = static_cast<size_t>(rank_of_position_[static_cast<size_t>(position)]);
    const size_t from = scatters() ? offsets_[rank] : 0;
    const size_t count = scatters() ? counts_[rank] : all_;
    for (size_t i = 0; i < count; ++i) {
      int32_t due = 0;
      if (gathers()) {
        size_t owner = 0;
        while (owner + 1 < offsets_.size() && offsets_[owner + 1] <= i) ++owner;
        due = numberAt(static_cast<int32_t>(owner), i);
      } else {
        for (int32_t r = 0; r < ranks_; ++r) due += numberAt(r, from + i);
      }
      ASSERT_EQ(results_[static_cast<size_t>(position)][i], due)
          << "position " << position << ", element " << i;
    }
  }

  Try try_;
  Shape shape_;
  int32_t ranks_;
  size_t all_ = 0;
  std::vector<size_t> counts_, offsets_;  // by rank
  std::vector<int32_t> rank_of_position_;
  std::vector<Numbers> inputs_, outputs_;
  std::vector<int32_t*> results_;
};

void tryAll(bool uneven) {
  for (const char* algorithm : {"ho_ring", "ho_ring_direct", "ho_direct", "ho_halving", "ho_doubling"})
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather}) {
      if (!findAlgorithm(algorithm)->has(collective)) continue;
      if (uneven && collective == Collective::kAllReduce) continue;
      for (const std::vector<int32_t>& sizes :
           {std::vector<int32_t>{4, 3}, {5, 2, 1}, {4, 4, 1}, {2, 2, 3}, {1, 8}})
        for (const size_t count : {0, 1, 7, 1000, 20011})
          for (const bool in_place : {false, true}) {
            SCOPED_TRACE(formatString("%s %s, %zu groups from %d, %zu elements%s", algorithm,
                                      collectiveName(collective), sizes.size(), sizes[0], count,
                                      in_place ? ", in place" : ""));
            ASSERT_NO_FATAL_FAILURE(
                UnequalGroups({algorithm, collective, sizes, count, in_place, uneven}).run());
          }
    }
}

TEST(UnequalGroups, GiveTheRightResults) {
  tryAll(false);
}

TEST(UnequalGroups, GiveTheRightResultsForBlocksOfDifferentSizes) {
  tryAll(true);
}

TEST(GroupsWithShares, GiveTheRightResults) {
  const int32_t whole = Shares::kWhole;
  for (const std::vector<int32_t>& sizes : {std::vector<int32_t>{2, 2, 2}, {1, 1, 1}, {4, 3, 1}})
    for (const std::vector<int32_t>& parts :
         {std::vector<int32_t>{whole / 2, 0, whole / 2}, {whole - 3, 1, 2}, {0, whole, 0}})
      for (const size_t count : {0, 1, 7, 1000, 20011})
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE(formatString("groups from %d, first share %d, %zu elements%s", sizes[0], parts[0],
                                    count, in_place ? ", in place" : ""));
          ASSERT_NO_FATAL_FAILURE(UnequalGroups({"ho_shares", Collective::kAllReduce, sizes, count, in_place,
                                                 false, Shares(parts)})
                                      .run());
        }
}

}  // namespace
}  // namespace horing
