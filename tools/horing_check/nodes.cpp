#include "horing_check/nodes.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "base/printable.h"
#include "horing_check/node_port.h"
#include "horing_check/pair_meter.h"

namespace horing::check {

namespace {

constexpr size_t kMostTextBytes = 1 << 16;
constexpr size_t kMostRailLetters = 64;
// So many the first alone can serve, and each node call.
constexpr int kMostRanksAtFirst = 512, kMostNodesCalled = 256;
// Of a connection. A lost first packet is sent again after one second, and after three.
constexpr int kMostMsToConnect = 4000;
// Of the time, for each of two tries.
constexpr int kShareToConnect = 8;
constexpr std::chrono::milliseconds kOthersWaitLonger{500};
// Of the library, whose default is the least.
constexpr int kBeatsOfSilence = 7, kLeastBeatMs = 500, kMostBeatMs = 1500;
// Between two ranks of a node. The best turn counts.
constexpr double kNeighbourSlotSeconds = 0.04;
constexpr int kNeighbourTurns = 3;

struct Place {
  int32_t group = 0;
  char host[64] = "";

  bool operator==(const Place& other) const {
    return group == other.group && std::strcmp(host, other.host) == 0;
  }
};

Result<std::vector<char>> gatherOver(horingComm_t comm, int ranks, const void* value, size_t bytes) {
  std::vector<char> all(bytes * static_cast<size_t>(ranks));
  HORING_TRY(called(horingAllGather(value, all.data(), bytes, horingUint8, comm, nullptr), "gathering"));
  return all;
}

// The same by messages of `members` with the first of them alone: others may not reach each other.
Result<std::vector<char>> gatherAtFirst(horingComm_t comm, const std::vector<int>& members, int rank,
                                        const void* value, size_t bytes) {
  const int first = members.front();
  std::vector<char> all(bytes * members.size());
  if (rank == first) std::memcpy(all.data(), value, bytes);
  const auto send = [&](const void* from, size_t count, int to) {
    return horingSend(from, count, horingUint8, to, comm, nullptr);
  };
  const auto receive = [&](char* to, size_t count, int from) {
    return horingRecv(to, count, horingUint8, from, comm, nullptr);
  };
  for (const bool gathers : {true, false}) {
    HORING_TRY(called(horingGroupStart(), "gathering"));
    horingResult_t result = horingSuccess;
    for (size_t i = 1; rank == first && i < members.size() && result == horingSuccess; ++i)
      result = gathers ? receive(all.data() + bytes * i, bytes, members[i])
                       : send(all.data(), all.size(), members[i]);
    if (rank != first) result = gathers ? send(value, bytes, first) : receive(all.data(), all.size(), first);
    const Status moved = called(horingGroupEnd(), "gathering");
    HORING_TRY(called(result, "gathering"));
    HORING_TRY(moved);
  }
  return all;
}

Result<std::vector<Place>> gatherPlaces(horingComm_t comm, int rank, int ranks) {
  Place mine;
  int local = 0;
  HORING_TRY(called(horingCommGroup(comm, rank, &mine.group, &local), "horingCommGroup"));
  (void)gethostname(mine.host, sizeof mine.host - 1);
  std::vector<int> members(static_cast<size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  HORING_ASSIGN(const std::vector<char> bytes, ranks > kMostRanksAtFirst
                                                   ? gatherOver(comm, ranks, &mine, sizeof mine)
                                                   : gatherAtFirst(comm, members, rank, &mine, sizeof mine));
  std::vector<Place> places(static_cast<size_t>(ranks));
  std::memcpy(places.data(), bytes.data(), bytes.size());
  for (Place& place : places) place.host[sizeof place.host - 1] = '\0';
  return places;
}

// The first rank of each pair of group and host: a group may have several hosts, and a host may be configured as several groups.
std::vector<int> leadersOf(const std::vector<Place>& places) {
  std::set<std::pair<int, std::string>> seen;
  std::vector<int> leaders;
  for (size_t rank = 0; rank < places.size(); ++rank)
    if (seen.emplace(places[rank].group, places[rank].host).second) leaders.push_back(static_cast<int>(rank));
  return leaders;
}

// Collective over all ranks, of which the first two of each node measure: the rate from the second to the first, on the first.
Result<double> rateBetweenNeighbours(horingComm_t comm, int rank, const std::vector<Place>& places) {
  std::vector<int> ranks;  // of this node
  for (size_t other = 0; other < places.size(); ++other)
    if (places[other] == places[static_cast<size_t>(rank)]) ranks.push_back(static_cast<int>(other));
  if (ranks.size() < 2 || rank > ranks[1]) return 0;
  PairMeter meter(comm, rank);
  double best = 0;
  for (int turn = 0; turn < kNeighbourTurns; ++turn) {
    HORING_ASSIGN(const Reading reading,
                  meter.measure(ranks[rank == ranks[0] ? 1 : 0], kNeighbourSlotSeconds));
    best = std::max(best, reading.bytes_per_s);
  }
  return best;
}

std::vector<std::string> namesOf(const std::vector<Place>& places, const std::vector<int>& leaders) {
  std::map<std::string, int> count;
  for (const int rank : leaders) ++count[places[static_cast<size_t>(rank)].host];
  std::vector<std::string> names;
  for (const int rank : leaders) {
    const Place& place = places[static_cast<size_t>(rank)];
    names.push_back(printable(place.host, sizeof place.host) +
                    (count[place.host] > 1 ? "/" + std::to_string(place.group) : ""));
  }
  return names;
}

Status limitNewCommunicators(int timeout_ms) {
  const std::string limit = std::to_string(timeout_ms);
  for (const char* const name : {"HORING_INIT_TIMEOUT_MS", "HORING_TIMEOUT_MS"})
    HORING_TRY(called(horingSetDefault(name, limit.c_str()), name));
  return {};
}

}  // namespace

int waitMsUntil(std::chrono::steady_clock::time_point end) {
  const std::chrono::duration<double, std::milli> left = end - std::chrono::steady_clock::now();
  return std::max(static_cast<int>(left.count()), kLeastWaitMs);
}

Status called(horingResult_t result, const char* what) {
  if (result == horingSuccess) return {};
  return makeStatus(static_cast<Code>(result), "%s: %s", what, horingGetLastError(nullptr));
}

Result<Nodes> Nodes::meet(int timeout_ms, TimeLimit& time_limit) {
  // Defaults, unless the environment sets them: no calibration besides this program, and no wait beyond its time.
  HORING_TRY(called(horingSetDefault("HORING_CALIBRATE", "0"), "HORING_CALIBRATE"));
  HORING_TRY(limitNewCommunicators(timeout_ms));
  // A node on a busy machine may be silent for seconds. A lost one is noticed within a quarter of the time, or 10 s.
  const int beat_ms = std::clamp(timeout_ms / (4 * kBeatsOfSilence), kLeastBeatMs, kMostBeatMs);
  HORING_TRY(called(horingSetDefault("HORING_HEARTBEAT_MS", std::to_string(beat_ms).c_str()),
                    "HORING_HEARTBEAT_MS"));
  Nodes nodes;
  nodes.time_limit_ = &time_limit;
  nodes.rails_ = takeRails();
  horingComm_t all = nullptr;
  HORING_TRY(called(horingCommInitFromEnv(&all), "the ranks cannot meet"));
  nodes.use(all);
  int rank = 0;
  HORING_TRY(called(horingCommUserRank(nodes.comm_, &rank), "horingCommUserRank"));
  HORING_TRY(called(horingCommCount(nodes.comm_, &nodes.ranks_), "horingCommCount"));
  HORING_ASSIGN(const std::vector<Place> places, gatherPlaces(nodes.comm_, rank, nodes.ranks_));
  const std::vector<int> leaders = leadersOf(places);
  nodes.names_ = namesOf(places, leaders);
  if (leaders.size() < 2)
    return makeStatus(
        Code::kInvalidUsage,
        "all %d ranks are on one node, which has nothing to be compared with: start ranks on two nodes or "
        "more, such as 'horing-run -n 4 --nodes 4 -- horing-check'",
        nodes.ranks_);
  HORING_ASSIGN(nodes.shared_bytes_per_s_, rateBetweenNeighbours(nodes.comm_, rank, places));
  if (std::ranges::binary_search(leaders, rank)) {
    nodes.self_ = static_cast<int>(std::ranges::lower_bound(leaders, rank) - leaders.begin());
    HORING_TRY(nodes.leaveOutUnreached(leaders, std::min(kMostMsToConnect, timeout_ms / kShareToConnect)));
  }
  // Last: this takes connections between all that are left.
  if (leaders.size() != places.size() || !nodes.left_out_.empty()) HORING_TRY(nodes.splitOff());
  if (nodes.self_ >= 0) HORING_TRY(nodes.compareRails());
  return nodes;
}

Status Nodes::splitOff() {
  horingComm_t measuring = nullptr;
  const int color = self_ >= 0 ? 0 : HORING_SPLIT_NOCOLOR;
  HORING_TRY(called(horingCommSplit(comm_, color, self_, &measuring, nullptr), "horingCommSplit"));
  use(measuring);
  return {};
}

Status Nodes::leaveOutUnreached(const std::vector<int>& leaders, int within_ms) {
  if (count() > kMostNodesCalled) return {};
  const auto self = static_cast<size_t>(self_), nodes = leaders.size();
  const Result<NodePort> port = openNodePort(rails_);
  // Without doors nobody can tell: RDMA takes other ways than TCP.
  const Doors mine = port.ok() && !rails_.areRdma() ? doorsOf(port.value()) : Doors{};
  HORING_ASSIGN(std::vector<char> bytes, gatherAtFirst(comm_, leaders, leaders[self], &mine, sizeof mine));
  std::vector<Doors> doors(nodes);
  std::memcpy(doors.data(), bytes.data(), bytes.size());
  doors[self] = {};
  const std::vector<bool> reached = connectToAll(doors, std::chrono::milliseconds(within_ms));
  const std::vector<char> row(reached.begin(), reached.end());
  HORING_ASSIGN(bytes, gatherAtFirst(comm_, leaders, leaders[self], row.data(), row.size()));
  std::set<NodePair> blocked;
  for (size_t pair = 0; pair < bytes.size(); ++pair)
    if (bytes[pair] == 0) {
      const auto from = static_cast<int>(pair / nodes), to = static_cast<int>(pair % nodes);
      blocked.emplace(std::min(from, to), std::max(from, to));
    }
  return keepOthersThan({blocked.begin(), blocked.end()});
}

Status Nodes::keepOthersThan(const std::vector<NodePair>& blocked) {
  const std::vector<int> left = check::leftOut(blocked);
  const auto name = [this](int node) { return names_[static_cast<size_t>(node)]; };
  for (const auto& [lower, higher] : blocked) blocked_.emplace_back(name(lower), name(higher));
  for (const int node : left) left_out_.push_back(name(node));
  const auto before = std::ranges::lower_bound(left, self_);
  self_ = before != left.end() && *before == self_ ? -1 : self_ - static_cast<int>(before - left.begin());
  for (auto node = left.rbegin(); node != left.rend(); ++node) names_.erase(names_.begin() + *node);
  if (names_.size() >= 2) return {};
  return makeStatus(Code::kRemoteError, "no two nodes reach each other; no connection between %s and %s: %s",
                    blocked_.front().first.c_str(), blocked_.front().second.c_str(), kReachAdvice);
}

Status Nodes::compareRails() {
  std::string text = rails_.variable;
  for (const std::string& name : rails_.names) text += "\n" + printable(name, kMostRailLetters);
  HORING_ASSIGN(const std::vector<std::string> texts, gatherTexts(text));
  std::set<std::string> variables;
  std::vector<std::vector<std::string>> by_rail;
  for (size_t node = 0; node < texts.size(); ++node) {
    std::istringstream lines(texts[node]);
    std::string line;
    std::getline(lines, line);
    variables.insert(line);
    size_t rail = 0;
    for (; std::getline(lines, line) && (node == 0 || rail < by_rail.size()); ++rail) {
      if (node == 0) by_rail.emplace_back();
      by_rail[rail].push_back(line);
    }
    by_rail.resize(rail);
  }
  if (variables.size() == 1 && by_rail.size() > 1) rail_names_ = std::move(by_rail);
  return {};
}

Result<Nodes> Nodes::onRail(int rail) {
  HORING_TRY(useOnly(rails_, rails_.names[static_cast<size_t>(rail)]));
  Result<Nodes> alone = meetAgain();
  HORING_TRY(useAll(rails_));
  return alone;
}

Result<Nodes> Nodes::meetAgain() {
  struct {
    horingUniqueId id;
    int32_t is_valid;
  } call{};
  Status found;
  if (self_ == 0) {
    found = called(horingGetUniqueId(&call.id), "horingGetUniqueId");
    call.is_valid = found.ok() ? 1 : 0;
  }
  HORING_TRY(broadcast(&call, sizeof call, 0));
  HORING_TRY(found);
  if (call.is_valid == 0)
    return makeStatus(Code::kRemoteError, "%s cannot listen there", names_.front().c_str());
  Nodes nodes;
  nodes.time_limit_ = time_limit_;
  nodes.self_ = self_;
  nodes.ranks_ = ranks_;
  nodes.names_ = names_;
  horingComm_t again = nullptr;
  HORING_TRY(called(horingCommInitRank(&again, count(), call.id, self_), "nodes cannot meet"));
  nodes.use(again);
  return nodes;
}

Nodes::Nodes(Nodes&& other) noexcept
    : comm_(std::exchange(other.comm_, nullptr)),
      time_limit_(other.time_limit_),
      self_(other.self_),
      ranks_(other.ranks_),
      shared_bytes_per_s_(other.shared_bytes_per_s_),
      names_(std::move(other.names_)),
      left_out_(std::move(other.left_out_)),
      blocked_(std::move(other.blocked_)),
      rails_(std::move(other.rails_)),
      rail_names_(std::move(other.rail_names_)) {}

Nodes::~Nodes() {
  use(nullptr);
}

void Nodes::use(horingComm_t comm) {
  if (comm_) time_limit_->remove(comm_);
  (void)horingCommDestroy(std::exchange(comm_, comm));
  if (comm) time_limit_->add(comm);
}

int Nodes::failedNode() const {
  int rank = -1;
  return horingCommGetFailedRank(comm_, &rank) == horingSuccess ? rank : -1;
}

Status Nodes::limitWaits(std::chrono::steady_clock::time_point end) {
  const int timeout_ms = waitMsUntil(self_ == 0 ? end : end + kOthersWaitLonger);
  HORING_TRY(limitNewCommunicators(timeout_ms));
  return called(horingCommSetTimeout(comm_, timeout_ms), "horingCommSetTimeout");
}

Status Nodes::broadcast(void* value, size_t bytes, int from) {
  return called(horingBcast(value, bytes, horingUint8, from, comm_, nullptr), "telling the plan");
}

Result<double> Nodes::least(double value) {
  HORING_TRY(called(horingAllReduce(&value, &value, 1, horingFloat64, horingMin, comm_, nullptr),
                    "comparing times"));
  return value;
}

Result<std::vector<char>> Nodes::gather(const void* value, size_t bytes) {
  return gatherOver(comm_, count(), value, bytes);
}

Result<std::vector<std::string>> Nodes::gatherTexts(const std::string& text) {
  const uint64_t mine = std::min(text.size(), kMostTextBytes);
  uint64_t longest = mine;
  HORING_TRY(
      called(horingAllReduce(&mine, &longest, 1, horingUint64, horingMax, comm_, nullptr), "gathering"));
  if (longest > kMostTextBytes)
    return makeStatus(Code::kRemoteError, "a node has facts of %llu bytes; at most %zu are taken",
                      static_cast<unsigned long long>(longest), kMostTextBytes);
  std::string padded = text.substr(0, mine);
  padded.resize(longest + 1, '\0');
  HORING_ASSIGN(const std::vector<char> all, gather(padded.data(), padded.size()));
  std::vector<std::string> texts;
  for (size_t at = 0; at < all.size(); at += padded.size())
    texts.emplace_back(all.data() + at, strnlen(all.data() + at, padded.size()));
  return texts;
}

}  // namespace horing::check
