// The cost of the interpreter: the schedule "ring" run by engine/host, compared with the same ring written by hand (hand_ring.h).
//
//   build/release/bin/interpreter_bench [ROUNDS [LARGEST_KIB]]     default 21 rounds, up to 16384 KiB
//
// Both use the same links (loopback), slots, slices and kernels, and take turns round by round. "2 threads": two ranks,
// pinned to CPUs 0 and 1. "1 thread": one thread polls four ranks in turn, and its CPU time counts, so the figure contains no scheduling
// and no waiting. Times are medians of one operation. The ratio is the median of the ratios of single rounds, since both times of a round
// are measured under the same load. Exit code 1 when a result is wrong.
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "algorithms/catalogue.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/pause.h"
#include "engine/host/operation.h"
#include "hand_ring.h"
#include "transport/loopback/loopback_transport.h"

namespace horing {
namespace {

constexpr double kGoal = 1.03;
constexpr std::array<size_t, 7> kSizes = {8u << 10, 32u << 10, 128u << 10, 512u << 10,
                                          2u << 20, 8u << 20,  16u << 20};
constexpr std::array<Collective, 3> kAllCollectives = {Collective::kAllReduce, Collective::kReduceScatter,
                                                       Collective::kAllGather};
// A round moves about this much, so that it is long beside the clock and short beside the machine's moods.
constexpr size_t kBytesOfRound = 16u << 20;
constexpr size_t kMostCallsOfRound = 1000;

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "interpreter_bench: %s\n", what.c_str());
  std::exit(1);
}

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Buffer = std::unique_ptr<std::byte, FreeBytes>;

Buffer makeBuffer(size_t bytes) {
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
  if (!buffer) die("out of memory");
  std::fill_n(buffer.get(), bytes, std::byte{0});  // touched
  return buffer;
}

// Ranks 0 .. n-1 over loopback, each linked to the next one; the library's default slots, slices and window.
class Ring {
 public:
  explicit Ring(int32_t ranks) : ranks_(ranks) {
    Result<Config> config = Config::fromLookup([](const char*) -> const char* { return nullptr; });
    Result<std::shared_ptr<LoopbackHub>> hub = LoopbackHub::create(ranks);
    if (!config.ok() || !hub.ok()) die("no loopback hub: " + hub.status().toString());
    window_ = static_cast<int32_t>(config.value().window);
    shape_ = {kLinkChannels, static_cast<uint32_t>(config.value().slots),
              static_cast<uint32_t>(config.value().slice_bytes)};
    for (int32_t rank = 0; rank < ranks; ++rank) {
      transports_.push_back(makeLoopbackTransport(hub.value(), rank).take());
      rank_of_position_.push_back(rank);
    }
    connect();
  }

  int32_t ranks() const { return ranks_; }
  int32_t window() const { return window_; }
  const LinkShape& shape() const { return shape_; }
  const int32_t* rankOfPosition() const { return rank_of_position_.data(); }
  Link& link(int32_t rank, int32_t peer) { return *links_[static_cast<size_t>(rank * ranks_ + peer)]; }

 private:
  void connect() {
    links_.resize(static_cast<size_t>(ranks_ * ranks_));
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      for (int32_t peer = 0; peer < ranks_; ++peer) {
        if (peer == rank) continue;
        links_[static_cast<size_t>(rank * ranks_ + peer)] =
            transports_[static_cast<size_t>(rank)]
                ->connect(peer, transports_[static_cast<size_t>(peer)]->address(), shape_)
                .take();
      }
    }
    for (auto& transport : transports_)
      if (const Status status = transport->progress(); !status.ok()) die(status.toString());
  }

  int32_t ranks_;
  int32_t window_ = 0;
  LinkShape shape_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<Link*> links_;  // [rank * ranks + peer]
  std::vector<int32_t> rank_of_position_;
};

struct RingPosition final : ConnectionSource {
  RingPosition(Ring& r, int32_t me) : ring(r), rank(me) {}
  Sender& sender(int32_t position, int channel) override { return ring.link(rank, position).sender(channel); }
  Receiver& receiver(int32_t position, int channel) override {
    return ring.link(rank, position).receiver(channel);
  }
  int32_t rankOf(int32_t position) const override { return position; }
  Ring& ring;
  int32_t rank;
};

// Small whole numbers, so that sums are exact.
float inputValue(int32_t rank, size_t element) {
  return static_cast<float>(element % 61 + static_cast<size_t>(rank));
}

// One rank with both contestants and its buffers.
struct Rank {
  Rank(Ring& ring, Collective collective, int32_t me, size_t bytes) {
    RingPosition connections(ring, me);
    Result<Schedule> schedule = buildSchedule("ring", collective, {1, ring.ranks()}, me);
    if (!schedule.ok()) die(schedule.status().toString());
    const PlanSettings settings{ring.window(), ring.shape().slot_bytes, detectSimd()};
    plan = std::make_unique<Plan>(schedule.take(), settings, connections);
    interpreter = std::make_unique<HostOperation>(*plan, ring.rankOfPosition());
    Link& next = ring.link(me, (me + 1) % ring.ranks());
    Link& previous = ring.link(me, (me + ring.ranks() - 1) % ring.ranks());
    const int gather = collective == Collective::kAllReduce ? 1 : 0;
    by_hand = std::make_unique<HandRing>(
        HandRingSettings{collective, ring.ranks(), me, ring.window(), ring.shape().slot_bytes, detectSimd()},
        ring.rankOfPosition(),
        RingConnections{&next.sender(0), &previous.receiver(0), &next.sender(gather),
                        &previous.receiver(gather)});
    input = makeBuffer(bytes);
    output = makeBuffer(bytes);
    call.collective = collective;
    call.input = input.get();
    call.output = output.get();
    call.count = bytes / sizeof(float);
    if (collective != Collective::kAllReduce) call.count /= static_cast<size_t>(ring.ranks());
    auto* values = reinterpret_cast<float*>(input.get());
    for (size_t e = 0; e < bytes / sizeof(float); ++e) values[e] = inputValue(me, e);
  }

  std::unique_ptr<Plan> plan;
  std::unique_ptr<HostOperation> interpreter;
  std::unique_ptr<HandRing> by_hand;
  Buffer input, output;
  Call call;
  uint64_t sequence = 0;
};
using Ranks = std::vector<std::unique_ptr<Rank>>;

size_t wrongElements(const Ranks& ranks, Collective collective) {
  const size_t n = ranks.size(), count = ranks[0]->call.count;
  size_t wrong = 0;
  for (size_t me = 0; me < n; ++me) {
    const auto* values = reinterpret_cast<const float*>(ranks[me]->output.get());
    const size_t elements = collective == Collective::kAllGather ? count * n : count;
    for (size_t e = 0; e < elements; ++e) {
      const size_t at = collective == Collective::kReduceScatter ? me * count + e : e;
      const float sum = static_cast<float>(n * (at % 61) + n * (n - 1) / 2);
      const bool gathers = collective == Collective::kAllGather;
      wrong += values[e] != (gathers ? inputValue(static_cast<int32_t>(e / count), e % count) : sum);
    }
  }
  return wrong;
}

// `calls` operations of every rank, one after the other, in this thread.
template <typename Operation>
void callInTurn(const Ranks& ranks, std::unique_ptr<Operation> Rank::*contestant, size_t calls) {
  for (size_t i = 0; i < calls; ++i) {
    for (const auto& rank : ranks) {
      ((*rank).*contestant)->begin(rank->call, ++rank->sequence);
    }
    for (bool done = false, progressed = true; !done; progressed = false) {
      done = true;
      for (const auto& rank : ranks) {
        Operation& operation = *((*rank).*contestant);
        progressed = operation.poll() || progressed;
        done = operation.done() && done;
      }
      if (!progressed && !done) die("no rank makes progress any more");
    }
  }
}

// The same for one rank, while its peers do so in other threads.
template <typename Operation>
void callAlone(Rank& rank, std::unique_ptr<Operation> Rank::*contestant, size_t calls) {
  Operation& operation = *(rank.*contestant);
  for (size_t i = 0; i < calls; ++i) {
    for (operation.begin(rank.call, ++rank.sequence);;) {
      const bool progressed = operation.poll();
      if (operation.done()) break;
      if (!progressed) pauseCore();
    }
  }
}

// Two threads meet by spinning; each has a core.
class Meeting {
 public:
  void meet(int end) {
    // release and acquire: what either did before, the other sees after.
    const uint64_t turn = turns_[end].value.fetch_add(1, std::memory_order_release) + 1;
    while (turns_[1 - end].value.load(std::memory_order_acquire) < turn) pauseCore();
  }

 private:
  struct alignas(128) Turn {
    std::atomic<uint64_t> value{0};  // written by its end only
  };
  std::array<Turn, 2> turns_;
};

// Nanoseconds of each round.
struct Rounds {
  std::vector<double> interpreter_ns, by_hand_ns;
};

using TimedRound = std::function<double(bool interpreter)>;

// Who goes first alternates, so that neither always finds the caches of the other.
Rounds takeTurns(int rounds, const TimedRound& timed) {
  Rounds result;
  for (int round = 0; round < rounds; ++round) {
    for (int half = 0; half < 2; ++half) {
      const bool interpreter = (round + half) % 2 == 0;
      (interpreter ? result.interpreter_ns : result.by_hand_ns).push_back(timed(interpreter));
    }
  }
  return result;
}

// CPU time of this thread: other threads do not count.
class ThreadClock final : public Clock {
 public:
  int64_t nowNs() const override {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
  }
};

Rounds contestOfOneThread(const Ranks& ranks, int rounds, size_t calls) {
  const ThreadClock clock;
  return takeTurns(rounds, [&](bool interpreter) {
    const int64_t begun_ns = clock.nowNs();
    if (interpreter)
      callInTurn(ranks, &Rank::interpreter, calls);
    else
      callInTurn(ranks, &Rank::by_hand, calls);
    return static_cast<double>(clock.nowNs() - begun_ns);
  });
}

bool hasCpus(int one, int other) {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_ISSET(one, &set) && CPU_ISSET(other, &set);
}

void pinToCpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  if (::pthread_setaffinity_np(::pthread_self(), sizeof set, &set) != 0)
    std::fprintf(stderr, "interpreter_bench: could not pin to CPU %d, figures will scatter\n", cpu);
}

Rounds contestOfTwoThreads(const Ranks& ranks, int rounds, size_t calls) {
  Meeting meeting;
  std::array<Rounds, 2> results;
  const auto run = [&](int end) {
    pinToCpu(end);
    const SteadyClock clock;
    Rank& rank = *ranks[static_cast<size_t>(end)];
    results[static_cast<size_t>(end)] = takeTurns(rounds, [&](bool interpreter) {
      meeting.meet(end);
      const int64_t begun_ns = clock.nowNs();
      if (interpreter)
        callAlone(rank, &Rank::interpreter, calls);
      else
        callAlone(rank, &Rank::by_hand, calls);
      meeting.meet(end);
      return static_cast<double>(clock.nowNs() - begun_ns);
    });
  };
  std::thread other(run, 1), one(run, 0);
  one.join();
  other.join();
  return results[0];
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double medianRatio(const Rounds& rounds) {
  std::vector<double> ratios;
  for (size_t i = 0; i < rounds.interpreter_ns.size(); ++i)
    ratios.push_back(rounds.interpreter_ns[i] / rounds.by_hand_ns[i]);
  return median(ratios);
}

// Each contestant once, over outputs that hold nothing right: warms up, and proves that both do the job.
void proveBoth(const Ranks& ranks, Collective collective, size_t bytes) {
  for (const bool interpreter : {true, false}) {
    for (const auto& rank : ranks) std::fill_n(rank->output.get(), bytes, std::byte{0xff});
    if (interpreter)
      callInTurn(ranks, &Rank::interpreter, 1);
    else
      callInTurn(ranks, &Rank::by_hand, 1);
    if (const size_t wrong = wrongElements(ranks, collective); wrong != 0)
      die(formatString("%s, %zu bytes, %s: %zu elements are wrong", collectiveName(collective), bytes,
                       interpreter ? "interpreter" : "by hand", wrong));
  }
}

enum class Manner { kOneThread, kTwoThreads };

// The ratio of all-reduce that is worst.
double measure(Manner manner, int32_t ranks, int rounds, size_t largest) {
  const bool threads = manner == Manner::kTwoThreads;
  Ring ring(ranks);
  double worst = 0;
  for (const Collective collective : kAllCollectives) {
    for (const size_t bytes : kSizes) {
      if (bytes > largest) break;
      Ranks all;
      for (int32_t rank = 0; rank < ranks; ++rank)
        all.push_back(std::make_unique<Rank>(ring, collective, rank, bytes));
      proveBoth(all, collective, bytes);
      const size_t calls = std::clamp<size_t>(kBytesOfRound / bytes, 1, kMostCallsOfRound);
      const Rounds times = (threads ? contestOfTwoThreads : contestOfOneThread)(all, rounds, calls);
      const double ratio = medianRatio(times), per_call_us = 1e-3 / static_cast<double>(calls);
      std::printf("%-9s %5d  %-14s %8zu  %12.2f %12.2f   %6.3f\n", threads ? "2 threads" : "1 thread", ranks,
                  collectiveName(collective), bytes >> 10, median(times.interpreter_ns) * per_call_us,
                  median(times.by_hand_ns) * per_call_us, ratio);
      std::fflush(stdout);
      if (collective == Collective::kAllReduce) worst = std::max(worst, ratio);
    }
  }
  return worst;
}

int run(int rounds, size_t largest) {
  std::printf("           ranks  collective          KiB  interp. (us) by hand (us)   ratio\n");
  double alone = 0;
  for (const int32_t ranks : {2, 4})
    alone = std::max(alone, measure(Manner::kOneThread, ranks, rounds, largest));
  std::printf("worst ratio of all-reduce, 1 thread: %.3f (goal: at most %.2f)\n", alone, kGoal);
  if (!hasCpus(0, 1)) {
    std::printf("2 threads left out: CPUs 0 and 1 are not available\n");
    return 0;
  }
  const double together = measure(Manner::kTwoThreads, 2, rounds, largest);
  std::printf("worst ratio of all-reduce, 2 threads: %.3f (goal: at most %.2f)\n", together, kGoal);
  return 0;
}

}  // namespace
}  // namespace horing

int main(int argc, char** argv) {
  ::alarm(900);  // bounds every wait
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  const int largest_kib = argc > 2 ? std::atoi(argv[2]) : 16384;
  if (rounds < 1 || largest_kib < 1) {
    std::fprintf(stderr, "usage: interpreter_bench [ROUNDS [LARGEST_KIB]]\n");
    return 2;
  }
  return horing::run(rounds, static_cast<size_t>(largest_kib) << 10);
}
