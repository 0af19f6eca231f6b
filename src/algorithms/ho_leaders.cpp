// Leaders: the first rank of each group is its leader. M groups of m ranks; inside a group all traffic goes through the leader, and only
// leaders communicate between groups. For small messages, whose cost is the number of messages over slow links (each costs the CPUs of both
// nodes several microseconds) and the number of times a rank must be scheduled: once to send, once to receive, and the leader in between.
//
//   all-reduce:  the leader folds its group, the leaders double (doubling.h), each hands the result back. M log2 M slow
//                messages; D log2 M bytes into each group; hops: log2 M slow, 2 fast.
//   all-reduce split among the leaders (`ho_leaders_split`): each leader has a part of the vector, of which the others send it
//                the partial sums of their groups, and hands all of them the result. 2 M(M-1) slow messages;
//                2D(M-1)/M bytes into each group, the least possible; hops: 2 slow, 2 fast. For more than two groups, from
//                where the bytes count.
//   reduce-scatter: the leader folds its group's shares of every chunk. Then the leaders halve: in each round a leader sends half of
//                the partial sums it has to one other, by the trees of halving (pattern.h), and folds what comes into the
//                others, which lie in scratch in between, each chunk in a queue of its own for each round. Of the own group's
//                chunks the last fold goes to each one's member.
//   all-gather:  the same backwards: the leader takes the chunks of its group, in each round sends all that it has, and
//                hands its group what came while it waits for more.
//                Both: M log2 M times what is sent in a round, whose chunks follow each other: over sockets they share a system
//                call and, if they are small, a packet. D(M-1)/M bytes into each group, the least possible; hops: log2 M slow,
//                2 fast. Messages to higher leaders and messages to lower leaders have separate lanes, so that of two leaders
//                that exchange chunks neither waits until the other has received.
#include <bit>

#include "algorithms/catalogue.h"
#include "algorithms/doubling.h"

namespace horing {

namespace {

class Leaders {
 public:
  Leaders(const Shape& shape, int32_t position)
      : shape_(shape), me_(position), leader_(position / shape.members * shape.members) {}

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

  // Chunk g is the part of the leader of group g.
  Schedule splitAllReduce() const {
    LaneBuilder reducing, gathering;
    reduceParts(reducing);
    gatherParts(gathering);
    return {.grid = {1, shape_.groups}, .lanes = {reducing.build(), gathering.build()}};
  }

  Schedule reduceScatter() const {
    const Line leaders(Pattern::kHalving, shape_.groups, shape_.members, leader_);
    LaneBuilder lanes[2];
    BlockBuilder steps[] = {lanes[kUpwards].once(), lanes[kDownwards].once()};
    std::vector<Partial> partials;  // by the distance of this leader from the owner of the chunks
    for (int32_t distance = 0; distance < shape_.groups; ++distance)
      partials.push_back({.chunk = leaders.chunk(leader_, -distance)});
    const auto at = [&](int32_t distance) -> Partial& { return partials[static_cast<size_t>(distance)]; };
    int32_t queues = 0, last = kUpwards;
    if (shape_.groups == 1) finish(steps[last], at(0), kNobody);
    for (int32_t bit = 1; bit < shape_.groups; bit *= 2) {
      const int32_t nearer = leaders.peer(-bit), further = leaders.peer(bit);
      for (int32_t distance = bit; distance < shape_.groups; distance += 2 * bit)
        sendPartial(steps[directionTo(nearer)], at(distance), nearer);
      last = 1 - directionTo(further);
      const bool is_last = 2 * bit >= shape_.groups;
      if (is_last) finish(steps[last], at(0), further);
      for (int32_t distance = 0; !is_last && distance + bit < shape_.groups; distance += 2 * bit) {
        foldPartial(steps[last], at(distance), further, queues);
        queues += shape_.members;
      }
    }
    if (!leads()) steps[last].at(me_).recv(leader_).keep(kOutput);
    Schedule schedule{.grid = {1, shape_.ranks()},
                      .scratch_queues = leads() ? queues : 0,
                      .lanes = {lanes[kUpwards].build()}};
    if (shape_.groups > 1) schedule.lanes.push_back(lanes[kDownwards].build());
    return schedule;
  }

  Schedule allGather() const {
    const Line leaders(Pattern::kHalving, shape_.groups, shape_.members, leader_);
    LaneBuilder lanes[2];
    BlockBuilder steps[] = {lanes[kUpwards].once(), lanes[kDownwards].once()};
    std::vector<Row> rows = {{.distance = 0, .chunk = leader_, .taken = {kUpwards, 0}}};
    takeOwnGroup(steps[kUpwards]);
    size_t handed = 0;
    const auto hand_out = [&] {
      for (; handed < rows.size(); ++handed) handOut(steps[rows[handed].taken.lane], rows[handed]);
    };
    for (int32_t bit = halfOf(shape_.groups); bit > 0; bit /= 2) {
      const int32_t next = leaders.peer(bit), previous = leaders.peer(-bit);
      const size_t known = rows.size();
      sendRows(steps[directionTo(next)], rows, bit, next);
      hand_out();
      for (size_t i = 0; i < known; ++i) {
        const int32_t distance = rows[i].distance + bit;
        if (distance >= shape_.groups) continue;
        const int32_t lane = 1 - directionTo(previous);
        rows.push_back({distance, leaders.chunk(leader_, -distance), {lane, steps[lane].size()}});
        takeRow(steps[lane], rows.back(), previous);
      }
    }
    hand_out();
    Schedule schedule{.grid = {1, shape_.ranks()}, .lanes = {lanes[kUpwards].build()}};
    if (shape_.groups > 1) schedule.lanes.push_back(lanes[kDownwards].build());
    return schedule;
  }

 private:
  static constexpr int32_t kUpwards = 0, kDownwards = 1;  // the lanes to higher leaders, and to lower ones
  static constexpr int32_t kNobody = -1;

  bool leads() const { return me_ == leader_; }
  template <typename Visit>
  void forEachOtherMember(const Visit& visit) const {
    for (int32_t member = 1; member < shape_.members; ++member) visit(leader_ + member);
  }

  // Folds the shares of the group in the order of its members, then the groups' results.
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

  // Parts numbered from this group on: 0 is its own part, and chunk.
  int32_t part(int32_t distance) const { return (me_ / shape_.members + distance) % shape_.groups; }
  int32_t leaderOf(int32_t part) const { return part * shape_.members; }

  // Sends the group's shares of other leaders' parts first, since other leaders wait for them.
  void reduceParts(LaneBuilder& lane) const {
    for (int32_t distance = 1; distance <= shape_.groups; ++distance) {
      const bool is_own = distance == shape_.groups;
      StepBuilder step = lane.at(part(distance)).read(kInput);
      if (!leads()) {
        step.send(leader_);
        continue;
      }
      forEachOtherMember([&](int32_t member) { step.recv(member); });
      if (!is_own) {
        step.send(leaderOf(part(distance)));
        continue;
      }
      for (int32_t other = 1; other < shape_.groups; ++other) step.recv(leaderOf(part(other)));
      step.complete().keep(kOutput);
    }
  }

  // Sends its own part to the other leaders first, and into the group while their parts are in flight.
  void gatherParts(LaneBuilder& lane) const {
    const int32_t reduced = shape_.groups - 1;  // the last step of the lane that reduces
    for (int32_t distance = 1; leads() && distance < shape_.groups; ++distance)
      lane.at(part(0)).read(kOutput).send(leaderOf(part(distance))).after(0, reduced);
    for (int32_t distance = shape_.groups; distance > 0; --distance) {
      const bool is_own = distance == shape_.groups;
      const int32_t chunk = part(distance);
      if (!leads()) {
        lane.at(chunk).recv(leader_).keep(kOutput);
        continue;
      }
      if (!is_own) lane.at(chunk).recv(leaderOf(chunk)).keep(kOutput);
      forEachOtherMember([&](int32_t member) {
        StepBuilder step = lane.at(chunk).read(kOutput).send(member);
        if (is_own) step.after(0, reduced);
      });
    }
  }

  // The leader's partial results for the chunks of a group: in scratch, one queue for each chunk from `queue` on; -1: nothing yet.
  struct Partial {
    int32_t chunk;  // the first
    int32_t queue = -1;
  };

  // Calls `visit` on the operands that the leader has for each chunk: the shares of its group in the order of the members, or its earlier
  // partial result.
  template <typename Visit>
  void forEachChunkOf(const Partial& partial, BlockBuilder& steps, const Visit& visit) const {
    for (int32_t member = 0; member < shape_.members; ++member) {
      if (!leads()) {
        if (partial.queue < 0) steps.at(partial.chunk + member).read(kInput).send(leader_);
        continue;
      }
      StepBuilder step = steps.at(partial.chunk + member);
      if (partial.queue < 0) {
        step.read(kInput);
        forEachOtherMember([&](int32_t other) { step.recv(other); });
      } else {
        step.read(scratchQueue(partial.queue + member));
      }
      visit(step, member);
    }
  }

  void sendPartial(BlockBuilder& steps, const Partial& partial, int32_t to) const {
    forEachChunkOf(partial, steps, [&](StepBuilder& step, int32_t) { step.send(to); });
  }

  void foldPartial(BlockBuilder& steps, Partial& partial, int32_t from, int32_t queue) const {
    forEachChunkOf(partial, steps, [&](StepBuilder& step, int32_t member) {
      step.recv(from).keep(scratchQueue(queue + member));
    });
    partial.queue = queue;
  }

  // The last fold of this group's chunks.
  void finish(BlockBuilder& steps, const Partial& partial, int32_t from) const {
    forEachChunkOf(partial, steps, [&](StepBuilder& step, int32_t member) {
      if (from != kNobody) step.recv(from);
      step.complete();
      member == 0 ? step.keep(kOutput) : step.send(leader_ + member);
    });
  }

  // The chunks of a group, and the step after which this rank's leader has them (chunk i: i steps later).
  struct Row {
    int32_t distance;  // distance of the leader from the owner's leader, in the tree
    int32_t chunk;     // the first
    Wait taken;
  };
  int32_t directionTo(int32_t leader) const { return leader > leader_ ? kUpwards : kDownwards; }
  // The largest power of two below n; 0: none.
  static int32_t halfOf(int32_t n) {
    return static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(n)) / 2);
  }
  template <typename Visit>
  void forEachChunkOf(const Row& row, const Visit& visit) const {
    for (int32_t member = 0; member < shape_.members; ++member) visit(row.chunk + member);
  }

  void takeOwnGroup(BlockBuilder& steps) const {
    if (!leads()) steps.at(me_).read(kInput).keep(kOutput).send(leader_);
    for (int32_t chunk = leader_; leads() && chunk < leader_ + shape_.members; ++chunk) {
      StepBuilder step = steps.at(chunk).keep(kOutput);
      chunk == me_ ? step.read(kInput) : step.recv(chunk);
    }
  }

  void takeRow(BlockBuilder& steps, const Row& row, int32_t from) const {
    if (!leads()) return;
    forEachChunkOf(row, [&](int32_t chunk) { steps.at(chunk).recv(from).keep(kOutput); });
  }

  // Sends rows to the leader at the distance `bit`, once the last row is there, so that all messages share a system call. Each step waits
  // for it, since an earlier block may have fewer slices if sizes differ.
  void sendRows(BlockBuilder& steps, const std::vector<Row>& rows, int32_t bit, int32_t to) const {
    if (!leads()) return;
    const int32_t other = 1 - directionTo(to);
    const auto leaves = [&](const Row& row) { return row.distance + bit < shape_.groups; };
    int32_t last = -1;
    for (const Row& row : rows)
      if (leaves(row) && row.taken.lane == other) last = row.taken.step + shape_.members - 1;
    for (const Row& row : rows) {
      if (!leaves(row)) continue;
      forEachChunkOf(row, [&](int32_t chunk) {
        StepBuilder step = steps.at(chunk).read(kOutput).send(to);
        if (last >= 0) step.after(other, last);
      });
    }
  }

  // From the leader to all members that do not have the row.
  void handOut(BlockBuilder& steps, const Row& row) const {
    forEachChunkOf(row, [&](int32_t chunk) {
      if (!leads() && chunk != me_) steps.at(chunk).recv(leader_).keep(kOutput);
      for (int32_t member = leader_ + 1; leads() && member < leader_ + shape_.members; ++member)
        if (member != chunk) steps.at(chunk).read(kOutput).send(member);
    });
  }

  Shape shape_;
  int32_t me_, leader_;
};

}  // namespace

Schedule buildHoLeaders(Collective collective, const Shape& shape, int32_t position, int32_t /*root*/) {
  const Leaders leaders(shape, position);
  if (collective == Collective::kAllReduce) return leaders.allReduce();
  return collective == Collective::kReduceScatter ? leaders.reduceScatter() : leaders.allGather();
}

Schedule buildHoLeadersSplit(Collective /*collective*/, const Shape& shape, int32_t position,
                             int32_t /*root*/) {
  return Leaders(shape, position).splitAllReduce();
}

}  // namespace horing
