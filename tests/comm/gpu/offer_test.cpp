#include "comm/gpu/offer.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

GpuOffer offerOf(int gpu, uint32_t resident_blocks = 64, uint32_t most_blocks = 32) {
  GpuOffer offer;
  offer.gpu.fill(static_cast<std::byte>(gpu));
  offer.resident_blocks = resident_blocks;
  offer.most_blocks = most_blocks;
  offer.addresses = {{std::byte{1}, std::byte{2}}, {}};
  return offer;
}

TEST(GpuOffer, CrossesTheWire) {
  GpuOffer offer = offerOf(3);
  offer.trouble = "no memory";
  offer.has_mps = true;
  for (int round = 0; round < 2; ++round) {
    const auto decoded = decodeGpuOffer(encodeFields(offer), 1);
    ASSERT_TRUE(decoded.ok()) << decoded.status().toString();
    EXPECT_EQ(decoded.value(), offer);
    offer.memory.emplace().fill(std::byte{7});
  }
}

TEST(GpuOffer, IsRefusedWhereItIsCutOrLonger) {
  GpuOffer offer = offerOf(3);
  offer.memory.emplace();
  std::vector<std::byte> bytes = encodeFields(offer);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = decodeGpuOffer(std::span(bytes).first(size), 7);
    EXPECT_EQ(decoded.status().code(), Code::kRemoteError) << size;
    EXPECT_NE(decoded.status().message().find("rank 7"), std::string::npos);
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decodeGpuOffer(bytes, 7).ok());
}

TEST(GpuReady, IsEachRanksOrTheTroubleOfOne) {
  const auto told = [](const char* trouble, uint64_t bytes) {
    return encodeFields(GpuReady{trouble, bytes});
  };
  const auto ready = decodeGpusReady({told("", 5), told("", 7)});
  ASSERT_TRUE(ready.ok()) << ready.status().toString();
  EXPECT_EQ(ready.value()[0].plan_bytes, 5U);
  EXPECT_EQ(ready.value()[1].plan_bytes, 7U);
  const auto trouble = decodeGpusReady({told("", 5), told("no thread", 0)});
  EXPECT_EQ(trouble.status().message(), "rank 1: no thread");
  const auto cut = decodeGpusReady({told("", 5), {}});
  EXPECT_EQ(cut.status().code(), Code::kRemoteError);
  EXPECT_NE(cut.status().message().find("rank 1"), std::string::npos) << cut.status().message();
}

TEST(GpuTerms, AreWhatTheLeastHas) {
  const auto terms = termsOf({offerOf(0, 64, 32), offerOf(1, 48, 40)});
  ASSERT_TRUE(terms.ok()) << terms.status().toString();
  EXPECT_EQ(terms.value().resident_blocks, 48);
  EXPECT_EQ(terms.value().most_blocks, 32);
}

TEST(GpuTerms, AreNoneWhereOneRankHasTrouble) {
  GpuOffer bad = offerOf(1);
  bad.trouble = "no kernels for it";
  const auto terms = termsOf({offerOf(0), bad});
  EXPECT_NE(terms.status().message().find("rank 1: no kernels for it"), std::string::npos);
}

TEST(GpuTerms, LetProcessesShareAGpuOnlyWhereTheirKernelsRunAtOnce) {
  std::vector<GpuOffer> offers = {offerOf(0), offerOf(5), offerOf(5)};
  const auto refused = termsOf(offers);
  EXPECT_EQ(refused.status().code(), Code::kInvalidUsage);
  EXPECT_NE(refused.status().message().find("ranks 1, 2"), std::string::npos) << refused.status().message();
  offers[1].has_mps = true;
  EXPECT_FALSE(termsOf(offers).ok());
  offers[2].has_mps = true;
  const auto terms = termsOf(offers);
  ASSERT_TRUE(terms.ok()) << terms.status().toString();
  EXPECT_EQ(terms.value().resident_blocks, 32);
}

TEST(GpuTerms, MayComeWhereEachRankHasToldOfAGpuThatItsKernelsShareWithNone) {
  const auto process = [](int gpu, bool has_mps = false) {
    HostIdentity identity;
    identity.gpu = {offerOf(gpu).gpu, has_mps};
    return identity;
  };
  EXPECT_TRUE(mayHaveTerms(std::vector{process(0), process(1), process(2)}).ok());
  EXPECT_FALSE(mayHaveTerms(std::vector{process(0), HostIdentity(), process(2)}).ok());
  EXPECT_FALSE(mayHaveTerms(std::vector{process(0), process(1), process(0)}).ok());
  EXPECT_TRUE(mayHaveTerms(std::vector{process(0, true), process(1), process(0, true)}).ok());
}

}  // namespace
}  // namespace horing
