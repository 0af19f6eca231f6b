#include "selection/kept_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "../temporary_folder.h"

namespace horing {
namespace {

const KeptFor kJob = {"4 ranks on this", "model 1"};
constexpr const char* kTable = "# measured\nall_reduce 1 4 * * ring\n";

class KeptTable : public testing::Test {
 protected:
  const test::TemporaryFolder parent_;
  const KeptTables kept_{parent_.path() / "kept"};
};

TEST_F(KeptTable, IsFoundByTheSameJob) {
  EXPECT_TRUE(kept_.paths().empty());
  EXPECT_EQ(kept_.find(kJob).value(), std::nullopt);
  ASSERT_TRUE(kept_.keep(kJob, kTable).ok());
  const Result<std::optional<SelectionTable>> found = kept_.find(kJob);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found.value(), SelectionTable::parse(kTable, "table").value());
  EXPECT_EQ(kept_.paths(), std::vector{kept_.pathFor(kJob)});
  EXPECT_EQ(kept_.find({"8 ranks on this", "model 1"}).value(), std::nullopt);
}

TEST_F(KeptTable, OfOtherVersionsIsRefusedAndReplaced) {
  ASSERT_TRUE(kept_.keep(kJob, kTable).ok());
  const KeptFor later = {kJob.job, "model 2"};
  EXPECT_EQ(kept_.find(later).status().message(), "it is out of date: it says 'model 1', here is 'model 2'");
  ASSERT_TRUE(kept_.keep(later, kTable).ok());
  EXPECT_TRUE(kept_.find(later).ok());
  EXPECT_EQ(kept_.paths().size(), 1u);
}

TEST_F(KeptTable, CanBeKeptWhereAFolderIsOrCanBeMade) {
  EXPECT_TRUE(kept_.canKeep());
  EXPECT_TRUE(std::filesystem::is_directory(kept_.folder()));
  ASSERT_TRUE(kept_.keep(kJob, kTable).ok());
  EXPECT_FALSE(KeptTables(kept_.pathFor(kJob) + "/below").canKeep()) << "below a file";
}

TEST_F(KeptTable, IsKeptNowhereWithoutAFolder) {
  const KeptTables none("");
  EXPECT_FALSE(none.canKeep());
  EXPECT_FALSE(none.keep(kJob, kTable).ok());
  EXPECT_EQ(none.find(kJob).value(), std::nullopt);
  EXPECT_TRUE(none.paths().empty());
}

TEST_F(KeptTable, IsFoundByItsShape) {
  const JobShape shape{2, 4, RanksPerCore::kMore};
  const KeptFor near = {keptShapeText(shape, {4, 4}) + "by socket", keptVersions()},
                far = {keptShapeText(shape, {4, 4}) + "by rdma", keptVersions()},
                unequal = {keptShapeText(shape, {4, 3}) + "by socket", keptVersions()};
  for (const KeptFor& what : {near, far, unequal}) ASSERT_TRUE(kept_.keep(what, kTable).ok());
  std::filesystem::last_write_time(kept_.pathFor(near),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const std::vector<KeptTables::Found> found = kept_.forShape(shape, {4, 4});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].path, kept_.pathFor(far)) << "the latest";
  EXPECT_EQ(found[1].job, near.job);
  EXPECT_EQ(found[1].table.value(), SelectionTable::parse(kTable, "table").value());
  EXPECT_TRUE(kept_.forShape({2, 4, RanksPerCore::kAtMostOne}, {4, 4}).empty());
  ASSERT_EQ(kept_.forShape(shape, {3, 4}).size(), 1u);
  EXPECT_EQ(kept_.forShape(shape, {3, 4})[0].job, unequal.job);
  ASSERT_TRUE(kept_.keep({far.job, "model 0"}, kTable).ok());
  EXPECT_FALSE(kept_.forShape(shape, {4, 4})[0].table.ok());
}

// The groups of a job are where they are; but 5, 2 and 1 ranks are another machine than 5, 1 and 1.
TEST(KeptText, NamesTheSizesOfAllGroups) {
  const auto of = [](std::vector<int32_t> sizes) {
    return keptShapeText({3, 5, RanksPerCore::kMore}, std::move(sizes));
  };
  EXPECT_EQ(of({5, 2, 1}), "groups: 1 of 5, 1 of 2, 1 of 1 ranks, ranks per core >1; ");
  EXPECT_EQ(of({1, 5, 2}), of({5, 2, 1}));
  EXPECT_NE(of({5, 1, 1}), of({5, 2, 1}));
  EXPECT_NE(of({5, 5, 1}), of({5, 1, 1}));
  EXPECT_EQ(of({5, 5, 5}), "groups: 3 of 5 ranks, ranks per core >1; ");
}

TEST(KeptText, IsRefusedWhenItIsOfAnotherJob) {
  EXPECT_EQ(parseKept({"8 ranks", "model 1"}, keptText(kJob, kTable)).status().message(),
            "it is for another job: it says '4 ranks on this', here is '8 ranks'");
}

TEST(KeptText, IsRefusedWhenItIsNotWhole) {
  const std::string whole = keptText(kJob, kTable);
  ASSERT_TRUE(parseKept(kJob, whole).ok());
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(parseKept(kJob, whole.substr(0, size)).ok()) << size;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = changed[at] == '4' ? '3' : '4';
    EXPECT_FALSE(parseKept(kJob, changed).ok()) << at;
  }
}

TEST(KeptText, IsRefusedWhenItHoldsNoTable) {
  const Status status = parseKept(kJob, keptText(kJob, "all_reduce 1 4 * * rong\n")).status();
  EXPECT_NE(status.message().find("expected an algorithm"), std::string::npos) << status.message();
}

TEST(KeptText, ShowsWhatItIsForAsATerminalMayShowIt) {
  EXPECT_EQ(keptForLine(keptText(kJob, kTable)), kJob.job);
  EXPECT_EQ(keptForLine("# for: \x1b[2J\n"), "?[2J");
  EXPECT_EQ(keptForLine("for nothing"), "");
}

}  // namespace
}  // namespace horing
