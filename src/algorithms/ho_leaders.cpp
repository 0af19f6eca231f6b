// Leaders: the first rank of each group speaks for it. M groups of m ranks; inside a group everything goes to and from its
// leader, and only leaders talk to each other. For small messages, where what counts is how many of them cross the slow
// links (each costs the CPUs of both nodes several microseconds) and how often a rank must get its turn: once to send, once
// to take, and the leader in between.
//
//   all-reduce:  the leader folds its group, the leaders double (doubling.h), each hands the result back. M log2 M slow
//                messages; D log2 M bytes into each group; hops: log2 M slow, 2 fast.
//   reduce-scatter: the leader folds its group's shares of every chunk, sends those of other groups' chunks to their leaders,
//                and hands each member its chunk, folded with what came for it. Slow messages, bytes and hops as of
//                all-gather, and all of D from each member to its leader. What goes to higher groups, what goes to lower ones
//                and what goes home are lanes of their own, and all leaders come to the chunks of all first members before
//                those of the second ones, so that what one waits for is never behind what waits for it.
//   all-gather:  the leader takes the chunks of its group, sends them to all other leaders, and hands its group what comes
//                from them. M(M-1) times m slow messages, but m of them follow each other: over sockets they share a system
//                call and, if they are small, a packet. D(M-1)/M bytes into each group, the least possible; hops: 1 slow, 2
//                fast. What goes to higher groups and what goes to lower ones are lanes of their own, and nearer groups come
//                first at both ends, so that leaders never wait in a circle for each other's slots.
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
    LaneBuilder upwards, downwards;
    takeOwnGroup(upwards);
    for (int32_t group = group_ + 2; leads() && group < shape_.groups; ++group)
      forEachChunkOf(group_, [&](int32_t chunk) { upwards.at(chunk).read(kOutput).send(leaderOf(group)); });
    forEachChunkOf(group_, [&](int32_t chunk) { handOut(upwards, chunk); });
    for (int32_t group = group_ - 1; group >= 0; --group) takeGroup(upwards, group);
    for (int32_t group = group_ - 1; leads() && group >= 0; --group)
      forEachChunkOf(group_, [&](int32_t chunk) {
        StepBuilder step = downwards.at(chunk);
        if (group == group_ - 1)
          step.after(0, chunk - leader_);  // then it is there for the other groups, too
        step.read(kOutput).send(leaderOf(group));
      });
    for (int32_t group = group_ + 1; group < shape_.groups; ++group) takeGroup(downwards, group);
    Schedule schedule{.grid = {1, shape_.ranks()}, .lanes = {upwards.build()}};
    if (shape_.groups > 1) schedule.lanes.push_back(downwards.build());
    return schedule;
  }

 private:
  int32_t leaderOf(int32_t group) const { return group * shape_.members; }
  bool leads() const { return me_ == leader_; }
  template <typename Visit>
  void forEachOtherMember(const Visit& visit) const {
    for (int32_t member = 1; member < shape_.members; ++member) visit(leader_ + member);
  }
  template <typename Visit>
  void forEachChunkOf(int32_t group, const Visit& visit) const {
    for (int32_t member = 0; member < shape_.members; ++member) visit(leaderOf(group) + member);
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

  // Step i is that of the group's i-th chunk.
  void takeOwnGroup(LaneBuilder& lane) const {
    if (!leads()) {
      lane.at(me_).read(kInput).keep(kOutput).send(leader_);
      return;
    }
    forEachChunkOf(group_, [&](int32_t chunk) {
      StepBuilder step = lane.at(chunk).keep(kOutput);
      chunk == me_ ? step.read(kInput) : step.recv(chunk);
      if (group_ + 1 < shape_.groups) step.send(leaderOf(group_ + 1));
    });
  }

  void takeGroup(LaneBuilder& lane, int32_t group) const {
    forEachChunkOf(group, [&](int32_t chunk) {
      if (leads()) lane.at(chunk).recv(leaderOf(group)).keep(kOutput);
      handOut(lane, chunk);
    });
  }

  // From the leader, which has the chunk, to all others that do not.
  void handOut(LaneBuilder& lane, int32_t chunk) const {
    if (!leads() && chunk != me_) lane.at(chunk).recv(leader_).keep(kOutput);
    if (leads())
      forEachOtherMember([&](int32_t member) {
        if (member != chunk) lane.at(chunk).read(kOutput).send(member);
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
