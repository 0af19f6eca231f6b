#include "sim/shared_pipes.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(SharedPipes, LeaveToOthersWhatTheyCannotUseOfAFairResource) {
  SharedPipes pipes;
  const int32_t slow = pipes.addOrdered(4), fast = pipes.addOrdered(1), in = pipes.addFair(1);
  const int32_t held = pipes.addPipe(0, {slow, in, -1}), other = pipes.addPipe(0, {fast, in, -1});
  pipes.push(held, 100);
  pipes.push(other, 150);
  EXPECT_EQ(runAll(pipes), (Ends{{other, 200}, {held, 400}}));
}

// The sender of one of two pipes begins with another job, which halves what it gives to the first.
TEST(SharedPipes, ChangeSharesOfAFairResourceWithWhatTheyGetElsewhere) {
  SharedPipes pipes;
  const int32_t one = pipes.addResource(1), two = pipes.addResource(1), in = pipes.addFair(1);
  const int32_t first = pipes.addPipe(0, {one, in, -1}), second = pipes.addPipe(0, {two, in, -1});
  const int32_t beside[] = {pipes.addPipe(0, {one, -1, -1}), pipes.addPipe(0, {one, -1, -1}),
                            pipes.addPipe(0, {one, -1, -1})};
  pipes.push(first, 300);
  pipes.push(second, 700);
  pipes.settle(0);
  EXPECT_EQ(pipes.nextEnd(), 600);
  for (const int32_t pipe : beside) pipes.push(pipe, 100);
  // From 200 on `first` has a quarter and `second` three quarters, and from 600 on a half each.
  EXPECT_EQ(runAll(pipes, 200),
            (Ends{{beside[0], 600}, {beside[1], 600}, {beside[2], 600}, {first, 800}, {second, 1000}}));
}

// When the jobs of pipes would end if each had the rate that grows with all others until a resource of its own is used up.
std::vector<double> endsByFilling(const std::vector<double>& costs,
                                  const std::vector<SharedPipes::Resources>& used, std::vector<double> left) {
  std::vector<double> ends(used.size(), 0);
  const auto uses = [&](size_t pipe, size_t resource) {
    return std::count(used[pipe].begin(), used[pipe].end(), static_cast<int32_t>(resource)) > 0;
  };
  for (double now = 0; std::any_of(left.begin(), left.end(), [](double work) { return work > 0; });) {
    std::vector<double> rates(used.size(), 0);
    std::vector<bool> is_fixed(used.size());
    for (size_t p = 0; p < used.size(); ++p) is_fixed[p] = left[p] <= 0;
    while (std::count(is_fixed.begin(), is_fixed.end(), false) > 0) {
      double least = 1e300;
      size_t full = 0;
      for (size_t r = 0; r < costs.size(); ++r) {
        double rest = 1 / costs[r], users = 0;
        for (size_t p = 0; p < used.size(); ++p)
          if (uses(p, r)) is_fixed[p] ? rest -= rates[p] : users += 1;
        if (users > 0 && rest / users < least) {
          least = rest / users;
          full = r;
        }
      }
      for (size_t p = 0; p < used.size(); ++p)
        if (!is_fixed[p] && uses(p, full)) {
          rates[p] = least;
          is_fixed[p] = true;
        }
    }
    double step = 1e300;
    for (size_t p = 0; p < used.size(); ++p)
      if (left[p] > 0) step = std::min(step, left[p] / rates[p]);
    now += step;
    for (size_t p = 0; p < used.size(); ++p) {
      if (left[p] <= 0) continue;
      left[p] -= rates[p] * step;
      if (left[p] > 1e-6) continue;
      left[p] = 0;
      ends[p] = now;
    }
  }
  return ends;
}

// Each pipe has a line of its own, and shares one of several receivers.
TEST(SharedPipes, ShareFairResourcesAsProgressiveFillingDoes) {
  std::mt19937 random(7);
  const auto below = [&](size_t count) { return static_cast<int32_t>(random() % count); };
  for (int turn = 0; turn < 200; ++turn) {
    SharedPipes pipes;
    std::vector<double> costs, work;
    const int32_t receivers = 1 + below(4);
    for (int32_t i = 0; i < receivers; ++i) {
      costs.push_back(1 << below(4));
      pipes.addFair(costs.back());
    }
    std::vector<SharedPipes::Resources> used;
    for (int32_t i = 1 + below(20); i > 0; --i) {
      costs.push_back(1 << below(6));
      used.push_back({pipes.addResource(costs.back()), below(static_cast<size_t>(receivers)), -1});
      work.push_back(1'000'000 + below(100'000'000));
      pipes.push(pipes.addPipe(0, used.back()), work.back());
    }
    const std::vector<double> expected = endsByFilling(costs, used, work);
    for (const auto& [pipe, end] : runAll(pipes))
      ASSERT_NEAR(static_cast<double>(end), expected[static_cast<size_t>(pipe)], 100) << "turn " << turn;
  }
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
