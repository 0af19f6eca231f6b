#include "selection/selection.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "selection/group_shares.h"

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
  const SelectionTable table = tableOf(
      "all_reduce 1 2-4 >1 1000 ring # few\r\n\n#\n\t*  2-  *  * 3M\tho_ring\nbroadcast 7 * <=1 * star");
  ASSERT_EQ(table.rows().size(), 3u);
  EXPECT_EQ(table.rows()[0].most_bytes, 1000u);
  EXPECT_EQ(table.rows()[0].ranks_per_core, RanksPerCore::kMore);
  EXPECT_EQ(table.rows()[1].ranks_per_core, RanksPerCore::kAny);
  EXPECT_EQ(table.rows()[2].ranks_per_core, RanksPerCore::kAtMostOne);
  EXPECT_EQ(table.rows()[1].most_bytes, 3u << 20);
  EXPECT_TRUE(table.rows()[1].every_collective);
  EXPECT_EQ(table.rows()[1].groups, (SelectionRow::Range{2, INT32_MAX}));
  EXPECT_EQ(table.rows()[2].groups, (SelectionRow::Range{7, 7}));
  EXPECT_EQ(tableOf(table.text()), table);
}

TEST(SelectionTable, TakesSizesAsProgramsDo) {
  for (const char* bytes : {"1536", "1.5K", "1.5k", "1.5KiB"})
    EXPECT_EQ(tableOf(formatString("* * * * %s ring", bytes)).rows().front().most_bytes, 1536u) << bytes;
}

TEST(SelectionTable, SaysWhatIsWrongAndWhere) {
  const auto message = [](std::string_view text) {
    return SelectionTable::parse(text, "file").status().message();
  };
  EXPECT_EQ(
      message("\nall_reduce 1 2 * 3\n"),
      "selection table file, line 2: 5 words; expected collective, groups, ranks of each, ranks per core, "
      "bytes, algorithm");
  EXPECT_NE(message("all_reduce 1 2 * 3 ring 5").find("7 words"), std::string::npos);
  EXPECT_NE(message("all 1 2 * 3 ring").find("a collective, as all_reduce, or * instead of 'all'"),
            std::string::npos);
  for (const char* range : {"0", "-1", "2-1", "x", "1-2-3", "1-x", "99999999999", "-"})
    EXPECT_NE(message(formatString("* %s * * * ring", range)).find(formatString("instead of '%s'", range)),
              std::string::npos)
        << range;
  for (const char* bytes : {"K", "-1", "1KB", "0x1", "17179869184G", "1KK"})
    EXPECT_NE(message(formatString("* * * * %s ring", bytes)).find(formatString("instead of '%s'", bytes)),
              std::string::npos)
        << bytes;
  for (const char* ranks : {"1", "<1", "<=2", ">=1", ">", "shared", "64K"})
    EXPECT_NE(message(formatString("* * * %s * ring", ranks))
                  .find(formatString("ranks per core, as <=1, >1 or *, instead of '%s'", ranks)),
              std::string::npos)
        << ranks;
  EXPECT_NE(message("* * * * * rong").find("an algorithm, as ring instead of 'rong'"), std::string::npos);
  EXPECT_NE(message("all_gather * * * * one_shot").find("one_shot has no all_gather"), std::string::npos);
  EXPECT_NE(message("* * * * * peer_read").find("peer_read serves no row"), std::string::npos);
  std::string rows;
  for (size_t row = 0; row < kMaxSelectionRows; ++row) rows += "* * * * * ring\n";
  EXPECT_TRUE(SelectionTable::parse(rows, "file").ok());
  EXPECT_NE(message(rows + "* * * * * ring").find("line 1025: more than 1024 rows"), std::string::npos);
}

TEST(SelectionTable, ComesFromAFile) {
  std::string path = testing::TempDir() + "selection_table_XXXXXX";
  const int fd = ::mkstemp(path.data());
  ASSERT_GE(fd, 0);
  std::FILE* file = ::fdopen(fd, "w");
  std::fputs("* * * * * ring\n", file);
  std::fclose(file);
  EXPECT_EQ(SelectionTable::fromSetting(path).take(), tableOf("* * * * * ring"));
  EXPECT_EQ(SelectionTable::fromSetting("table").take(), SelectionTable::builtIn());
  EXPECT_EQ(SelectionTable::fromSetting("model").take(), SelectionTable::builtIn());
  file = std::fopen(path.c_str(), "w");
  for (size_t i = 0; i <= kMaxSelectionBytes; ++i) std::fputc('\n', file);
  std::fclose(file);
  EXPECT_NE(SelectionTable::read(path).status().message().find("longer than 64 KiB"), std::string::npos);
  std::remove(path.c_str());
  EXPECT_NE(SelectionTable::read(path).status().message().find("No such file"), std::string::npos);
  EXPECT_NE(SelectionTable::read(testing::TempDir()).status().message().find("no file"), std::string::npos);
}

TEST(SelectionTable, HasADigestOfItsContent) {
  EXPECT_EQ(tableOf("* * * * * ring").digest(), tableOf("#\n  *  *  * * *  ring").digest());
  EXPECT_NE(tableOf("* * * * 1 ring").digest(), tableOf("* * * * 2 ring").digest());
  EXPECT_NE(tableOf("* * * * * ring").digest(), tableOf("* * * * * star").digest());
}

TEST(Selector, TakesTheFirstRowThatFits) {
  const SelectionTable table = tableOf(
      "all_reduce 2 4 * 1K one_shot\nall_reduce 2 2-3 * * star\nall_reduce 2 4 * 512 doubling\n* 2 4 * 1M "
      "direct\n* 2- * * * ho_ring\n");
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

TEST(Selector, LetsFewSendIntoAGroupAtOnceInLargeAllToAlls) {
  const Config config = configWith("auto");
  const GroupMap nodes = GroupMap::blocks(4, 4), node = GroupMap::blocks(1, 16);
  const Selector between({config, nodes, SelectionTable::builtIn()});
  EXPECT_EQ(chosen(between, Collective::kAllToAll, 128 << 10), "pairwise");
  EXPECT_EQ(chosen(between, Collective::kAllToAll, (128 << 10) + 1), "ho_pairwise");
  const Selector inside({config, node, SelectionTable::builtIn()});
  EXPECT_EQ(chosen(inside, Collective::kAllToAll, 1 << 30), "pairwise");
}

TEST(Selector, ChoosesForSharedCoresWhatIsRightThere) {
  const SelectionTable table =
      tableOf("* * * >1 64K star\n* * * <=1 4K direct\n* * * >1 128K doubling\n* * * * * ring");
  const Config config = configWith("auto");
  const GroupMap map = GroupMap::blocks(1, 4);
  const Selector own({config, map, table, false, false, RanksPerCore::kAtMostOne});
  EXPECT_EQ(chosen(own, Collective::kAllReduce, 4 << 10), "direct");
  EXPECT_EQ(chosen(own, Collective::kAllReduce, (4 << 10) + 1), "ring");
  const Selector shared({config, map, table, false, false, RanksPerCore::kMore});
  EXPECT_EQ(chosen(shared, Collective::kAllReduce, 64 << 10), "star");
  EXPECT_EQ(chosen(shared, Collective::kAllReduce, 128 << 10), "doubling");
  EXPECT_EQ(chosen(shared, Collective::kAllReduce, 1 << 20), "ring");
}

TEST(Selector, GivesGroupsOnlyToAlgorithmsThatKnowThem) {
  const Config config = configWith("auto");
  const GroupMap map = GroupMap::blocks(3, 2);
  const SelectionTable table = tableOf("* * * * 10 direct\n* * * * * ho_ring");
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
  const SelectionTable table = tableOf("* * * * * ho_leaders\n* * * * * halving_doubling");
  const Config config = configWith("auto");
  const Selector selector({config, map, table});
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 1), "halving_doubling");
  EXPECT_EQ(selector.fallback(), "") << "nobody asked for it";
  for (const char* name : {"ho_leaders", "ho_leaders_split", "ho_ordered"}) {
    const Config forced = configWith(name);
    const Selector cannot({forced, map, table});
    EXPECT_EQ(chosen(cannot, Collective::kAllReduce, 1), "halving_doubling") << name;
    EXPECT_NE(
        cannot.fallback().find(std::string(name) + " needs groups of one size, here they have 1 to 2 ranks"),
        std::string::npos)
        << cannot.fallback();
  }
}

TEST(Selector, GivesGroupsOfUnequalSizeToAlgorithmsThatSpread) {
  const std::string labels[] = {"a", "a", "b"};
  const GroupMap map = GroupMap::fromLabels(labels).take();
  const SelectionTable table = tableOf("* * * * 10 direct\n* * * * * ho_ring");
  const Config config = configWith("auto");
  const Selector selector({config, map, table});
  EXPECT_EQ(selector.fallback(), "");
  EXPECT_EQ(selector.select(Collective::kAllReduce, 10).shape.members, 3);
  EXPECT_FALSE(selector.select(Collective::kAllReduce, 10).shape.rails);
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 11), "ho_ring");
  const Shape shape = selector.select(Collective::kAllReduce, 11).shape;
  ASSERT_TRUE(shape.rails);
  EXPECT_EQ(shape.ranks(), 3);
  EXPECT_EQ(shape.rails.sizeOf(0), 2);
  EXPECT_EQ(shape.rails.sizeOf(1), 1);
}

TEST(Selector, FollowsTheRatesOfLinksInLargeAllReduces) {
  const Config config = configWith("auto");
  const GroupMap map = GroupMap::blocks(3, 2);
  const SelectionTable table = tableOf("* * * * 10 direct\n* * * * * ho_ring");
  const std::vector<double> rates{100, 40, 100};
  const Shares shares = sharesByRate(rates);
  const Selector selector({.config = config, .map = map, .table = table, .rates = rates});
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 10), "direct");
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 11), "ho_ring");
  EXPECT_FALSE(selector.select(Collective::kAllReduce, 11).shape.shares);
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 256 << 10), "ho_shares");
  EXPECT_EQ(selector.select(Collective::kAllReduce, 256 << 10).shape.shares, shares);
  EXPECT_EQ(chosen(selector, Collective::kAllGather, size_t{1} << 30), "ho_ring");
  const Config forced = configWith("ring");
  const Selector as_forced({.config = forced, .map = map, .table = table, .rates = rates});
  EXPECT_EQ(chosen(as_forced, Collective::kAllReduce, size_t{1} << 30), "ring");
}

TEST(Rates, AreFollowedBetweenMoreThanEightGroupsIfEachRankHasACore) {
  for (const auto& [groups, with_cores, with_shared] : {std::tuple(2, false, false),
                                                        {3, true, true},
                                                        {8, true, true},
                                                        {9, true, false},
                                                        {128, true, false},
                                                        {129, false, false}}) {
    EXPECT_EQ(canFollowRates({groups, 2, RanksPerCore::kAtMostOne}), with_cores) << groups;
    EXPECT_EQ(canFollowRates({groups, 2, RanksPerCore::kMore}), with_shared) << groups;
  }
}

// A part of 32 KiB and more for each group; up to 8 groups, from 256 KiB on.
TEST(Selector, FollowsTheRatesOfLinksBetweenAnyNumberOfGroups) {
  const Config config = configWith("auto");
  const SelectionTable table = tableOf("* * * * * ho_ring");
  for (const auto& [groups, least_kib] : {std::pair(3, 256), {8, 256}, {9, 288}, {128, 4096}}) {
    const GroupMap map = GroupMap::blocks(groups, 1);
    std::vector<double> rates(static_cast<size_t>(groups), 100);
    rates[1] = 40;
    const Selector selector({.config = config, .map = map, .table = table, .rates = rates});
    const size_t least_bytes = static_cast<size_t>(least_kib) << 10;
    EXPECT_EQ(chosen(selector, Collective::kAllReduce, least_bytes - 1), "ho_ring") << groups;
    EXPECT_EQ(chosen(selector, Collective::kAllReduce, least_bytes), "ho_shares") << groups;
    EXPECT_EQ(selector.select(Collective::kAllReduce, least_bytes).shape.shares, sharesByRate(rates));
  }
}

TEST(Selector, PutsSlowGroupsAtTheEndOfTrees) {
  const Config config = configWith("auto");
  for (const int members : {1, 2}) {
    const GroupMap map = GroupMap::blocks(3, members);
    const std::vector<double> rates{40, 100, 60};
    const Selector selector({.config = config, .map = map, .rates = rates});
    for (const Collective collective : {Collective::kBroadcast, Collective::kReduce})
      for (const size_t bytes : {size_t{5000}, size_t{1} << 24})
        EXPECT_EQ(selector.select(collective, bytes).shape.by_speed, (std::vector<int32_t>{1, 2, 0}))
            << collectiveName(collective) << " of " << bytes << ", " << members;
    EXPECT_TRUE(Selector({.config = config, .map = map})
                    .select(Collective::kBroadcast, 1 << 24)
                    .shape.by_speed.empty());
  }
}

TEST(Selector, DoesAsItIsForced) {
  const GroupMap map = GroupMap::blocks(2, 2);
  const Config config = configWith("one_shot");
  const Selector selector({config, map});
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, size_t{1} << 40), "one_shot");
  EXPECT_EQ(chosen(selector, Collective::kAllGather, size_t{1} << 40), "ho_ring");
}

TEST(ForcedAlgorithms, SayWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"rong", "an algorithm instead of 'rong'"},
      {"all_reduse=ring", "a collective, as all_reduce=ring instead of 'all_reduse=ring'"},
      {"ring;all_reduce=ring", "instead of 'ring'"},
      {"all_reduce=rong", "an algorithm instead of 'rong'"},
      {"all_reduce=", "an algorithm instead of ''"},
      {"all_gather=one_shot", "an algorithm that has all_gather instead of 'one_shot'"},
      {"all_reduce:64K=ring", "sizes, as 0-64K or 64K-, instead of '64K'"},
      {"all_reduce:2-1=ring", "instead of '2-1'"},
      {"all_reduce:-=ring", "instead of '-'"},
      {"all_reduce:0-1Q=ring", "instead of '0-1Q'"},
      {"all_reduce:0-1K=ring,=ring", "instead of ''"},
      {"=ring", "a collective"},
  };
  for (const auto& [text, message] : cases) {
    const Status refused = ForcedAlgorithms::parse(text).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << text;
    EXPECT_NE(refused.message().find(message), std::string::npos) << refused.message();
    EXPECT_NE(refused.message().find(formatString("HORING_ALGO=%s", text)), std::string::npos);
    EXPECT_EQ(checkForced(configWith(text)).code(), Code::kInvalidArgument);
  }
  EXPECT_FALSE(ForcedAlgorithms::parse("all_reduce=" + std::string(kMaxForcedBytes, 'x')).ok());
  EXPECT_TRUE(ForcedAlgorithms::parse("auto").value().rows().empty());
}

TEST(ForcedAlgorithms, MayBeInNcclsSpelling) {
  const GroupMap map = GroupMap::blocks(2, 2);
  const SelectionTable table = tableOf("* * * * * ho_direct\nbroadcast * * * * binomial");
  struct Case {
    const char* text;
    const char* all_reduce;
    const char* all_gather;
    const char* broadcast;
  };
  const Case cases[] = {
      {"Ring", "ring", "ring", "chain"},
      {"RING,TREE", "ring", "ring", "chain"},
      {"Tree,Ring", "halving_doubling", "ring", "chain"},
      {"^NVLS", "ho_direct", "ho_direct", "binomial"},
      {"nvls,ring", "ring", "ring", "chain"},
      {"allreduce:tree", "halving_doubling", "ho_direct", "binomial"},
      {"ring;allreduce:tree", "halving_doubling", "ring", "chain"},
      {"allgather:^ring;broadcast:Ring", "ho_direct", "ho_direct", "chain"},
      {"PAT", "ho_direct", "halving_doubling", "binomial"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    const Config config = configWith(one.text);
    ASSERT_TRUE(checkForced(config).ok()) << checkForced(config).message();
    const Selector selector({config, map, table});
    EXPECT_EQ(chosen(selector, Collective::kAllReduce, 100), one.all_reduce);
    EXPECT_EQ(chosen(selector, Collective::kAllGather, 100), one.all_gather);
    EXPECT_EQ(chosen(selector, Collective::kBroadcast, 100), one.broadcast);
  }
  for (const char* wrong : {"^", "ring,spiral", "alltoall:ring", "allreduce:", "allreduce:ring:tree"})
    EXPECT_EQ(checkForced(configWith(wrong)).code(), Code::kInvalidArgument) << wrong;
}

TEST(Selector, DoesAsItIsForcedByCollectiveAndSize) {
  const GroupMap map = GroupMap::blocks(2, 2);
  const SelectionTable table = tableOf("* * * * 1K direct\n* * * * * ho_direct");
  const Config config = configWith("all_reduce:100-64K=one_shot,64K-1M=ho_ring;reduce_scatter=ring");
  ASSERT_TRUE(checkForced(config).ok());
  const Selector selector({config, map, table});
  const std::pair<size_t, const char*> sizes[] = {{0, "direct"},          {99, "direct"},
                                                  {100, "one_shot"},      {1025, "one_shot"},
                                                  {64 << 10, "one_shot"}, {(64 << 10) + 1, "ho_ring"},
                                                  {1 << 20, "ho_ring"},   {(1 << 20) + 1, "ho_direct"}};
  for (const auto& [bytes, name] : sizes)
    EXPECT_EQ(chosen(selector, Collective::kAllReduce, bytes), name) << bytes;
  EXPECT_EQ(selector.select(Collective::kAllReduce, 100).shape.groups, 1);
  EXPECT_EQ(selector.select(Collective::kAllReduce, 1 << 20).shape.groups, 2);
  EXPECT_EQ(chosen(selector, Collective::kReduceScatter, 1), "ring");
  EXPECT_EQ(chosen(selector, Collective::kAllGather, 1), "direct");
}

// Reading peers' inputs is what large calls on one node prefer, unless something is forced.
TEST(Selector, PrefersWritingToReadingAndBothToTheTable) {
  const Config config = configWith("auto"), forced = configWith("all_reduce=peer_read");
  const GroupMap map = GroupMap::blocks(1, 2);
  bool writes = true;
  const auto names = [&](const Config& asked, Collective collective) {
    const Selector selector({asked, map, SelectionTable::builtIn(), true, writes});
    std::string text;
    for (const Selection& selection : selector.selectShared(collective, 1 << 20))
      text += std::string(selection.algorithm->name) + " ";
    return text;
  };
  EXPECT_EQ(names(config, Collective::kAllReduce), "peer_write peer_read ");
  EXPECT_EQ(names(config, Collective::kAllGather), "peer_write peer_read ");
  EXPECT_EQ(names(config, Collective::kReduceScatter), "peer_read ");
  EXPECT_EQ(names(forced, Collective::kAllReduce), "peer_read ");
  writes = false;
  EXPECT_EQ(names(config, Collective::kAllReduce), "peer_read ");
  const Config cannot = configWith("peer_write");
  EXPECT_EQ(names(cannot, Collective::kAllReduce), "");
  EXPECT_EQ(Selector({cannot, map, SelectionTable::builtIn(), true, false}).fallback(),
            "peer_write needs ranks that share memory, each a process of its own: others run instead");
}

TEST(Selector, LeavesPeersBuffersToWhatIsNotForced) {
  const auto shares = [](const char* algorithm, Collective collective, size_t bytes, int ranks = 2) {
    const Config config = configWith(algorithm);
    const GroupMap map = GroupMap::blocks(1, ranks);
    const Selector selector({config, map, SelectionTable::builtIn(), true});
    return !selector.selectShared(collective, bytes).empty();
  };
  for (const auto& [ranks, least] :
       {std::pair(2, 64 << 10), {4, 128 << 10}, {8, 256 << 10}, {16, 256 << 10}}) {
    EXPECT_FALSE(shares("auto", Collective::kAllReduce, static_cast<size_t>(least) - 1, ranks)) << ranks;
    EXPECT_TRUE(shares("auto", Collective::kAllReduce, static_cast<size_t>(least), ranks)) << ranks;
  }
  EXPECT_FALSE(shares("ring", Collective::kAllReduce, 1 << 30));
  EXPECT_TRUE(shares("peer_read", Collective::kAllReduce, 1));
  const char* by_size = "all_reduce:0-1M=ring;reduce_scatter:0-64=peer_read";
  EXPECT_FALSE(shares(by_size, Collective::kAllReduce, 1 << 20));
  EXPECT_TRUE(shares(by_size, Collective::kAllReduce, (1 << 20) + 1));
  EXPECT_TRUE(shares(by_size, Collective::kReduceScatter, 64));
  EXPECT_FALSE(shares(by_size, Collective::kReduceScatter, 65));
  EXPECT_TRUE(shares(by_size, Collective::kAllGather, 1 << 20));
}

Config reproducible(const char* algorithm) {
  Config config = configWith(algorithm);
  config.reproducible = true;
  return config;
}

TEST(Selector, FoldsInOneOrderOnlyWhereResultsShallBeReproducible) {
  const Config config = reproducible("auto");
  ASSERT_TRUE(checkForced(config).ok());
  const GroupMap map = GroupMap::blocks(2, 3);
  // A table cannot change it, and neither can memory that is shared.
  const SelectionTable table = tableOf("* * * * * ring");
  const Selector selector({config, map, table, true});
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce})
    for (const size_t bytes : {size_t{0}, size_t{1} << 20, size_t{1} << 40}) {
      EXPECT_EQ(chosen(selector, collective, bytes), "ho_ordered");
      EXPECT_EQ(selector.select(collective, bytes).shape.groups, 2);
      EXPECT_TRUE(selector.selectShared(collective, bytes).empty());
    }
  EXPECT_EQ(chosen(selector, Collective::kAllGather, 1), "ring");
  EXPECT_EQ(selector.fallback(), "");
  const std::string labels[] = {"a", "a", "b"};
  const GroupMap unequal = GroupMap::fromLabels(labels).take();
  const Selector flat({config, unequal});
  EXPECT_EQ(chosen(flat, Collective::kAllReduce, 1), "ho_ordered");
  EXPECT_EQ(flat.select(Collective::kAllReduce, 1).shape.members, 3);
  EXPECT_NE(flat.fallback().find("groups differ in size"), std::string::npos);
}

TEST(Selector, LetsNothingElseBeForcedWhereResultsShallBeReproducible) {
  EXPECT_TRUE(checkForced(reproducible("ho_ordered")).ok());
  EXPECT_TRUE(checkForced(configWith("ring")).ok());
  EXPECT_TRUE(checkForced(reproducible("all_gather=ring;all_reduce=ho_ordered")).ok());
  EXPECT_FALSE(checkForced(reproducible("all_gather=ring;all_reduce:0-8=ring")).ok());
  for (const char* algorithm : {"ring", "ho_direct", "peer_read", "chain"}) {
    const Status refused = checkForced(reproducible(algorithm));
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_NE(refused.message().find(formatString("HORING_ALGO=%s", algorithm)), std::string::npos);
  }
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
