// The hierarchical overlapping ring (arXiv 2310.06003, section 4): M groups of m ranks. Slow traffic between
// groups runs on m parallel *rails*, rail j being the ring of the ranks with local index j; fast traffic
// stays inside a group. The two are lanes of their own that wait for each other slice by slice, which hides
// the fast traffic behind the slow one.
//
// Rank (i, j), chunk (row, column), row o = the chunks that belong to group o.
//   all-gather:      rail:  pass chunks (i, j), (i-1, j), ... on to group i+1.
//                    group: as soon as the rail has chunk (i-k, j), all-gather row i-k inside the group.
//   reduce-scatter:  the mirrored time reversal.
//                    group: reduce rows i-1, i-2, ..., i inside the group.
//                    rail:  the partial of chunk (d, j) starts at group d+1 and goes round; each group folds
//                    its own partial in; it ends at d.
//   all-reduce:      one after the other, four lanes; partials live in the output.
// Cost, D bytes in total: D(M-1)/M into each group, the lower bound; D(m-1)/m inside it per rank; hops (M-1)
// slow + (m-1) fast. Time (M-1) * max(te, ti) + ti, te one hop of a chunk on all rails, ti one row inside the
// group. All-reduce twice.
#include "algorithms/catalogue.h"
#include "algorithms/pattern.h"

namespace horing {

namespace {

class HoRing {
 public:
  HoRing(Shape shape, int32_t position, Pattern inner)
      : groups_(shape.groups),
        group_(position / shape.members),
        inner_(inner),
        members_{group_ * shape.members, shape.members, position % shape.members} {}

  Schedule build(Collective collective) {
    schedule_.grid = {groups_, members_.size};
    if (collective == Collective::kAllGather) {
      allGather();
    } else if (collective == Collective::kReduceScatter) {
      reduceScatter();
    } else {
      allReduce();
    }
    return std::move(schedule_);
  }

 private:
  static constexpr Stride kPreviousRow{-1, 0};

  bool hasRails() const { return groups_ > 1; }
  bool hasGroup() const { return members_.size > 1; }
  int32_t wrapGroup(int32_t group) const { return (group % groups_ + groups_) % groups_; }
  int32_t row(int32_t group) const { return wrapGroup(group) * members_.size; }
  int32_t own(int32_t group) const { return members_.chunk(row(group), members_.local); }
  int32_t nextOnRail() const { return own(group_ + 1); }
  int32_t previousOnRail() const { return own(group_ - 1); }

  // Returns the number of the lane, for others to wait on.
  int32_t add(const LaneBuilder& lane) {
    schedule_.lanes.push_back(lane.build());
    return static_cast<int32_t>(schedule_.lanes.size()) - 1;
  }

  // Passes on what came from the group behind. `lane` already has the step that sends this rank's own chunk.
  void gatherRail(LaneBuilder& lane) const {
    lane.repeat(groups_ - 2, kPreviousRow)
        .at(own(group_ - 1))
        .recv(previousOnRail())
        .keep(kOutput)
        .send(nextOnRail());
    lane.at(own(group_ + 1)).recv(previousOnRail()).keep(kOutput);
  }

  // Rows i-1, i-2, ..., i; returns the number of steps of each.
  int32_t reduceGroup(LaneBuilder& lane, Place to) const {
    BlockBuilder rows = lane.repeat(groups_, kPreviousRow);
    StepBuilder last = reduceRow(rows, inner_, members_, row(group_ - 1), to);
    if (!hasRails()) last.complete();
    return rows.size();
  }

  // `partial` is where the group lane left its share of each row; `done` the moment it did so for the first
  // row.
  void reduceRail(LaneBuilder& lane, Place partial, After done) const {
    const auto later = [&](int32_t rows) { return done.step + rows * done.stride; };
    lane.at(own(group_ - 1)).after(done.lane, done.step).read(partial).send(nextOnRail());
    lane.repeat(groups_ - 2, kPreviousRow)
        .at(own(group_ - 2))
        .after(done.lane, later(1), done.stride)
        .recv(previousOnRail())
        .fold(partial)
        .send(nextOnRail());
    lane.at(own(group_))
        .after(done.lane, later(groups_ - 1))
        .recv(previousOnRail())
        .fold(partial)
        .complete()
        .keep(kOutput);
  }

  void allGather() {
    LaneBuilder rail, group;
    if (!hasRails()) {
      gatherRow(group.once(), inner_, members_, row(0), kInput, {});
      add(group);
      return;
    }
    rail.at(own(group_)).read(kInput).keep(kOutput).send(nextOnRail());
    gatherRail(rail);
    const int32_t rail_lane = add(rail);
    if (!hasGroup()) return;
    gatherRow(group.repeat(groups_, kPreviousRow), inner_, members_, row(group_), kOutput, {rail_lane, 0, 1});
    add(group);
  }

  void reduceScatter() {
    LaneBuilder rail, group;
    if (!hasRails()) {
      reduceGroup(group, kOutput);
      add(group);
      return;
    }
    if (hasGroup()) {
      schedule_.scratch_queues = 1;
      reduceGroup(group, scratchQueue(0));
      add(group);
    }
    reduceRail(rail, hasGroup() ? scratchQueue(0) : kInput, {});
    add(rail);
  }

  void allReduce() {
    LaneBuilder group_reduce, rail_reduce, rail_gather, group_gather;
    After reduced{};  // the moment this rank's own chunk is complete
    if (hasGroup() || !hasRails()) {
      const int32_t row_steps = reduceGroup(group_reduce, kOutput);
      reduced = {add(group_reduce), row_steps - 1, row_steps};
    }
    if (hasRails()) {
      reduceRail(rail_reduce, hasGroup() ? kOutput : kInput, reduced);
      reduced = {add(rail_reduce), groups_ - 1, 0};
      rail_gather.at(own(group_)).after(reduced.lane, reduced.step).read(kOutput).send(nextOnRail());
      gatherRail(rail_gather);
    }
    const int32_t rail_lane = hasRails() ? add(rail_gather) : -1;
    if (!hasGroup()) return;
    gatherRow(group_gather.once(), inner_, members_, row(group_), kOutput, {reduced.lane, reduced.step});
    gatherRow(group_gather.repeat(groups_ - 1, kPreviousRow), inner_, members_, row(group_ - 1), kOutput,
              {rail_lane, 1, 1});
    add(group_gather);
  }

  int32_t groups_;
  int32_t group_;
  Pattern inner_;
  Members members_;
  Schedule schedule_;
};

}  // namespace

Schedule buildHoRing(Collective collective, Shape shape, int32_t position) {
  return HoRing(shape, position, Pattern::kRing).build(collective);
}

Schedule buildHoRingDirect(Collective collective, Shape shape, int32_t position) {
  return HoRing(shape, position, Pattern::kDirect).build(collective);
}

}  // namespace horing
