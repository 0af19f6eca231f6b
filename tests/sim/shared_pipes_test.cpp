#include "sim/shared_pipes.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace horing {
namespace {

// The pipes in the order in which their jobs end, and when.
std::vector<std::pair<int32_t, Picoseconds>> runAll(SharedPipes& pipes, Picoseconds now = 0) {
  std::vector<std::pair<int32_t, Picoseconds>> ends;
  for (pipes.settle(now); pipes.nextEnd() != SharedPipes::kNever; pipes.settle(now)) {
    now = pipes.nextEnd();
    for (int32_t pipe = pipes.popEnded(now); pipe >= 0; pipe = pipes.popEnded(now))
      ends.push_back({pipe, now});
  }
  return ends;
}
using Ends = std::vector<std::pair<int32_t, Picoseconds>>;

TEST(SharedPipes, ServeTheirJobsOneAfterAnother) {
  SharedPipes pipes;
  const int32_t line = pipes.addResource(2);
  const int32_t pipe = pipes.addPipe(0, {line, -1, -1});
  pipes.push(pipe, 100);
  pipes.push(pipe, 50);
  EXPECT_EQ(runAll(pipes), (Ends{{pipe, 200}, {pipe, 300}}));
  EXPECT_EQ(pipes.busy(line), 300);
}

TEST(SharedPipes, ShareAResourceEqually) {
  SharedPipes pipes;
  const int32_t line = pipes.addResource(1);
  const int32_t a = pipes.addPipe(0, {line, -1, -1}), b = pipes.addPipe(0, {line, -1, -1});
  pipes.push(a, 100);
  pipes.push(b, 300);
  EXPECT_EQ(runAll(pipes), (Ends{{a, 200}, {b, 400}}));  // b is alone from 200 on
}

TEST(SharedPipes, AreAsFastAsTheLeastOfTheirShares) {
  SharedPipes pipes;
  const int32_t out = pipes.addResource(1), in = pipes.addResource(4);
  const int32_t crossing = pipes.addPipe(0, {out, in, -1}), other = pipes.addPipe(0, {out, -1, -1});
  pipes.push(crossing, 100);
  pipes.push(other, 100);
  EXPECT_EQ(runAll(pipes), (Ends{{other, 200}, {crossing, 400}}));
}

TEST(SharedPipes, ServeJobsOfAnOrderedResourceInOrder) {
  SharedPipes pipes;
  const int32_t line = pipes.addOrdered(1);
  const int32_t a = pipes.addPipe(0, {line, -1, -1}), b = pipes.addPipe(0, {line, -1, -1});
  pipes.push(a, 100);
  pipes.push(a, 100);
  pipes.push(b, 300);
  EXPECT_EQ(runAll(pipes),
            (Ends{{a, 100}, {b, 400}, {a, 500}}));  // b was pushed before a's second job began to wait
  EXPECT_EQ(pipes.busy(line), 500);
}

// `held` gets a third of the line, since its receiver takes two more, so others need not wait for it.
TEST(SharedPipes, BeginTheNextJobWhereOneIsHeldUp) {
  SharedPipes pipes;
  const int32_t line = pipes.addOrdered(1), receiver = pipes.addResource(1);
  const int32_t held = pipes.addPipe(0, {line, receiver, -1}), next = pipes.addPipe(0, {line, -1, -1}),
                last = pipes.addPipe(0, {line, -1, -1});
  const int32_t others[] = {pipes.addPipe(0, {receiver, -1, -1}), pipes.addPipe(0, {receiver, -1, -1})};
  for (const int32_t pipe : {others[0], others[1], held}) pipes.push(pipe, 120);
  pipes.push(next, 60);
  pipes.push(last, 10);
  // A third for `held` and half for `next` leave a part, so `last` begins, too, and each has a third until it is done.
  EXPECT_EQ(runAll(pipes), (Ends{{last, 30}, {next, 130}, {held, 360}, {others[0], 360}, {others[1], 360}}));
}

// Three begin, and whenever one ends the others get more.
TEST(SharedPipes, CountHowOftenSharesAreWorkedOut) {
  SharedPipes pipes;
  const int32_t line = pipes.addResource(1);
  for (const double work : {100, 200, 300}) pipes.push(pipes.addPipe(0, {line, -1, -1}), work);
  runAll(pipes);
  EXPECT_EQ(pipes.sharings(), 3 + 2 + 1);
}

// Between a push and the next settle() nothing has a share yet.
TEST(SharedPipes, GiveAShareToWhoComesLater) {
  SharedPipes pipes;
  const int32_t line = pipes.addResource(1);
  const int32_t a = pipes.addPipe(0, {line, -1, -1}), b = pipes.addPipe(0, {line, -1, -1});
  pipes.push(a, 100);
  pipes.settle(0);
  EXPECT_EQ(pipes.nextEnd(), 100);
  pipes.push(b, 100);
  EXPECT_EQ(runAll(pipes, 50), (Ends{{a, 150}, {b, 200}}));
}

TEST(SharedPipes, HaveACostOfTheirOwn) {
  SharedPipes pipes;
  const int32_t cores = pipes.addResource(0.5);
  int32_t ranks[3];
  for (int32_t& rank : ranks) pipes.push(rank = pipes.addPipe(1, {cores, -1, -1}), 100);
  EXPECT_EQ(runAll(pipes), (Ends{{ranks[0], 150}, {ranks[1], 150}, {ranks[2], 150}}));
  SharedPipes alone;
  alone.push(alone.addPipe(1, {alone.addResource(0.5), -1, -1}), 100);
  alone.push(alone.addPipe(3, SharedPipes::kNoResources), 10);
  EXPECT_EQ(runAll(alone), (Ends{{1, 30}, {0, 100}}));
}

// A rested line does 60 at once, and 20 more for each 40 ps of rest.
TEST(SharedPipes, DoABurstInNoTimeAfterARest) {
  SharedPipes pipes;
  const int32_t line = pipes.addResource(2);
  pipes.setBurst(line, 60);
  const int32_t pipe = pipes.addPipe(0, {line, -1, -1});
  pipes.push(pipe, 50);
  pipes.push(pipe, 50);
  pipes.push(pipe, 50);
  EXPECT_EQ(runAll(pipes), (Ends{{pipe, 0}, {pipe, 80}, {pipe, 180}}));
  EXPECT_EQ(pipes.busy(line), 180) << "without what it did in no time";
  pipes.push(pipe, 50);
  EXPECT_EQ(runAll(pipes, 220), (Ends{{pipe, 280}}));
  pipes.push(pipe, 100);
  EXPECT_EQ(runAll(pipes, 1000), (Ends{{pipe, 1080}})) << "no more than the burst";
}

// A line that is in use does not recover, and none does more at once than the other end can.
TEST(SharedPipes, DoABurstOnlyWhereAllResourcesCan) {
  SharedPipes pipes;
  const int32_t out[] = {pipes.addOrdered(1), pipes.addOrdered(1)}, in = pipes.addResource(1);
  for (const int32_t line : {out[0], out[1], in}) pipes.setBurst(line, 60);
  const int32_t a = pipes.addPipe(0, {out[0], in, -1}), b = pipes.addPipe(0, {out[1], in, -1}),
                core = pipes.addPipe(1, SharedPipes::kNoResources);
  pipes.push(a, 100);
  pipes.push(b, 100);
  pipes.push(core, 100);
  // The receiver does 60 of a's at once and nothing of b's; the 40 that are left of a's share it with b's.
  EXPECT_EQ(runAll(pipes), (Ends{{a, 80}, {core, 100}, {b, 140}}));
}

TEST(SharedPipes, ServeJobsOfNoWorkAtOnce) {
  SharedPipes pipes;
  const int32_t pipe = pipes.addPipe(0, {pipes.addResource(1), -1, -1});
  pipes.push(pipe, 0);
  pipes.push(pipe, 7);
  EXPECT_EQ(runAll(pipes, 5), (Ends{{pipe, 5}, {pipe, 12}}));
}

// Times that are added, changed and taken out at random, beside a sorted set.
TEST(EndQueue, KeepsJobsInTheOrderOfTimesThatChange) {
  constexpr int32_t kJobs = 40;
  std::mt19937 random(3);
  EndQueue queue;
  std::set<std::pair<Picoseconds, int32_t>> sorted;
  std::vector<Picoseconds> time_of(kJobs, SharedPipes::kNever);  // kNever: it is not in the queue
  for (int turn = 0; turn < 20'000; ++turn) {
    const auto job = static_cast<int32_t>(random() % kJobs);
    if (random() % 3 != 0) {
      Picoseconds& time = time_of[static_cast<size_t>(job)];
      sorted.erase({time, job});
      time = random() % 50;
      sorted.insert({time, job});
      queue.set(job, time);
    } else if (!sorted.empty()) {
      time_of[static_cast<size_t>(queue.job())] = SharedPipes::kNever;
      sorted.erase(sorted.begin());
      queue.pop();
    }
    ASSERT_EQ(queue.empty(), sorted.empty());
    if (sorted.empty()) continue;
    ASSERT_EQ(std::pair(queue.time(), queue.job()), *sorted.begin()) << "turn " << turn;
  }
}

}  // namespace
}  // namespace horing
