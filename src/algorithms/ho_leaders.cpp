// Leaders: the first rank of each group speaks for it. M groups of m ranks; inside a group everything goes to and from its
// leader, and only leaders talk to each other. For small messages, where what counts is how many of them cross the slow
// links (each costs the CPUs of both nodes several microseconds) and how often a rank must get its turn: once to send, once
// to take, and the leader in between.
//
//   all-reduce:  the leader folds its group, the leaders double (doubling.h), each hands the result back. M log2 M slow
//                messages; D log2 M bytes into each group; hops: log2 M slow, 2 fast.
//   reduce-scatter: the leader folds its group's shares of every chunk, sends those of other groups' chunks to their leaders,
//                and hands each member its chunk, folded with what came for it. M(M-1) times m
//                slow messages, D(M-1)/M bytes into each group, and all of D from each member to its leader. What goes to higher groups, what goes to lower ones
//                and what goes home are lanes of their own, and all leaders come to the chunks of all first members before
//                those of the second ones, so that what one waits for is never behind what waits for it.
//   all-gather:  the leader takes the chunks of its group, then the leaders double: in each round a leader sends all that it has
//                to one other, the trees being those of halving (pattern.h), backwards; at the end it hands its group what came.
//                M log2 M times what is sent in a round, whose chunks follow each other: over sockets they share a system call
//                and, if they are small, a packet. D(M-1)/M bytes into each group, the least possible; hops: log2 M slow, 2
//                fast. What goes to higher leaders and what goes to lower ones are lanes of their own, so that of two who
//                exchange neither waits for the other to take what it sends.
#include <bit>

#include "algorithms/catalogue.h"
#include "algorithms/doubling.h"

namespace horing {

namespace {

// Of reduce-scatter at a leader: what its own group and lower ones have of a chunk, and what higher ones have.
constexpr Place kLower = scratchQueue(0), kHigher = scratchQueue(1);

class Leaders {
 public:
  Leaders(Shape shape, int32_t position)
      : shape_(shape), me_(position), group_(position / shape.members), leader_(leaderOf(group_)) {}

  Schedule allReduce() const {
    LaneBuilder lane;
    if (leads()) {
      reduceOverLeaders(lane);
      forEachOtherMember([&](int32_t member) { lane.at(0).read(kOutput).send(member); });
    } else {
      lane.at(0).read(kInput).send(leader_);
      lane.at(0).recv(leader_).keep(kOutput);
    }
    return {.grid = {1, 1}, .lanes = {lane.build()}};
  }

  Schedule reduceScatter() const {
    LaneBuilder upwards, downwards, home;
    const bool has_higher = group_ + 1 < shape_.groups;
    for (int32_t member = 0; member < shape_.members; ++member) {
      const auto chunkIn = [&](int32_t group) { return leaderOf(group) + member; };
      for (int32_t group = shape_.groups - 1; group > group_; --group)
        sendShare(upwards, chunkIn(group), group);
      for (int32_t group = 0; group < group_; ++group) sendShare(downwards, chunkIn(group), group);
      StepBuilder lower = foldOwnGroup(upwards, chunkIn(group_));
      if (!leads()) continue;
      for (int32_t group = 0; group < group_; ++group) lower.recv(leaderOf(group));
      lower.keep(kLower);
      if (has_higher) {
        StepBuilder higher = downwards.at(chunkIn(group_)).keep(kHigher);
        for (int32_t group = group_ + 1; group < shape_.groups; ++group) higher.recv(leaderOf(group));
      }
      StepBuilder result = home.at(chunkIn(group_)).read(kLower).complete();
      if (has_higher) result.fold(kHigher);
      member == 0 ? result.keep(kOutput) : result.send(chunkIn(group_));
    }
    if (!leads()) home.at(me_).recv(leader_).keep(kOutput);
    Schedule schedule{.grid = {1, shape_.ranks()}, .scratch_queues = !leads() ? 0 : has_higher ? 2 : 1};
    schedule.lanes.push_back(upwards.build());
    schedule.lanes.push_back(downwards.build());
    schedule.lanes.push_back(home.build());
    return schedule;
  }

  Schedule allGather() const {
    const Line leaders(Pattern::kHalving, shape_.groups, shape_.members, leader_);
    LaneBuilder lanes[2];
    Direction directions[] = {{kUpwards, lanes[kUpwards].once()}, {kDownwards, lanes[kDownwards].once()}};
    std::vector<Row> rows = {{.distance = 0, .chunk = leader_, .taken = {kUpwards, 0}}};
    takeOwnGroup(directions[kUpwards].steps);
    for (int32_t bit = halfOf(shape_.groups); bit > 0; bit /= 2) {
      const int32_t next = leaders.peer(bit), previous = leaders.peer(-bit);
      const size_t known = rows.size();
      for (size_t i = 0; i < known; ++i) {
        const Row& row = rows[i];
        if (row.distance + bit < shape_.groups) sendRow(directions[directionTo(next)], row, next);
      }
      for (size_t i = 0; i < known; ++i) {
        const int32_t distance = rows[i].distance + bit;
        if (distance >= shape_.groups) continue;
        const int32_t lane = 1 - directionTo(previous);
        rows.push_back({distance, leaders.chunk(leader_, -distance), {lane, directions[lane].steps.size()}});
        takeRow(directions[lane].steps, rows.back(), previous);
      }
    }
    for (const Row& row : rows) handOut(directions[row.taken.lane].steps, row);
    Schedule schedule{.grid = {1, shape_.ranks()}, .lanes = {lanes[kUpwards].build()}};
    if (shape_.groups > 1) schedule.lanes.push_back(lanes[kDownwards].build());
    return schedule;
  }

 private:
  int32_t leaderOf(int32_t group) const { return group * shape_.members; }
  bool leads() const { return me_ == leader_; }
  template <typename Visit>
  void forEachOtherMember(const Visit& visit) const {
    for (int32_t member = 1; member < shape_.members; ++member) visit(leader_ + member);
  }

  // The shares of the group in the order of its members, then those of the groups.
  void reduceOverLeaders(LaneBuilder& lane) const {
    const bool is_only_one = shape_.groups == 1;
    if (is_only_one || shape_.members > 1) {
      StepBuilder fold = lane.at(0).fold(kInput).keep(kOutput);
      forEachOtherMember([&](int32_t member) { fold.recv(member); });
      if (is_only_one) fold.complete();
    }
    const Line leaders(Pattern::kDoubling, shape_.groups, shape_.members, me_);
    if (!is_only_one) reduceByDoubling(lane, leaders, 0, shape_.members > 1 ? kOutput : kInput, {});
  }

  // The leader folds the shares in the order of the members, who send him theirs.
  StepBuilder foldOwnGroup(LaneBuilder& lane, int32_t chunk) const {
    StepBuilder step = lane.at(chunk).read(kInput);
    if (leads())
      forEachOtherMember([&](int32_t member) { step.recv(member); });
    else
      step.send(leader_);
    return step;
  }

  void sendShare(LaneBuilder& lane, int32_t chunk, int32_t group) const {
    StepBuilder share = foldOwnGroup(lane, chunk);
    if (leads()) share.send(leaderOf(group));
  }

  // The chunks of a group, and when this rank's leader has them: chunk i at step i after that.
  struct Row {
    int32_t distance;  // of the leader from the group's own one, in the tree by which they come
    int32_t chunk;     // the first
    Wait taken;
  };
  // Of the lanes of all-gather: to higher leaders, and to lower ones.
  static constexpr int32_t kUpwards = 0, kDownwards = 1;
  int32_t directionTo(int32_t leader) const { return leader > leader_ ? kUpwards : kDownwards; }
  // The largest power of two below n; 0: there is none.
  static int32_t halfOf(int32_t n) {
    return static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(n)) / 2);
  }
  template <typename Visit>
  void forEachChunkOf(const Row& row, const Visit& visit) const {
    for (int32_t member = 0; member < shape_.members; ++member) visit(row.chunk + member, member);
  }

  // A lane of all-gather.
  struct Direction {
    int32_t number;
    BlockBuilder steps;
    int32_t waited = -1;  // for that step of the other one, and so for those before it
  };

  void takeOwnGroup(BlockBuilder& steps) const {
    if (!leads()) steps.at(me_).read(kInput).keep(kOutput).send(leader_);
    for (int32_t chunk = leader_; leads() && chunk < leader_ + shape_.members; ++chunk) {
      StepBuilder step = steps.at(chunk).keep(kOutput);
      chunk == me_ ? step.read(kInput) : step.recv(chunk);
    }
  }

  void takeRow(BlockBuilder& steps, const Row& row, int32_t from) const {
    if (!leads()) return;
    forEachChunkOf(row, [&](int32_t chunk, int32_t) { steps.at(chunk).recv(from).keep(kOutput); });
  }

  void sendRow(Direction& lane, const Row& row, int32_t to) const {
    if (!leads()) return;
    forEachChunkOf(row, [&](int32_t chunk, int32_t member) {
      StepBuilder step = lane.steps.at(chunk).read(kOutput).send(to);
      const int32_t taken = row.taken.step + member;
      if (row.taken.lane == lane.number || taken <= lane.waited) return;
      step.after(row.taken.lane, taken);
      lane.waited = taken;
    });
  }

  // From the leader to all others that do not have it.
  void handOut(BlockBuilder& steps, const Row& row) const {
    forEachChunkOf(row, [&](int32_t chunk, int32_t) {
      if (!leads() && chunk != me_) steps.at(chunk).recv(leader_).keep(kOutput);
      for (int32_t member = leader_ + 1; leads() && member < leader_ + shape_.members; ++member)
        if (member != chunk) steps.at(chunk).read(kOutput).send(member);
    });
  }

  Shape shape_;
  int32_t me_, group_, leader_;
};

}  // namespace

Schedule buildHoLeaders(Collective collective, Shape shape, int32_t position, int32_t /*root*/) {
  const Leaders leaders(shape, position);
  if (collective == Collective::kAllReduce) return leaders.allReduce();
  return collective == Collective::kReduceScatter ? leaders.reduceScatter() : leaders.allGather();
}

}  // namespace horing
