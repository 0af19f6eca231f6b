// Broadcast and reduce by every algorithm that has them, to the bit, for every root. The reference is the closed form that
// tests/algorithms/fold_order_test.cpp holds the schedules to, on numbers: float32, so every addition rounds.
#include <gtest/gtest.h>

#include <random>

#include "schedule/postcondition.h"
#include "world.h"

namespace horing {
namespace {

using Vector = std::vector<float>;

struct Case {
  std::string algorithm;
  Shape shape;
  int32_t root = 0;
};

class Reference {
 public:
  Reference(const Case& c, const std::vector<Vector>& inputs) : case_(c), inputs_(inputs) {
    if (!c.algorithm.starts_with("ho_")) case_.shape = {1, c.shape.ranks()};
  }

  Vector reduce() const {
    const int32_t n = case_.shape.ranks();
    if (case_.algorithm == "ho_ordered") return inOrder();
    if (case_.algorithm != "star") return overGroups(0);
    std::vector<Vector> shares;
    for (int32_t i = 1; i <= n; ++i) shares.push_back(inputs_[static_cast<size_t>((case_.root + i) % n)]);
    return sum(shares);
  }

 private:
  static Vector sum(const std::vector<Vector>& shares) {
    Vector total = shares[0];
    for (size_t s = 1; s < shares.size(); ++s)
      for (size_t i = 0; i < total.size(); ++i) total[i] += shares[s][i];
    return total;
  }
  Vector inOrder() const {
    std::vector<Vector> groups;
    const auto m = static_cast<ptrdiff_t>(case_.shape.members);
    for (auto first = inputs_.begin(); first != inputs_.end(); first += m)
      groups.push_back(sum({first, first + m}));
    return sum(groups);
  }
  std::vector<int32_t> children(int32_t distance, int32_t n) const {
    if (case_.algorithm.ends_with("chain"))
      return distance + 1 < n ? std::vector{distance + 1} : std::vector<int32_t>();
    std::vector<int32_t> list;
    for (int32_t bit = 1; distance + bit < n && !(distance & bit); bit *= 2) list.push_back(distance + bit);
    return list;
  }
  Vector inside(int32_t group, int32_t distance) const {
    const int32_t m = case_.shape.members, local = (case_.root % m - distance + m) % m;
    std::vector<Vector> shares;
    for (const int32_t child : children(distance, m)) shares.push_back(inside(group, child));
    shares.push_back(inputs_[static_cast<size_t>(group * m + local)]);
    return sum(shares);
  }
  Vector overGroups(int32_t distance) const {
    const int32_t m = case_.shape.members, groups = case_.shape.groups;
    const int32_t group = (case_.root / m - distance + groups) % groups;
    std::vector<Vector> shares;
    for (const int32_t child : children(0, m)) shares.push_back(inside(group, child));
    for (const int32_t child : children(distance, groups)) shares.push_back(overGroups(child));
    shares.push_back(inputs_[static_cast<size_t>(group * m + case_.root % m)]);
    return sum(shares);
  }

  Case case_;
  const std::vector<Vector>& inputs_;
};

std::vector<Vector> randomInputs(int32_t ranks, size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<Vector> inputs(static_cast<size_t>(ranks), Vector(count));
  for (Vector& input : inputs)
    for (float& x : input) x = static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 997.0f;
  return inputs;
}

// `outputs` begin as they are given; only the root's is written in a reduction.
void runAll(World& world, const std::vector<Vector>& inputs, std::vector<Vector>& outputs, bool in_place) {
  std::vector<Call> calls;
  for (size_t p = 0; p < inputs.size(); ++p) {
    if (in_place) outputs[p] = inputs[p];
    Call call;
    call.count = inputs[p].size();
    call.output = reinterpret_cast<std::byte*>(outputs[p].data());
    call.input = in_place ? call.output : reinterpret_cast<const std::byte*>(inputs[p].data());
    calls.push_back(call);
  }
  ASSERT_TRUE(world.run(calls)) << world.operation(0).obstacle().text;
}

void checkCase(const Case& c, Collective collective) {
  World world({.algorithm = c.algorithm,
               .collective = collective,
               .shape = c.shape,
               .root = c.root,
               .slot_bytes = 512});
  const auto root = static_cast<size_t>(c.root);
  for (const size_t count : {1, 127, 2003})
    for (const bool in_place : {false, true}) {
      SCOPED_TRACE(formatString("%s %s %dx%d root %d count %zu%s", c.algorithm.c_str(),
                                collectiveName(collective), c.shape.groups, c.shape.members, c.root, count,
                                in_place ? " in place" : ""));
      const std::vector<Vector> inputs = randomInputs(world.ranks(), count);
      std::vector<Vector> outputs(inputs.size(), Vector(count, -1.0f));
      runAll(world, inputs, outputs, in_place);
      if (testing::Test::HasFatalFailure()) return;
      for (size_t p = 0; p < outputs.size(); ++p) {
        if (collective == Collective::kBroadcast) {
          ASSERT_EQ(outputs[p], inputs[root]) << "position " << p;
        } else if (p == root) {
          ASSERT_EQ(outputs[p], Reference(c, inputs).reduce());
        } else {
          ASSERT_EQ(outputs[p], in_place ? inputs[p] : Vector(count, -1.0f))
              << "position " << p << " is no root";
        }
      }
    }
}

TEST(RootedCollectives, MatchTheClosedFormForEveryRoot) {
  int cases = 0;
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (const Collective collective : {Collective::kBroadcast, Collective::kReduce})
      for (const Shape& shape : {Shape{1, 1}, Shape{1, 5}, Shape{3, 2}, Shape{2, 4}, Shape{5, 1}})
        for (int32_t root = 0; root < shape.ranks() && algorithm.has(collective); ++root, ++cases) {
          checkCase({algorithm.name, shape, root}, collective);
          if (HasFatalFailure()) return;
        }
  EXPECT_GE(cases, 5 * 2 * 25);
}

}  // namespace
}  // namespace horing
