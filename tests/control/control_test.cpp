#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "../held_port.h"
#include "control/host_addresses.h"
#include "control_ranks.h"

namespace horing {

namespace testing_comm {

Status waitForError(Control& control) {
  [[maybe_unused]] const bool is_over = control.isOver(20'000);
  return control.status();
}

}  // namespace testing_comm

namespace {

using namespace testing_comm;

std::vector<std::byte> blobOf(int rank, size_t size) {
  std::vector<std::byte> blob(size);
  for (size_t i = 0; i < size; ++i)
    blob[i] = static_cast<std::byte>(i * 31 + static_cast<size_t>(rank) * 7 + i / 256);
  return blob;
}

class ControlOfRanks : public testing::TestWithParam<int> {};

TEST_P(ControlOfRanks, GathersEveryPartInOrder) {
  const int ranks = GetParam();
  const auto root = startRoot();
  const size_t sizes[] = {0, 1, 13, 64 * 1024, 100};
  inThreads(ranks, [&](int rank) {
    Result<std::unique_ptr<Control>> joined = Control::join(joinOptions(root->id(), rank, ranks));
    ASSERT_TRUE(joined.ok()) << joined.status().toString();
    Control& control = *joined.value();
    for (const size_t size : sizes) {
      // Every rank gives another size; some nothing.
      const auto sizeOf = [&](int giver) { return size - std::min(size, static_cast<size_t>(giver)); };
      const auto parts = control.allGather(blobOf(rank, sizeOf(rank)), in(30'000));
      ASSERT_TRUE(parts.ok()) << parts.status().toString();
      ASSERT_EQ(parts.value().size(), static_cast<size_t>(ranks));
      for (int giver = 0; giver < ranks; ++giver)
        ASSERT_EQ(parts.value()[static_cast<size_t>(giver)], blobOf(giver, sizeOf(giver)));
    }
    EXPECT_TRUE(control.status().ok());
    control.leave();
  });
  EXPECT_TRUE(root->waitFinished(10'000));
}

INSTANTIATE_TEST_SUITE_P(Counts, ControlOfRanks, testing::Values(1, 2, 3, 5, 8, 13, 33),
                         testing::PrintToStringParamName());

TEST(Control, NamesEveryRanksProcess) {
  const auto root = startRoot();
  const auto controls = joinAll(root->id(), 2);
  ASSERT_TRUE(controls[0] && controls[1]);
  EXPECT_EQ(controls[0]->rank(), 0);
  EXPECT_EQ(controls[0]->ranks(), 2);
  EXPECT_NE(controls[0]->describeRank(1).find("pid " + std::to_string(::getpid())), std::string::npos);
}

TEST(Control, FindsARendezvousThatWaitsAsLongAsItLives) {
  const auto gives_up = startRoot(0), waits = startRoot(std::nullopt);
  EXPECT_TRUE(gives_up->waitFinished(10'000));
  EXPECT_FALSE(waits->finished());
  const auto controls = joinAll(waits->id(), 2);
  for (const auto& control : controls) control->leave();
  EXPECT_TRUE(waits->waitFinished(10'000)) << "the ranks have come and gone";
}

TEST(Control, TakesTheLargestPartAndRefusesMore) {
  const auto root = startRoot();
  const auto controls = joinAll(root->id(), 1);
  const auto parts = controls[0]->allGather(blobOf(0, kMaxGatherBytes), in(30'000));
  ASSERT_TRUE(parts.ok()) << parts.status().toString();
  EXPECT_EQ(parts.value()[0], blobOf(0, kMaxGatherBytes));
  const auto refused = controls[0]->allGather(blobOf(0, kMaxGatherBytes + 1), in(30'000));
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
}

TEST(Control, NamesRanksThatNeverArriveOnEveryOther) {
  const auto root = startRoot();
  std::vector<JoinOptions> options;
  for (const int rank : {0, 1, 2, 4, 5})
    options.push_back(joinOptions(root->id(), rank, 8, kShortDeadlineMs));
  for (const Status& status : joinStatuses(options)) {
    EXPECT_EQ(status.code(), Code::kTimeout);
    EXPECT_TRUE(mentions(status, "ranks 3, 6, 7 of 8 did not arrive within")) << status.toString();
  }
  // A rank that comes late learns why.
  const Status late = Control::join(joinOptions(root->id(), 3, 8)).status();
  EXPECT_TRUE(mentions(late, "ranks 3, 6, 7 of 8 did not arrive")) << late.toString();
}

TEST(Control, NamesRanksThatDoNotTakePartInAnExchange) {
  const auto root = startRoot();
  const auto controls = joinAll(root->id(), 4);
  inThreads(3, [&](int i) {
    const auto parts = controls[static_cast<size_t>(i)]->allGather({}, in(kShortDeadlineMs));
    EXPECT_EQ(parts.status().code(), Code::kTimeout);
    EXPECT_TRUE(mentions(parts.status(), "rank 3 of 4 did not take part in exchange 1"))
        << parts.status().toString();
  });
  EXPECT_TRUE(mentions(waitForError(*controls[3]), "rank 3 of 4")) << controls[3]->status().toString();
}

TEST(Control, NamesWhatRanksDoNotTakePartIn) {
  const auto root = startRoot();
  const auto controls = joinAll(root->id(), 2);
  EXPECT_TRUE(mentions(controls[0]->allGather({}, in(kShortDeadlineMs), "a dance").status(),
                       "rank 1 of 2 did not take part in a dance within"))
      << controls[0]->status().toString();
}

TEST(Control, TellsEverybodyOfARankThatCameTwice) {
  const auto root = startRoot();
  for (const Status& status : joinStatuses({joinOptions(root->id(), 1, 3), joinOptions(root->id(), 1, 3)})) {
    EXPECT_EQ(status.code(), Code::kInvalidUsage);
    EXPECT_TRUE(mentions(status, "two processes joined as one rank: rank 1")) << status.toString();
  }
}

TEST(Control, TellsEverybodyOfAnotherWorldSize) {
  const auto root = startRoot();
  for (const Status& status : joinStatuses({joinOptions(root->id(), 0, 3), joinOptions(root->id(), 1, 4)})) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(mentions(status, "pass the same number on every rank")) << status.toString();
  }
}

TEST(Control, TellsEverybodyOfARankOutOfRange) {
  const auto root = startRoot();
  for (const Status& status : joinStatuses({joinOptions(root->id(), 0, 3), joinOptions(root->id(), 3, 3)})) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(mentions(status, "ranks are 0 to 2")) << status.toString();
  }
}

TEST(Control, RefusesANonsensicalWorldSize) {
  for (const int ranks : {0, -1, kMaxRanks + 1}) {
    const auto root = startRoot();
    const Status status = Control::join(joinOptions(root->id(), 0, ranks)).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.toString();
  }
}

TEST(Control, OfARunningCommunicatorIgnoresALateCopyOfARank) {
  const auto root = startRoot();
  const auto controls = joinAll(root->id(), 2);
  const Status copy = Control::join(joinOptions(root->id(), 1, 2, kShortDeadlineMs)).status();
  EXPECT_TRUE(mentions(copy, "its communicator is complete without this rank")) << copy.toString();
  inThreads(
      2, [&](int rank) { EXPECT_TRUE(controls[static_cast<size_t>(rank)]->allGather({}, in(30'000)).ok()); });
}

TEST(RootService, GivesItsPortToTheNextCommunicator) {
  const auto first = startRoot();
  const auto controls = joinAll(first->id(), 2);
  const UniqueIdParts parts = decodeUniqueId(first->id()).take();
  RootOptions options;
  options.host = "127.0.0.1";
  options.port = first->port();
  options.secret = &parts;
  const auto second = RootService::start(options);
  ASSERT_TRUE(second.ok()) << second.status().toString();
  EXPECT_EQ(second.value()->id(), first->id());
  joinAll(second.value()->id(), 2);
  inThreads(
      2, [&](int rank) { EXPECT_TRUE(controls[static_cast<size_t>(rank)]->allGather({}, in(30'000)).ok()); });
}

TEST(Control, TellsEverybodyOfARankThatVanishes) {
  const auto root = startRoot();
  auto controls = joinAll(root->id(), 4);
  controls[2].reset();  // no goodbye
  for (const int survivor : {0, 1, 3}) {
    Control& control = *controls[static_cast<size_t>(survivor)];
    const Status status = waitForError(control);
    EXPECT_EQ(status.code(), Code::kRemoteError);
    EXPECT_TRUE(mentions(status, "rank 2 (") && mentions(status, "is lost")) << status.toString();
    EXPECT_EQ(control.failedRank(), 2);
    EXPECT_TRUE(control.isOver(0));
    // The first error stays.
    EXPECT_EQ(control.allGather({}, in(1000)).status().message(), status.message());
  }
}

TEST(Control, TellsThoseWhoWaitOfARankThatVanishes) {
  const auto root = startRoot();
  auto controls = joinAll(root->id(), 3);
  inThreads(3, [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    if (rank == 1) {
      controls[at].reset();
      return;
    }
    const auto parts = controls[at]->allGather({}, in(30'000));
    EXPECT_TRUE(mentions(parts.status(), "rank 1 (")) << parts.status().toString();
  });
}

TEST(Control, TellsEverybodyOfAnAnnouncedError) {
  const auto root = startRoot();
  const auto controls = joinAll(root->id(), 3);
  controls[1]->announceError(makeStatus(Code::kTimeout, "operation 17 took too long"));
  EXPECT_EQ(controls[1]->status().code(), Code::kTimeout);
  for (const int other : {0, 2}) {
    const Status status = waitForError(*controls[static_cast<size_t>(other)]);
    EXPECT_EQ(status.code(), Code::kRemoteError);
    EXPECT_TRUE(mentions(status, "rank 1 (") && mentions(status, "operation 17 took too long"))
        << status.toString();
    EXPECT_EQ(controls[static_cast<size_t>(other)]->failedRank(), 1);
  }
}

// Whether the news or the question is under way first is left to chance, so this tries several times.
TEST(Control, WhoCatchesUpHasHeardWhatWasDecidedBefore) {
  for (int i = 0; i < 100; ++i) {
    const auto root = startRoot();
    const auto controls = joinAll(root->id(), 2);
    for (const auto& control : controls)
      for (int again = 0; again < 2; ++again)
        ASSERT_TRUE(control->catchUp(in(30'000)).ok()) << control->status().toString();
    controls[1]->announceError(makeStatus(Code::kTimeout, "operation 17 took too long"));
    const Status status = controls[0]->catchUp(in(30'000));
    ASSERT_TRUE(mentions(status, "operation 17 took too long")) << i << ": " << status.toString();
  }
}

TEST(Control, TakesACloseOfTheRootForAllThatThereIsToCatchUpWith) {
  auto root = startRoot();
  const auto controls = joinAll(root->id(), 2);
  std::thread closes([&] { root.reset(); });
  for (const auto& control : controls)
    EXPECT_TRUE(control->catchUp(in(30'000)).ok()) << control->status().toString();
  closes.join();
  for (const auto& control : controls)
    EXPECT_TRUE(control->catchUp(in(30'000)).ok()) << control->status().toString();
}

TEST(Control, KeepsTheFirstOfTwoErrors) {
  const auto root = startRoot();
  const auto controls = joinAll(root->id(), 3);
  controls[0]->announceError(makeStatus(Code::kInternalError, "first"));
  ASSERT_TRUE(mentions(waitForError(*controls[1]), "first"));
  controls[1]->announceError(makeStatus(Code::kInternalError, "second"));
  EXPECT_TRUE(mentions(waitForError(*controls[2]), "first"));
}

TEST(Control, LetsARankLeaveWithoutDisturbingTheOthers) {
  const auto root = startRoot();
  auto controls = joinAll(root->id(), 3);
  controls[0]->leave();
  controls[0].reset();
  EXPECT_TRUE(controls[1]->status().ok());
  // leave() has returned, so the rendezvous knows: an exchange names the missing rank.
  const auto parts = controls[1]->allGather({}, in(30'000));
  EXPECT_TRUE(mentions(parts.status(), "rank 0 (") && mentions(parts.status(), "has left"))
      << parts.status().toString();
}

TEST(Control, LosesNothingWhenTheRootClosesAfterwards) {
  auto root = startRoot();
  const auto controls = joinAll(root->id(), 2);
  root.reset();
  for (const auto& control : controls) {
    EXPECT_TRUE(waitForError(*control).ok()) << control->status().toString();
    EXPECT_TRUE(control->isOver(0));
    const auto parts = control->allGather({}, in(1000));
    EXPECT_TRUE(mentions(parts.status(), "rendezvous was closed")) << parts.status().toString();
  }
}

TEST(Control, TellsThoseWhoWaitThatTheRootWasClosed) {
  auto root = startRoot();
  const auto controls = joinAll(root->id(), 2);
  std::thread waiting([&] {
    const auto parts = controls[0]->allGather({}, in(30'000));
    // Whether it waited already or not.
    EXPECT_TRUE(mentions(parts.status(), "closed")) << parts.status().toString();
  });
  root.reset();
  waiting.join();
}

TEST(Control, SaysThatNobodyAnswers) {
  const test::HeldPort port;
  auto root = startRoot(60'000, 60'000, port.number());
  const UniqueId id = root->id();
  root.reset();
  const Status status = Control::join(joinOptions(id, 3, 4, kShortDeadlineMs)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_TRUE(mentions(status, "rank 3: the rendezvous at 127.0.0.1:") &&
              mentions(status, "cannot be reached: Connection refused. Nothing listens there: rank 0 "))
      << status.toString();
}

TEST(Control, NamesTheAddressThatDoesNotRefuseWhicheverIsTriedLast) {
  const test::HeldPort port;
  auto root = startRoot(60'000, 60'000, port.number());
  UniqueIdParts parts = decodeUniqueId(root->id()).take();
  root.reset();
  const Endpoint refuses = parts.roots[0];
  // Of a network's broadcast address, connect() says at once that it cannot be reached.
  const Endpoint fails = resolveHost({"127.255.255.255", 4711}).take().front();
  for (const auto& roots : {std::vector{refuses, fails}, std::vector{fails, refuses}}) {
    parts.roots = roots;
    const Status status =
        Control::join(joinOptions(encodeUniqueId(parts).take(), 3, 4, kShortDeadlineMs)).status();
    EXPECT_EQ(status.code(), Code::kTimeout);
    EXPECT_TRUE(mentions(status, "cannot be reached: 127.255.255.255:4711: ") &&
                mentions(status, "Is that machine up"))
        << status.toString();
  }
}

TEST(Control, GivesUpSoonOnARootThatWasOpen) {
  const test::HeldPort port;
  auto root = startRoot(60'000, 60'000, port.number());
  JoinOptions options = joinOptions(root->id(), 3, 4);
  options.root_was_open = true;
  root.reset();
  const int64_t begun_ns = kClock.nowNs();
  const Status status = Control::join(options).status();
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_TRUE(mentions(status, "rank 3: the rendezvous at 127.0.0.1:") &&
              mentions(status, "this unique ID was used already, or the process that made it has ended"))
      << status.toString();
  EXPECT_LT(kClock.nowNs() - begun_ns, 10'000'000'000) << "not the deadline";
}

TEST(Control, SaysThatItsKeyIsNotTheRoots) {
  const auto root = startRoot();
  UniqueIdParts parts = decodeUniqueId(root->id()).take();
  parts.key = Key::random();
  const UniqueId wrong_key = encodeUniqueId(parts).take();
  // The right key of another job is as wrong.
  parts = decodeUniqueId(root->id()).take();
  parts.job[0] ^= std::byte{1};
  const UniqueId wrong_job = encodeUniqueId(parts).take();
  JoinOptions was_open = joinOptions(wrong_job, 0, 1, kShortDeadlineMs);
  was_open.root_was_open = true;
  const std::vector<Status> statuses =
      joinStatuses({joinOptions(wrong_key, 0, 1, kShortDeadlineMs), was_open});
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), Code::kRemoteError);
    EXPECT_TRUE(mentions(status, "does not hold this job's key")) << status.toString();
  }
  EXPECT_FALSE(mentions(statuses[0], "used already")) << statuses[0].toString();
  EXPECT_TRUE(mentions(statuses[1], "this unique ID was used already, or the process that made it has ended"))
      << statuses[1].toString();
}

TEST(Control, WaitsForARootThatStartsLater) {
  const test::HeldPort port;
  const UniqueId id = startRoot(60'000, 60'000, port.number())->id();
  const UniqueIdParts parts = decodeUniqueId(id).take();
  std::thread early([&] {
    const auto joined = Control::join(joinOptions(id, 0, 1));
    EXPECT_TRUE(joined.ok()) << joined.status().toString();
  });
  RootOptions options;
  options.host = "127.0.0.1";
  options.port = port.number();
  options.secret = &parts;
  const auto late = RootService::start(options);
  EXPECT_TRUE(late.ok()) << late.status().toString();
  early.join();
}

TEST(Control, TriesTheNextAddressWhenOneIsDead) {
  const test::HeldPort dead;
  const Endpoint nobody = resolveHost({"127.0.0.1", dead.number()}).take().front();
  const auto root = startRoot();
  UniqueIdParts parts = decodeUniqueId(root->id()).take();
  parts.roots.insert(parts.roots.begin(), nobody);
  const auto joined = Control::join(joinOptions(encodeUniqueId(parts).take(), 0, 1));
  EXPECT_TRUE(joined.ok()) << joined.status().toString();
}

TEST(Control, IsReachedThroughEveryAddressOfTheMachine) {
  RootOptions options;
  options.log = Log(LogLevel::kNone);
  const auto root = RootService::start(options);
  ASSERT_TRUE(root.ok()) << root.status().toString();
  const UniqueIdParts parts = decodeUniqueId(root.value()->id()).take();
  for (const Endpoint& address : parts.roots) EXPECT_EQ(address.port, root.value()->port());
  EXPECT_TRUE(Control::join(joinOptions(root.value()->id(), 0, 1)).ok());
}

// In a separate process, with one descriptor left: for the connection.
TEST(Control, NamesTheRankThatCannotWatchItsConnection) {
  const auto root = startRoot();
  const pid_t child = ::fork();
  if (child == 0) {
    const int next = ::dup(STDERR_FILENO);
    ::close(next);
    const rlimit one_more{static_cast<rlim_t>(next) + 1, static_cast<rlim_t>(next) + 1};
    ::setrlimit(RLIMIT_NOFILE, &one_more);
    const Status status = Control::join(joinOptions(root->id(), 1, 2)).status();
    const bool is_said =
        mentions(status, "rank 1 cannot serve its connection to the rendezvous at 127.0.0.1") &&
        mentions(status, "ulimit -n");
    if (!is_said) std::fprintf(stderr, "%s\n", status.toString().c_str());
    ::_exit(is_said ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Control, EndsItsWaitWhenAborted) {
  const auto root = startRoot();
  std::atomic<bool> abort{false};
  JoinOptions options = joinOptions(root->id(), 0, 2);
  options.abort = &abort;
  std::thread aborter([&] { abort.store(true); });
  const Status status = Control::join(options).status();
  aborter.join();
  EXPECT_TRUE(mentions(status, "abort")) << status.toString();
}

// After one inquiry the action runs for a while, since it may need several rounds with other ranks.
TEST(Control, HasARankThatIsAskedServeOthersMoreThanOnce) {
  const auto root = startRoot();
  std::atomic<int> served{0};
  const auto controls = joinAll(root->id(), 2);
  controls[1]->onQuestion([&] {
    ++served;
    return false;
  });
  controls[0]->reportState({.doing = RankState::Doing::kExchange});
  const Deadline deadline = in(20'000);
  while (served < 3 && !deadline.passed()) ::poll(nullptr, 0, 1);
  EXPECT_GE(served, 3);
}

TEST(Control, HasARankServeOthersAsLongAsItFindsSomethingToDo) {
  constexpr int kMore = 2000;  // many times what it does by itself
  const auto root = startRoot();
  std::atomic<int> served{0};
  const auto controls = joinAll(root->id(), 2);
  controls[1]->onQuestion([&] { return ++served < kMore; });
  controls[0]->reportState({.doing = RankState::Doing::kExchange});
  const Deadline deadline = in(20'000);
  while (served < kMore && !deadline.passed()) ::poll(nullptr, 0, 1);
  EXPECT_GE(served, kMore);
}

TEST(RootService, EndsByItselfWhenNobodyComes) {
  const auto root = startRoot(20);
  EXPECT_TRUE(root->waitFinished(10'000));
}

TEST(RootService, StaysWhileARankIsThere) {
  const auto root = startRoot();
  const auto controls = joinAll(root->id(), 2);
  controls[0]->leave();
  EXPECT_FALSE(root->finished());
  controls[1]->leave();
  EXPECT_TRUE(root->waitFinished(10'000));
}

TEST(RootService, SaysThatItsPortIsTaken) {
  const auto root = startRoot();
  RootOptions options;
  options.host = "127.0.0.1";
  options.port = root->port();
  const auto second = RootService::start(options);
  EXPECT_EQ(second.status().code(), Code::kSystemError);
  EXPECT_TRUE(mentions(second.status(), "127.0.0.1:" + std::to_string(root->port())))
      << second.status().toString();
}

}  // namespace
}  // namespace horing
