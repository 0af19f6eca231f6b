#include "comm/tuning/calibration.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/fields.h"
#include "comm/communicator.h"
#include "engine/host/fold.h"

namespace horing {

namespace {

constexpr size_t kSmallBytes = 8;
constexpr int kCalibrationRounds = 3;  // the fastest counts: other work on the machine only adds time
constexpr size_t kMostPairs = 3;       // that are measured for one class of links
constexpr int kAnswers = 9;
// Until a shaper's tokens are there again: 5 KiB at 10 Mbit/s, 50 KiB at 100 Mbit/s.
constexpr int kRestMs = 5;
constexpr int kCalibrationTimes = 2000;
// Large messages in a group have the size of most chunks, which fit into the caches.
constexpr size_t kNearBytes = 256 << 10;

struct Effort {
  size_t large_bytes;
  double round_us;  // the time a round may take; a round is one exchange if the exchange takes longer
  int rests;  // rounds after a rest; 0 where a job waits for it: they would take half as long again on slow links
};
constexpr Effort effortOf(CalibrationEffort effort) {
  return effort == CalibrationEffort::kQuick ? Effort{1 << 20, 1000, 0} : Effort{4 << 20, 50'000, 15};
}

// A number that a rank has measured, for the others.
struct Reading {
  double value = 0;
};
void fields(auto& wire, Is<Reading> auto& reading) {
  auto& [value] = reading;
  wire.numbers(value);
}

double microseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// The ranks a rank sends to and receives from; -1 if it takes no part.
struct Peers {
  int to = -1;
  int from = -1;
};

// Several exchanges with the same peers.
struct Round {
  Peers peers;
  size_t bytes = kSmallBytes;
  int times = 1;
  clockid_t clock = CLOCK_MONOTONIC;
  int at_once = 1;
  int rest_ms = 0;  // of all ranks, before
};

struct Pair {
  int first;
  int second;
};

// At most kMostPairs of the pairs, including the first and the last.
std::vector<Pair> spread(const std::vector<Pair>& all) {
  if (all.size() <= kMostPairs) return all;
  std::vector<Pair> some;
  for (size_t i = 0; i < kMostPairs; ++i) some.push_back(all[i * (all.size() - 1) / (kMostPairs - 1)]);
  return some;
}

// Whether both ranks are bound to the same single core.
bool shareOneCore(const HostIdentity& a, const HostIdentity& b) {
  return a.boot_id == b.boot_id && a.cpus == b.cpus && a.cpus.size() == 1;
}

// Pairs of neighbours in a group. Neighbours that share a core are used only if there are no others.
std::vector<Pair> nearPairs(const Communicator& communicator) {
  const Membership& membership = communicator.membership();
  const GroupMap& map = membership.placement().map();
  std::vector<Pair> apart, all;
  for (int group = 0; group < map.groups(); ++group) {
    const std::span<const int> members = map.members(group);
    for (size_t i = 1; i < members.size(); i += 2) {
      const Pair pair{members[i - 1], members[i]};
      all.push_back(pair);
      if (!shareOneCore(membership.placement().identityOf(pair.first),
                        membership.placement().identityOf(pair.second)))
        apart.push_back(pair);
    }
  }
  return spread(apart.empty() ? all : apart);
}

// In each group, the first rank and the next rank that is bound to the same core, if there is one.
std::vector<Pair> sameCorePairs(const Communicator& communicator) {
  const Membership& membership = communicator.membership();
  std::vector<Pair> pairs;
  const GroupMap& map = membership.placement().map();
  for (int group = 0; group < map.groups(); ++group) {
    const std::span<const int> members = map.members(group);
    for (const int member : members.subspan(1))
      if (shareOneCore(membership.placement().identityOf(members[0]),
                       membership.placement().identityOf(member))) {
        pairs.push_back({members[0], member});
        break;
      }
  }
  return spread(pairs);
}

// Pairs of neighbours in a rail.
std::vector<Pair> farPairs(const GroupMap& map) {
  std::vector<Pair> pairs;
  for (int group = 1; group < map.groups(); ++group)
    for (size_t rail = 0; rail < static_cast<size_t>(map.smallestGroup()); ++rail)
      pairs.push_back({map.members(group - 1)[rail], map.members(group)[rail]});
  return spread(pairs);
}

class Measurement {
 public:
  Measurement(Communicator& communicator, Effort effort)
      : communicator_(communicator),
        map_(communicator.membership().placement().map()),
        me_(communicator.membership().rank()),
        effort_(effort),
        output_(effort.large_bytes),
        input_(effort.large_bytes) {}

  Result<MachineReadings> run();

 private:
  bool mayShareCore(const Pair& pair) const;
  Peers peersIn(const Pair& pair) const;
  Peers nearRing() const;
  Peers farRing() const;
  Peers sharedPairs() const;
  bool hasNear() const { return map_.largestGroup() > 1; }
  bool hasFar() const { return map_.groups() > 1; }

  Status exchange(const Round& round);
  Status readNear(MachineReadings& readings);
  Status readFar(MachineReadings& readings);
  Result<double> time(const Peers& peers, size_t bytes, int at_once = 1);
  Result<double> timeOfEach(const std::vector<Pair>& pairs, size_t bytes, std::string& unequal);
  Result<double> round(const Round& round);
  Result<double> restedTime(const Peers& peers, int at_once);
  Result<double> handlingTime(const Peers& peers, size_t bytes);
  Result<double> answerTime(const Peers& pair, bool lets_block);
  Result<double> wakeTime(const Peers& pair);
  void describeMachine(MachineReadings& readings) const;

  Communicator& communicator_;
  const Membership& membership_ = communicator_.membership();
  const GroupMap& map_;
  const int me_;
  const Effort effort_;
  std::vector<std::byte> output_, input_;
  std::vector<Transfer> transfers_;  // of an exchange
};

Peers Measurement::peersIn(const Pair& pair) const {
  if (me_ == pair.first) return {pair.second, pair.second};
  if (me_ == pair.second) return {pair.first, pair.first};
  return {};
}

Peers Measurement::nearRing() const {
  const std::span<const int> members = map_.members(map_.groupOf(me_));
  const size_t size = members.size(), at = static_cast<size_t>(map_.localIndexOf(me_));
  if (size < 2) return {};
  return {members[(at + 1) % size], members[(at + size - 1) % size]};
}

// A ring along each rail. Ranks of larger groups that have no rail take no part.
Peers Measurement::farRing() const {
  const int rail = map_.localIndexOf(me_), groups = map_.groups(), group = map_.groupOf(me_);
  if (rail >= map_.smallestGroup()) return {};
  const auto at = [&](int other) { return map_.members(other % groups)[static_cast<size_t>(rail)]; };
  return {at(group + 1), at(group + groups - 1)};
}

Peers Measurement::sharedPairs() const {
  const int rail = map_.localIndexOf(me_), group = map_.groupOf(me_);
  if (group > 1 || rail >= std::min(map_.groupSize(0), map_.groupSize(1))) return {};
  const int peer = map_.members(1 - group)[static_cast<size_t>(rail)];
  return {peer, peer};
}

Status Measurement::exchange(const Round& round) {
  const Transfer receive{
      .kind = Transfer::Receive{input_.data()}, .peer = round.peers.from, .bytes = round.bytes};
  const Transfer send{.kind = Transfer::Send{output_.data()}, .peer = round.peers.to, .bytes = round.bytes};
  // Without an allocation, which would count as a part of the exchange.
  transfers_.clear();
  for (int i = 0; i < round.at_once; ++i) transfers_.insert(transfers_.end(), {receive, send});
  return communicator_.messages().exchange(transfers_);
}

// The time of an exchange or of a burst, by the round's clock.
Result<double> Measurement::round(const Round& round) {
  if (round.peers.to < 0) return mostOfAll(communicator_, 0);
  if (round.rest_ms > 0) ::poll(nullptr, 0, round.rest_ms);
  HORING_TRY(exchange({round.peers}));  // waits until all peers are here
  const double begun = microseconds(round.clock);
  for (int i = 0; i < round.times; ++i) HORING_TRY(exchange(round));
  return mostOfAll(communicator_, (microseconds(round.clock) - begun) / round.times);
}

// The first round makes the links and lets them settle; the second determines the length of the others.
Result<double> Measurement::time(const Peers& peers, size_t bytes, int at_once) {
  const bool is_far = peers.to >= 0 && map_.groupOf(peers.to) != map_.groupOf(me_);
  HORING_TRY(round({.peers = peers, .times = is_far ? kSettlingTimes : 1}).status());
  Round repeated{.peers = peers, .bytes = bytes, .at_once = at_once};
  HORING_ASSIGN(double best_us, round(repeated));
  repeated.times =
      static_cast<int>(std::clamp(effort_.round_us / std::max(best_us, 0.1), 1.0, double{kCalibrationTimes}));
  for (int i = 0; i < kCalibrationRounds; ++i) {
    HORING_ASSIGN(const double us, round(repeated));
    best_us = std::min(best_us, us);
  }
  return best_us;
}

bool Measurement::mayShareCore(const Pair& pair) const {
  const std::string& boot_id = membership_.placement().identityOf(pair.first).boot_id;
  return boot_id == membership_.placement().identityOf(pair.second).boot_id &&
         membership_.placement().kernels().at(boot_id).shares_cores;
}

// Measures one pair after the other, while all other ranks sleep. A pair that may have shared a core is slower for that reason; its link is
// taken to be like the others.
Result<double> Measurement::timeOfEach(const std::vector<Pair>& pairs, size_t bytes, std::string& unequal) {
  std::vector<PairTime> times;
  bool may_share_core = false;
  for (const Pair& pair : pairs) {
    HORING_ASSIGN(const double us, time(peersIn(pair), bytes));
    times.push_back({us, pair.first, pair.second});
    may_share_core = may_share_core || mayShareCore(pair);
  }
  const TimeOfPairs time = timeOfPairs(std::move(times));
  if (may_share_core) return time.median_us;
  if (!time.unequal.empty()) unequal += formatString("%zu bytes: %s\n", bytes, time.unequal.c_str());
  return time.us;
}

Result<double> Measurement::restedTime(const Peers& peers, int at_once) {
  double best_us = std::numeric_limits<double>::max();
  for (int i = 0; i < effort_.rests; ++i) {
    HORING_ASSIGN(const double us,
                  round({.peers = peers, .bytes = kRestedBytes, .at_once = at_once, .rest_ms = kRestMs}));
    best_us = std::min(best_us, us);
  }
  return best_us;
}

// The time of a core per exchange. A rank that spins while it waits would use the core all the time, so the ranks block.
Result<double> Measurement::handlingTime(const Peers& peers, size_t bytes) {
  const Choices before = communicator_.choices();
  Choices blocking = before;
  blocking.wait = {};
  communicator_.choose(std::move(blocking));
  const Result<double> us = round({peers, bytes, 2, CLOCK_THREAD_CPUTIME_ID});
  communicator_.choose(before);
  return us;
}

// The median time the second rank of a pair takes to answer: without a pause, or after it has waited so long that it has blocked.
Result<double> Measurement::answerTime(const Peers& pair, bool lets_block) {
  const WaitPolicy policy = communicator_.choices().wait;
  const int pause_ms = lets_block ? static_cast<int>((policy.spin_ns + policy.yield_ns) / 1'000'000) + 2 : 0;
  const bool asks = pair.to > me_;
  std::array<double, kAnswers> times{};
  std::byte word{};
  const Transfer send{.kind = Transfer::Send{&word}, .peer = pair.to, .bytes = 1};
  const Transfer receive{.kind = Transfer::Receive{&word}, .peer = pair.to, .bytes = 1};
  for (size_t i = 0; i < times.size() && pair.to >= 0; ++i) {
    if (asks && pause_ms > 0) ::poll(nullptr, 0, pause_ms);
    const double begun = microseconds(CLOCK_MONOTONIC);
    HORING_TRY(communicator_.messages().exchange({asks ? &send : &receive, 1}));
    HORING_TRY(communicator_.messages().exchange({asks ? &receive : &send, 1}));
    times[i] = microseconds(CLOCK_MONOTONIC) - begun;
  }
  std::nth_element(times.begin(), times.begin() + kAnswers / 2, times.end());
  return mostOfAll(communicator_, asks ? times[kAnswers / 2] : 0);
}

Result<double> Measurement::wakeTime(const Peers& pair) {
  HORING_ASSIGN(const double awake_us, answerTime(pair, false));
  HORING_ASSIGN(const double asleep_us, answerTime(pair, true));
  return std::max(asleep_us - awake_us, 0.0);
}

Status Measurement::readNear(MachineReadings& readings) {
  const std::vector<Pair> pairs = nearPairs(communicator_);
  HORING_ASSIGN(readings.near_small_us, timeOfEach(pairs, kSmallBytes, readings.unequal));
  HORING_ASSIGN(readings.near_large_us, timeOfEach(pairs, readings.near_bytes, readings.unequal));
  if (const std::vector<Pair> same_core = sameCorePairs(communicator_); !same_core.empty()) {
    HORING_ASSIGN(readings.same_core_small_us, timeOfEach(same_core, kSmallBytes, readings.unequal));
    HORING_ASSIGN(readings.same_core_large_us, timeOfEach(same_core, readings.near_bytes, readings.unequal));
  }
  HORING_ASSIGN(readings.near_burst_us, time(peersIn(pairs[0]), kSmallBytes, kBurst));
  HORING_ASSIGN(readings.near_crowd_us, time(nearRing(), kSmallBytes));
  HORING_ASSIGN(readings.wake_us, wakeTime(peersIn(pairs[0])));
  return {};
}

Status Measurement::readFar(MachineReadings& readings) {
  const std::vector<Pair> pairs = farPairs(map_);
  HORING_ASSIGN(readings.far_small_us, timeOfEach(pairs, kSmallBytes, readings.unequal));
  HORING_ASSIGN(readings.far_large_us, timeOfEach(pairs, readings.large_bytes, readings.unequal));
  HORING_ASSIGN(readings.far_burst_us, time(peersIn(pairs[0]), kSmallBytes, kBurst));
  if (effort_.rests > 0) {
    HORING_ASSIGN(readings.far_rested_us, restedTime(peersIn(pairs[0]), 1));
    HORING_ASSIGN(readings.far_rested_more_us, restedTime(peersIn(pairs[0]), kRestedAtOnce));
  }
  HORING_ASSIGN(readings.far_handling_us, handlingTime(peersIn(pairs[0]), readings.large_bytes));
  HORING_ASSIGN(readings.far_crowd_us, time(farRing(), kSmallBytes));
  readings.sharing = std::min(map_.groupSize(0), map_.groupSize(1));
  if (readings.sharing > 1) {
    HORING_ASSIGN(readings.far_shared_us, time(sharedPairs(), readings.large_bytes));
  }
  // Most long waits are for messages from another group.
  HORING_ASSIGN(readings.wake_us, wakeTime(peersIn(pairs[0])));
  return {};
}

double foldRate() {
  std::vector<float> a(kNearBytes / sizeof(float), 1), b(a.size(), 2);
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(a.data()),
                                reinterpret_cast<const std::byte*>(b.data())};
  std::byte* const destination = reinterpret_cast<std::byte*>(b.data());
  FoldArguments fold;
  fold.sources = sources;
  fold.source_count = 2;
  fold.destinations = &destination;
  fold.destination_count = 1;
  fold.count = a.size();
  const FoldFunction function = foldFunction(DataType::kFloat32, RedOp::kSum, detectSimd());
  double best_us = 1e9;
  for (int i = 0; i < 2 * kCalibrationRounds; ++i) {
    const double begun = microseconds(CLOCK_MONOTONIC);
    function(fold);
    best_us = std::min(best_us, microseconds(CLOCK_MONOTONIC) - begun);
  }
  return static_cast<double>(kNearBytes) / std::max(best_us, 0.001) / 1000;
}

void Measurement::describeMachine(MachineReadings& readings) const {
  readings.groups = map_.groups();
  readings.members = map_.largestGroup();
  readings.large_bytes = effort_.large_bytes;
  readings.near_bytes = kNearBytes;
  const WaitPolicy policy = communicator_.choices().wait;
  readings.patience_us = static_cast<double>(policy.spin_ns + policy.yield_ns) / 1000;
  const auto kernels = membership_.placement().kernels();
  int32_t least_cores = INT32_MAX;
  for (const auto& [boot_id, load] : kernels) least_cores = std::min(least_cores, load.cores);
  readings.cores = least_cores;
  readings.cores_of = kernels.size() == 1 && map_.groups() > 1 ? Owner::kMachine : Owner::kNode;
}

Result<MachineReadings> Measurement::run() {
  MachineReadings readings;
  describeMachine(readings);
  if (hasNear()) HORING_TRY(readNear(readings));
  if (hasFar()) HORING_TRY(readFar(readings));
  if (me_ == 0) readings.fold_gbytes_per_s = foldRate();
  return readings;
}

}  // namespace

Result<Calibration> calibrate(Communicator& communicator, CalibrationEffort effort) {
  Calibration calibration;
  HORING_ASSIGN(calibration.readings, Measurement(communicator, effortOf(effort)).run());
  HORING_ASSIGN(calibration.machine, shareMachine(communicator, fitMachine(calibration.readings)));
  return calibration;
}

Result<std::vector<double>> numbersOfAll(Communicator& communicator, double mine) {
  HORING_ASSIGN(const auto all,
                communicator.allGather(encodeFields(Reading{mine}), "a measurement of the machine"));
  std::vector<double> numbers(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    Reading theirs;
    if (!decodeFields(all[rank], theirs))
      return makeStatus(Code::kRemoteError, "rank %zu measures something else: it sent %zu bytes", rank,
                        all[rank].size());
    numbers[rank] = theirs.value;
  }
  return numbers;
}

Result<double> mostOfAll(Communicator& communicator, double mine) {
  HORING_ASSIGN(const std::vector<double> all, numbersOfAll(communicator, mine));
  return std::max(0.0, *std::max_element(all.begin(), all.end()));
}

Result<MachineModel> shareMachine(Communicator& communicator, const Result<MachineModel>& mine) {
  const std::string text = communicator.membership().rank() != 0 ? ""
                           : mine.ok()                           ? describeMachine(mine.value())
                                                                 : "!" + mine.status().message();
  HORING_ASSIGN(const auto all, communicator.allGather(std::as_bytes(std::span(text))));
  const std::string_view first(reinterpret_cast<const char*>(all[0].data()), all[0].size());
  if (first.starts_with('!'))
    return makeStatus(Code::kInvalidArgument, "rank 0: %.*s", static_cast<int>(first.size()) - 1,
                      first.data() + 1);
  return parseMachine(first, "the machine that rank 0 described");
}

}  // namespace horing
