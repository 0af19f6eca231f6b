// Calls whose data is copied by a copier, alternating with calls whose data the engine moves: the engine keeps the layout of the
// previous call as far as it still holds.
#include <algorithm>
#include <cstring>

#include "engine/host/memory_copier.h"
#include "world.h"

namespace horing {
namespace {

constexpr int32_t kRanks = 3;
constexpr size_t kCount = 100'000;  // several slices

// All ranks of one thread share it.
class CountingCopier final : public MemoryCopier {
 public:
  Status copy(std::byte* to, const std::byte* from, size_t bytes, Ends) override {
    ++copies;
    std::memmove(to, from, bytes);
    return {};
  }
  void begin(size_t) override {}
  Result<size_t> tryRead(size_t, std::byte*, const std::byte*, size_t, size_t) override { return size_t{0}; }
  Result<size_t> tryWrite(size_t, std::byte*, const std::byte*, size_t, size_t) override { return size_t{0}; }
  Result<bool> trySettle(size_t) override { return true; }

  int copies = 0;
};

// Reads mapped memory, and counts.
class CountingReader final : public PeerReader {
 public:
  Status read(int32_t, std::byte* to, const std::byte* from, size_t bytes) override {
    ++reads;
    std::memcpy(to, from, bytes);
    return {};
  }

  int reads = 0;
};

// An all-gather of blocks whose bytes depend on `salt`.
class Gathered {
 public:
  explicit Gathered(const char* algorithm)
      : world_({.algorithm = algorithm, .collective = Collective::kAllGather, .shape = {1, kRanks}}) {}

  void run(uint8_t salt, MemoryCopier* copier, PeerReader* reader) {
    std::vector<std::vector<uint8_t>> inputs, outputs(kRanks, std::vector<uint8_t>(kRanks * kCount));
    std::vector<const std::byte*> at;
    for (size_t p = 0; p < kRanks; ++p) {
      std::vector<uint8_t>& input = inputs.emplace_back(kCount);
      for (size_t i = 0; i < kCount; ++i) input[i] = static_cast<uint8_t>((i * (p + 3) >> 3) + salt);
      at.push_back(reinterpret_cast<const std::byte*>(input.data()));
    }
    std::vector<Call> calls(kRanks);
    for (size_t p = 0; p < kRanks; ++p) {
      calls[p].input = at[p];
      calls[p].output = reinterpret_cast<std::byte*>(outputs[p].data());
      calls[p].count = kCount;
      calls[p].type = DataType::kUint8;
      calls[p].peer_inputs = at.data();
      calls[p].copier = copier;
      calls[p].reader = reader;
    }
    ASSERT_TRUE(world_.run(calls));
    for (const auto& output : outputs)
      for (size_t p = 0; p < kRanks; ++p)
        ASSERT_TRUE(std::equal(inputs[p].begin(), inputs[p].end(), &output[p * kCount])) << "block " << p;
  }

 private:
  World world_;
};

TEST(Copied, ByACopierInSomeCalls) {
  Gathered gathered("ring");
  CountingCopier copier;
  gathered.run(1, nullptr, nullptr);
  EXPECT_EQ(copier.copies, 0);
  gathered.run(2, &copier, nullptr);
  const int copies = copier.copies;
  EXPECT_GT(copies, 0);
  gathered.run(3, nullptr, nullptr);
  EXPECT_EQ(copier.copies, copies);
  gathered.run(4, &copier, nullptr);
  EXPECT_EQ(copier.copies, 2 * copies);
}

TEST(Copied, ByAReaderInSomeCalls) {
  Gathered gathered("peer_read");
  CountingReader reader;
  gathered.run(1, nullptr, nullptr);
  EXPECT_EQ(reader.reads, 0);
  gathered.run(2, nullptr, &reader);
  const int reads = reader.reads;
  EXPECT_GT(reads, 0);
  gathered.run(3, nullptr, nullptr);
  EXPECT_EQ(reader.reads, reads);
  gathered.run(4, nullptr, &reader);
  EXPECT_EQ(reader.reads, 2 * reads);
}

}  // namespace
}  // namespace horing
