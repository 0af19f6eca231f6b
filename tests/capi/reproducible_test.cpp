// HORING_REPRODUCIBLE: bits that depend on inputs and groups alone. The reference is written from the header's sentence.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "ranks.h"

namespace {

using Vector = std::vector<float>;

constexpr size_t kElements = 40'007;
const std::vector<const char*> kGroups = {"a", "b", "a", "b"};  // rank 0 and 2, rank 1 and 3

// Of magnitudes so different that every other order gives other bits.
std::vector<Vector> inputsOf(size_t ranks) {
  std::mt19937 random(7);
  std::vector<Vector> inputs(ranks, Vector(kElements));
  for (Vector& input : inputs)
    for (float& x : input)
      x = std::ldexp(static_cast<float>(random() % 65'536) - 32'768.0f, static_cast<int>(random() % 24));
  return inputs;
}

Vector sumOf(const Vector& a, const Vector& b) {
  Vector sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

bool sameBits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

struct Environment {
  const char* transports;
  const char* slice_bytes;
  const char* window;
  const char* slots;
};

// All-reduces [begin, begin + count) of the inputs, reduces it to every root, and reduce-scatters it.
class Job {
 public:
  Job(const std::vector<horingComm_t>& comms, const std::vector<Vector>& inputs, const Vector& expected)
      : comms_(comms), inputs_(inputs), expected_(expected) {}

  void check(size_t begin, size_t count) const {
    onEveryRank(static_cast<int>(comms_.size()), [&](int rank) { checkRank(rank, begin, count); });
  }

 private:
  void checkRank(int rank, size_t begin, size_t count) const {
    const auto at = static_cast<size_t>(rank);
    const float* const in = inputs_[at].data() + begin;
    const float* const expected = expected_.data() + begin;
    Vector out(count);
    EXPECT_HORING(horingAllReduce(in, out.data(), count, horingFloat, horingSum, comms_[at], nullptr));
    EXPECT_TRUE(sameBits(out.data(), expected, count)) << "all-reduce of " << count << " from " << begin;
    for (int root = 0; root < static_cast<int>(comms_.size()); ++root) {
      out.assign(count, 0);
      EXPECT_HORING(horingReduce(in, out.data(), count, horingFloat, horingSum, root, comms_[at], nullptr));
      EXPECT_TRUE(root != rank || sameBits(out.data(), expected, count)) << "reduce to " << root;
    }
    const size_t block = count / comms_.size();
    EXPECT_HORING(horingReduceScatter(in, out.data(), block, horingFloat, horingSum, comms_[at], nullptr));
    EXPECT_TRUE(sameBits(out.data(), expected + at * block, block)) << "reduce-scatter, block " << block;
  }

  const std::vector<horingComm_t>& comms_;
  const std::vector<Vector>& inputs_;
  const Vector& expected_;
};

void checkGroups(const std::vector<const char*>& groups, const Vector& expected) {
  const std::vector<Vector> inputs = inputsOf(groups.size());
  const std::vector<horingComm_t> comms = makeGroups(groups);
  const Job job(comms, inputs, expected);
  for (const auto& [begin, count] :
       {std::pair<size_t, size_t>{0, kElements}, {1, 1}, {3, 17}, {5, 1000}, {4099, 30'011}}) {
    job.check(begin, count);
    if (testing::Test::HasFailure()) break;
  }
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(Reproducible, BitsDependOnInputsAndGroupsOnly) {
  Setting reproducible("HORING_REPRODUCIBLE", "1");
  const std::vector<Vector> in = inputsOf(4);
  const Vector expected = sumOf(sumOf(in[0], in[2]), sumOf(in[1], in[3]));
  for (const Environment& e : {Environment{"shm,socket", "65536", "4", "8"},
                               {"shm", "512", "1", "2"},
                               {"socket", "4096", "3", "5"}}) {
    SCOPED_TRACE(testing::Message() << e.transports << ", slices of " << e.slice_bytes);
    Setting transports("HORING_TRANSPORTS", e.transports), slice("HORING_SLICE_BYTES", e.slice_bytes);
    Setting window("HORING_TESTS_WINDOW", e.window), slots("HORING_TESTS_SLOTS", e.slots);
    checkGroups(kGroups, expected);
    if (HasFailure()) return;
  }
}

TEST(Reproducible, UnequalGroupsAreFoldedAsOne) {
  Setting reproducible("HORING_REPRODUCIBLE", "1");
  const std::vector<Vector> in = inputsOf(4);
  checkGroups({"a", "b", "a", "a"}, sumOf(sumOf(sumOf(in[0], in[2]), in[3]), in[1]));
}

// Of ranks of one process, whose inputs others would read in place.
TEST(Reproducible, MemoryThatPeersReadChangesNothing) {
  Setting reproducible("HORING_REPRODUCIBLE", "1");
  std::vector<horingComm_t> comms = makeCommunicators(3, Meeting::kInitAll);
  const std::vector<Vector> inputs = inputsOf(3);
  Job(comms, inputs, sumOf(sumOf(inputs[0], inputs[1]), inputs[2])).check(0, kElements);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

struct TypeCase {
  horingDataType_t type;
  size_t bytes;
  uint64_t keep, set;  // of random bits: numbers of moderate size
};
constexpr TypeCase kTypes[] = {{horingFloat16, 2, 0x8fff, 0x3000},
                               {horingBfloat16, 2, 0x83ff, 0x3c00},
                               {horingFloat8e4m3, 1, 0x8f, 0x30},
                               {horingFloat8e5m2, 1, 0x87, 0x38},
                               {horingFloat32, 4, 0x83ff'ffff, 0x3c00'0000},
                               {horingFloat64, 8, 0x807f'ffff'ffff'ffff, 0x3f80'0000'0000'0000}};
constexpr horingRedOp_t kOps[] = {horingSum, horingProd, horingAvg};

using Bytes = std::vector<unsigned char>;

std::vector<Bytes> randomInputs(const TypeCase& type, size_t ranks, size_t count) {
  std::mt19937_64 random(type.type);
  std::vector<Bytes> inputs(ranks, Bytes(count * type.bytes));
  for (Bytes& input : inputs)
    for (size_t at = 0; at < input.size(); at += type.bytes) {
      const uint64_t bits = (random() & type.keep) | type.set;
      std::memcpy(&input[at], &bits, type.bytes);
    }
  return inputs;
}

// What rank 0 gets of every type and operation, one after the other: of all elements at once, or in calls of `step` elements.
Bytes resultsOfAllTypes(size_t count, size_t step) {
  const std::vector<horingComm_t> comms = makeGroups(kGroups);
  Bytes results;
  for (const TypeCase& type : kTypes) {
    const std::vector<Bytes> inputs = randomInputs(type, comms.size(), count);
    for (const horingRedOp_t op : kOps) {
      std::vector<Bytes> outputs = inputs;
      onEveryRank(static_cast<int>(comms.size()), [&](int rank) {
        const auto at = static_cast<size_t>(rank);
        for (size_t begin = 0; begin < count; begin += step)
          EXPECT_HORING(horingAllReduce(&inputs[at][begin * type.bytes], &outputs[at][begin * type.bytes],
                                        std::min(step, count - begin), type.type, op, comms[at], nullptr));
      });
      for (const Bytes& output : outputs) EXPECT_EQ(output, outputs[0]) << "all ranks get the same bits";
      results.insert(results.end(), outputs[0].begin(), outputs[0].end());
    }
  }
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  return results;
}

TEST(Reproducible, HoldsForEveryFloatingPointTypeAndOperation) {
  constexpr size_t kCount = 3001;
  Setting reproducible("HORING_REPRODUCIBLE", "1");
  const Bytes at_once = resultsOfAllTypes(kCount, kCount);
  Setting transports("HORING_TRANSPORTS", "socket"), slice("HORING_SLICE_BYTES", "512");
  Setting window("HORING_TESTS_WINDOW", "3"), slots("HORING_TESTS_SLOTS", "5");
  EXPECT_EQ(resultsOfAllTypes(kCount, 700), at_once);
  // Otherwise the order of folds depends on the place of an element: these inputs show it.
  Setting otherwise("HORING_REPRODUCIBLE", "0"), ring("HORING_ALGO", "ring");
  EXPECT_NE(resultsOfAllTypes(kCount, 700), at_once);
}

TEST(Reproducible, IsASettingOfACommunicator) {
  Setting forced("HORING_ALGO", "ring");
  horingOptions_t options = HORING_OPTIONS_INITIALIZER;
  options.reproducible = 1;
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  horingComm_t comm = nullptr;
  EXPECT_TRUE(refuses(horingCommInitRankOptions(&comm, 1, id, 0, nullptr, &options), horingInvalidArgument,
                      "HORING_ALGO=ring forces an algorithm"));
  options.reproducible = 0;
  ASSERT_HORING(horingGetUniqueId(&id));
  ASSERT_HORING(horingCommInitRankOptions(&comm, 1, id, 0, nullptr, &options));
  int is = -1;
  EXPECT_HORING(horingCommIsReproducible(comm, &is));
  EXPECT_EQ(is, 0);
  EXPECT_TRUE(
      refuses(horingCommIsReproducible(comm, nullptr), horingInvalidArgument, "reproducible is NULL"));
  EXPECT_HORING(horingCommDestroy(comm));
  EXPECT_TRUE(refuses(horingCommIsReproducible(nullptr, &is), horingInvalidArgument, "comm is NULL"));
  Setting free_choice("HORING_ALGO", "");
  options.reproducible = 1;
  ASSERT_HORING(horingGetUniqueId(&id));
  ASSERT_HORING(horingCommInitRankOptions(&comm, 1, id, 0, nullptr, &options));
  EXPECT_HORING(horingCommIsReproducible(comm, &is));
  EXPECT_EQ(is, 1);
  EXPECT_HORING(horingCommDestroy(comm));
}

}  // namespace
