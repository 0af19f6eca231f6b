// Every algorithm that takes groups of different sizes, on small groups in every order: it matters to who exchanges with whom.
#include <gtest/gtest.h>

#include <algorithm>

#include "../sanitizer.h"
#include "../schedule/build_all.h"
#include "proven.h"
#include "unequal_groups.h"

namespace horing {
namespace {

std::vector<const char*> namesOfAnySizes() {
  std::vector<const char*> names;
  for (const Algorithm& algorithm : algorithmCatalogue())
    if (algorithm.any_sizes) names.push_back(algorithm.name);
  return names;
}

// All sequences of `groups` sizes of up to `most_members`.
std::vector<GroupSizes> ordersOf(size_t groups, int32_t most_members) {
  std::vector<GroupSizes> orders;
  GroupSizes sizes(groups, 1);
  while (true) {
    orders.push_back(sizes);
    const auto last =
        std::find_if(sizes.rbegin(), sizes.rend(), [&](int32_t size) { return size < most_members; });
    if (last == sizes.rend()) return orders;
    std::fill(sizes.rbegin(), last, 1);
    ++*last;
  }
}

TEST(Orders, OfUpToFourGroupsOfFiveAre780) {
  std::vector<GroupSizes> all;
  for (size_t groups = 1; groups <= 4; ++groups)
    for (GroupSizes& sizes : ordersOf(groups, 5)) all.push_back(std::move(sizes));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()) - all.begin(), 780);
}

class EveryOrder : public testing::TestWithParam<const char*> {};

// From every root.
TEST_P(EveryOrder, OfUpToFourGroupsOfFiveIsProven) {
  for (size_t groups = 1; groups <= 4; ++groups)
    for (const GroupSizes& sizes : ordersOf(groups, test::sweepTo(5))) {
      const Shape shape = Shape::of(sizes);
      for (const Collective collective : kEveryCollective) {
        if (!findAlgorithm(GetParam())->has(collective)) continue;
        for (int32_t root = 0; root < (hasRoot(collective) ? shape.ranks() : 1); ++root) {
          SCOPED_TRACE(testing::Message()
                       << collectiveName(collective) << " on " << textOf(sizes) << ", root " << root);
          ASSERT_NO_FATAL_FAILURE(expectAllProven(buildAll(GetParam(), collective, shape, root)));
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, EveryOrder, testing::ValuesIn(namesOfAnySizes()),
                         [](const auto& tried) { return std::string(tried.param); });

}  // namespace
}  // namespace horing
