#include "comm/selection.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace horing {
namespace {

Config configWith(const char* algorithm) {
  return Config::fromLookup([&](const std::string& name) -> const char* {
           return name == "HORING_ALGO" ? algorithm : nullptr;
         })
      .take();
}

SelectionTable tableOf(std::string_view text) {
  Result<SelectionTable> table = SelectionTable::parse(text, "test");
  EXPECT_TRUE(table.ok()) << table.status().toString();
  return table.ok() ? table.take() : SelectionTable();
}

std::string chosen(const Selector& selector, Collective collective, size_t bytes) {
  return selector.select(collective, bytes).algorithm->name;
}

TEST(SelectionTable, GivesItsTextBack) {
  const SelectionTable& built_in = SelectionTable::builtIn();
  EXPECT_GT(built_in.rows().size(), 20u);
  EXPECT_EQ(tableOf(built_in.text()), built_in);
  const SelectionTable table =
      tableOf("all_reduce 1 2-4 1000 ring # few\r\n\n#\n\t*  2-  *  3M\tho_ring\nbroadcast 7 * * star");
  ASSERT_EQ(table.rows().size(), 3u);
  EXPECT_EQ(table.rows()[0].most_bytes, 1000u);
  EXPECT_EQ(table.rows()[1].most_bytes, 3u << 20);
  EXPECT_TRUE(table.rows()[1].every_collective);
  EXPECT_EQ(table.rows()[1].groups, (SelectionRow::Range{2, INT32_MAX}));
  EXPECT_EQ(table.rows()[2].groups, (SelectionRow::Range{7, 7}));
  EXPECT_EQ(tableOf(table.text()), table);
}

TEST(SelectionTable, SaysWhatIsWrongAndWhere) {
  const auto message = [](std::string_view text) {
    return SelectionTable::parse(text, "file").status().message();
  };
  EXPECT_EQ(
      message("\nall_reduce 1 2 3\n"),
      "selection table file, line 2: 4 words; expected collective, groups, ranks of each, bytes, algorithm");
  EXPECT_NE(message("all_reduce 1 2 3 ring 5").find("6 words"), std::string::npos);
  EXPECT_NE(message("all 1 2 3 ring").find("a collective, as all_reduce, or * instead of 'all'"),
            std::string::npos);
  for (const char* range : {"0", "-1", "2-1", "x", "1-2-3", "1-x", "99999999999", "-"})
    EXPECT_NE(message(formatString("* %s * * ring", range)).find(formatString("instead of '%s'", range)),
              std::string::npos)
        << range;
  for (const char* bytes : {"K", "-1", "1T", "0x1", "17179869184G", "1KK"})
    EXPECT_NE(message(formatString("* * * %s ring", bytes)).find(formatString("instead of '%s'", bytes)),
              std::string::npos)
        << bytes;
  EXPECT_NE(message("* * * * rong").find("an algorithm, as ring instead of 'rong'"), std::string::npos);
  EXPECT_NE(message("all_gather * * * one_shot").find("one_shot has no all_gather"), std::string::npos);
  EXPECT_NE(message("* * * * peer_read").find("peer_read serves no row"), std::string::npos);
  std::string rows;
  for (size_t row = 0; row < kMaxSelectionRows; ++row) rows += "* * * * ring\n";
  EXPECT_TRUE(SelectionTable::parse(rows, "file").ok());
  EXPECT_NE(message(rows + "* * * * ring").find("line 1025: more than 1024 rows"), std::string::npos);
}

TEST(SelectionTable, ComesFromAFile) {
  std::string path = testing::TempDir() + "selection_table_XXXXXX";
  const int fd = ::mkstemp(path.data());
  ASSERT_GE(fd, 0);
  std::FILE* file = ::fdopen(fd, "w");
  std::fputs("* * * * ring\n", file);
  std::fclose(file);
  EXPECT_EQ(SelectionTable::readOrBuiltIn(path).take(), tableOf("* * * * ring"));
  EXPECT_EQ(SelectionTable::readOrBuiltIn("").take(), SelectionTable::builtIn());
  file = std::fopen(path.c_str(), "w");
  for (size_t i = 0; i <= kMaxSelectionBytes; ++i) std::fputc('\n', file);
  std::fclose(file);
  EXPECT_NE(SelectionTable::read(path).status().message().find("longer than 64 KiB"), std::string::npos);
  std::remove(path.c_str());
  EXPECT_NE(SelectionTable::read(path).status().message().find("No such file"), std::string::npos);
  EXPECT_NE(SelectionTable::read(testing::TempDir()).status().message().find("no file"), std::string::npos);
}

TEST(SelectionTable, HasADigestOfItsContent) {
  EXPECT_EQ(tableOf("* * * * ring").digest(), tableOf("#\n  *  *  * *  ring").digest());
  EXPECT_NE(tableOf("* * * 1 ring").digest(), tableOf("* * * 2 ring").digest());
  EXPECT_NE(tableOf("* * * * ring").digest(), tableOf("* * * * star").digest());
}

TEST(Selector, TakesTheFirstRowThatFits) {
  const SelectionTable table = tableOf(
      "all_reduce 2 4 1K one_shot\nall_reduce 2 2-3 * star\nall_reduce 2 4 512 doubling\n* 2 4 1M direct\n* "
      "2- * * ho_ring\n");
  const Config config = configWith("auto");
  const GroupMap map = GroupMap::blocks(2, 4);
  const Selector selector({config, map, table});
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 0), "one_shot");
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 1024), "one_shot");
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 1025), "direct");
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, (1 << 20) + 1), "ho_ring");
  EXPECT_EQ(chosen(selector, Collective::kAllGather, 1), "direct");
  // No row has it.
  EXPECT_EQ(chosen(selector, Collective::kAllToAll, 1), "pairwise");
  EXPECT_EQ(chosen(selector, Collective::kBroadcast, SIZE_MAX), "chain");
  EXPECT_EQ(selector.fallback(), "");
}

TEST(Selector, GivesGroupsOnlyToAlgorithmsThatKnowThem) {
  const Config config = configWith("auto");
  const GroupMap map = GroupMap::blocks(3, 2);
  const SelectionTable table = tableOf("* * * 10 direct\n* * * * ho_ring");
  const Selector selector({config, map, table});
  const Shape flat = selector.select(Collective::kAllReduce, 10).shape;
  EXPECT_EQ(flat.groups, 1);
  EXPECT_EQ(flat.members, 6);
  const Shape grouped = selector.select(Collective::kAllReduce, 11).shape;
  EXPECT_EQ(grouped.groups, 3);
  EXPECT_EQ(grouped.members, 2);
}

TEST(Selector, PassesOverWhatGroupsOfUnequalSizeCannotRun) {
  const std::string labels[] = {"a", "a", "b"};
  const GroupMap map = GroupMap::fromLabels(labels).take();
  const SelectionTable table = tableOf("* * * * ho_ring\n* * * * halving_doubling");
  const Config config = configWith("auto");
  const Selector selector({config, map, table});
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 1), "halving_doubling");
  EXPECT_NE(selector.fallback().find("ho_ring needs groups of one size, here they have 1 to 2 ranks"),
            std::string::npos);
  const Config forced = configWith("ho_direct");
  const Selector cannot({forced, map, table});
  EXPECT_EQ(chosen(cannot, Collective::kAllGather, 1), "halving_doubling");
  EXPECT_NE(cannot.fallback().find("ho_direct needs"), std::string::npos);
}

TEST(Selector, PassesOverWhatSharedMemoryHasNoRoomFor) {
  const Config config = configWith("auto");
  const GroupMap map = GroupMap::blocks(1, 4);
  const SelectionTable table = tableOf("* * * * direct\n* * * * ring");
  const Selector enough({config, map, table, 6 * 100, 100});
  EXPECT_EQ(chosen(enough, Collective::kAllReduce, 1), "direct");
  const Selector scarce({config, map, table, 6 * 100 - 1, 100});
  EXPECT_EQ(chosen(scarce, Collective::kAllReduce, 1), "ring");
  EXPECT_NE(scarce.fallback().find("direct would take more"), std::string::npos);
}

TEST(Selector, DoesAsItIsForced) {
  const GroupMap map = GroupMap::blocks(2, 2);
  const Config config = configWith("one_shot");
  const Selector selector({config, map});
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, size_t{1} << 40), "one_shot");
  EXPECT_EQ(chosen(selector, Collective::kAllGather, size_t{1} << 40), "ho_ring");
}

TEST(Selector, FindsSomethingInTheBuiltInTableForEveryCall) {
  const Config config = configWith("auto");
  for (const auto& [groups, members] : {std::pair{1, 1}, {1, 2}, {1, 7}, {1, 100}, {2, 4}, {4, 1}, {9, 40}}) {
    const GroupMap map = GroupMap::blocks(groups, members);
    const Selector selector({config, map});
    EXPECT_EQ(selector.fallback(), "");
    for (int number = 0; number < kCollectives; ++number)
      for (size_t bytes = 0; bytes < size_t{1} << 40; bytes = bytes * 2 + 1) {
        const auto collective = static_cast<Collective>(number);
        const Selection& selection = selector.select(collective, bytes);
        EXPECT_TRUE(selection.algorithm->has(collective)) << selection.algorithm->name;
        EXPECT_EQ(selection.shape.ranks(), map.ranks());
      }
  }
}

}  // namespace
}  // namespace horing
