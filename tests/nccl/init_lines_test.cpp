// The lines of NCCL's log, as tools parse them.
#include "horing/horing.h"
#include "log_lines.h"

namespace {

ncclResult_t awaited(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress && ncclCommGetAsyncError(comm, &state) == ncclSuccess)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return state;
}

// Of a group, too, which makes both ranks at its end, and of ncclCommInitAll.
TEST(NcclLog, NamesEachCommunicatorWhenItBeginsAndWhenItIsMade) {
  const NcclLog log;
  const std::vector<ncclComm_t> met = meet(2);
  const std::vector<std::string> by_id = expectInits(log, "ncclCommInitRankConfig", met);
  EXPECT_EQ(by_id[0], by_id[1]) << "ranks of one communicator have one ID";
  EXPECT_TRUE(std::regex_match(by_id[0], std::regex("commId 0x[1-9a-f][0-9a-f]*"))) << by_id[0];
  ncclUniqueId id;
  std::vector<ncclComm_t> in_group(2), at_once(2);
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ASSERT_NCCL(ncclGroupStart());
  for (size_t rank = 0; rank < 2; ++rank)
    ASSERT_NCCL(ncclCommInitRank(&in_group[rank], 2, id, static_cast<int>(rank)));
  ASSERT_NCCL(ncclGroupEnd());
  ASSERT_NCCL(ncclCommInitAll(at_once.data(), 2, nullptr));
  std::set<std::string> ids{by_id[0]};
  for (const auto& origins :
       {expectInits(log, "ncclCommInitRank", in_group), expectInits(log, "ncclCommInitAll", at_once)}) {
    EXPECT_EQ(origins[0], origins[1]);
    ids.insert(origins[0]);
  }
  EXPECT_EQ(ids.size(), 3U) << "communicators are told apart by their IDs";
  for (const auto& comms : {met, in_group, at_once}) destroyAll(comms);
}

// A rank that waits for others is seen in the log.
TEST(NcclLog, HasTheStartBeforeTheOthersCome) {
  const NcclLog log;
  ncclUniqueId id;
  std::vector<ncclComm_t> comms(2);
  ASSERT_NCCL(ncclGetUniqueId(&id));
  std::thread first([&] { EXPECT_NCCL(ncclCommInitRank(&comms[0], 2, id, 0)); });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (log.inits().empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::vector<InitLine> begun = log.inits();
  EXPECT_EQ(begun.size(), 1U) << log.text();
  EXPECT_NCCL(ncclCommInitRank(&comms[1], 2, id, 1));
  first.join();
  ASSERT_FALSE(begun.empty());
  EXPECT_EQ(begun[0].event, "START");
  EXPECT_EQ(begun[0].comm, printed(comms[0]));
  destroyAll(comms);
}

TEST(NcclLog, NamesTheParentOfWhatIsMadeFromACommunicator) {
  const NcclLog log;
  const std::vector<ncclComm_t> comms = meet(3);
  std::vector<ncclComm_t> split(3), shrunk(2);
  int last = 2;
  onEveryRank(3, [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    EXPECT_NCCL(ncclCommSplit(comms[at], rank < 2 ? 7 : NCCL_SPLIT_NOCOLOR, rank, &split[at], nullptr));
    if (rank == 2) return;
    EXPECT_NCCL(ncclCommShrink(comms[at], &last, 1, &shrunk[at], nullptr, NCCL_SHRINK_DEFAULT));
  });
  split.pop_back();
  const std::string parent = "parent " + printed(comms[1]);
  EXPECT_EQ(expectInits(log, "ncclCommSplit", split)[1], parent + " splitCount 1 color 7 key 1");
  EXPECT_EQ(expectInits(log, "ncclCommShrink", shrunk)[1], parent + " splitCount 2 color 0 key 0");
  // One more joins two.
  ncclUniqueId id;
  std::vector<ncclComm_t> grown(3);
  ASSERT_NCCL(ncclCommGetUniqueId(shrunk[0], &id));
  onEveryRank(3, [&](int rank) {
    const bool is_new = rank == 2;
    const auto at = static_cast<size_t>(rank);
    EXPECT_NCCL(ncclCommGrow(is_new ? nullptr : shrunk[at], 3, rank == 1 ? nullptr : &id, is_new ? 2 : -1,
                             &grown[at], nullptr));
  });
  const std::vector<std::string> origins = expectInits(log, "ncclCommGrow", grown);
  EXPECT_EQ(origins[0], "parent " + printed(shrunk[0]) + " splitCount 1 color 0 key 0");
  EXPECT_EQ(origins[2].find("commId 0x"), 0U) << origins[2];
  for (const auto& each : {grown, shrunk, split, comms}) destroyAll(each);
}

TEST(NcclLog, SaysCompleteOfOneThatDoesNotBlockWhenItIsMade) {
  const NcclLog log;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId id;
  std::vector<ncclComm_t> comms(2), children(2);
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ASSERT_EQ(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config), ncclInProgress);
  ncclResult_t state = ncclSuccess;
  ASSERT_NCCL(ncclCommGetAsyncError(comms[0], &state));
  EXPECT_EQ(state, ncclInProgress);
  const std::vector<InitLine> begun = log.inits();
  ASSERT_EQ(begun.size(), 1U) << log.text();
  EXPECT_EQ(begun[0].event, "START");
  ASSERT_EQ(ncclCommInitRankConfig(&comms[1], 2, id, 1, &config), ncclInProgress);
  for (const ncclComm_t comm : comms) ASSERT_EQ(awaited(comm), ncclSuccess);
  expectInits(log, "ncclCommInitRankConfig", comms);
  for (size_t rank = 0; rank < 2; ++rank)
    ASSERT_EQ(ncclCommSplit(comms[rank], 0, 0, &children[rank], nullptr), ncclInProgress);
  for (const auto& each : {comms, children})
    for (const ncclComm_t comm : each) ASSERT_EQ(awaited(comm), ncclSuccess);
  expectInits(log, "ncclCommSplit", children);
  for (const auto& each : {children, comms})
    for (const ncclComm_t comm : each) EXPECT_NCCL(ncclCommAbort(comm));
}

TEST(NcclLog, HasNcclsPrefixOnEachLine) {
  const NcclLog log;
  destroyAll(meet(2));
  const std::string text = log.text();
  ASSERT_NE(text.find("ranks in"), std::string::npos) << "a text of several lines";
  const std::regex form(R"(\S+:\d+:\d+ \[0\] NCCL (INFO|WARN) .*|NCCL version \S+)");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(std::regex_match(line, form)) << line;
}

}  // namespace
