// The hierarchical overlapping ring (arXiv 2310.06003, section 4) and its relatives: M groups of m ranks. Slow traffic between groups runs
// on m parallel *rails*, rail j being the ranks with local index j; fast traffic stays inside a group. The two run in separate lanes that
// wait for each other slice by slice, which hides the fast traffic behind the slow traffic.
//
// Rank (i, j), chunk (row, column), row o = the chunks that belong to group o. With rings on the rails:
//   all-gather:      rail:  pass chunks (i, j), (i-1, j), ... on to group i+1.
//                    group: as soon as the rail has chunk (i-k, j), all-gather row i-k inside the group.
//   reduce-scatter:  the mirrored time reversal.
//                    group: reduce rows i-1, i-2, ..., i inside the group.
//                    rail:  the partial of chunk (d, j) starts at group d+1 and goes round; each group folds
//                    its own partial in; it ends at d.
//   all-reduce:      one after the other, four lanes; partials live in the output.
// Cost, D bytes in total: D(M-1)/M into each group, the lower bound; D(m-1)/m inside it per rank; hops (M-1) slow + (m-1) fast. Time (M-1)
// * max(te, ti) + ti, te one hop of a chunk on all rails, ti one row inside the group. All-reduce takes twice that. Other patterns move the
// same bytes in other numbers of hops: direct 1 instead of k-1 for a ring of k, halving about k/2. ho_ordered is ho_direct with its folds
// in an order, and with roundings, that depend on the group map alone: the shares of a group by local index, rounded; then the sums of the
// groups by number. The result does not depend on the size, the slicing or the owner of a chunk. Its reduce gathers at the root what
// reduce-scatter left, by a binomial tree on each rail: D(M-1)/M bytes more into the root's group. ho_doubling (all-reduce only) sends a
// rank's whole share of D/m bytes in each of log2 M slow hops: D log2 M bytes into a group, which for two groups is no more than ho_ring's,
// in half the slow hops. ho_shares (all-reduce only) is ho_direct with rows of different sizes (selection/group_shares.h).
#include <array>

#include "algorithms/catalogue.h"
#include "algorithms/nest.h"
#include "algorithms/spread.h"

namespace horing {

namespace {
Schedule nested(Collective collective, const Shape& shape, int32_t position,
                std::array<Pattern, 2> rail_and_group, int32_t root = 0) {
  const auto nest = [&](int32_t members, int32_t at) {
    const Level levels[] = {{shape.groups, rail_and_group[0]}, {members, rail_and_group[1]}};
    return buildNest(collective, levels, at, root);
  };
  if (!shape.rails) return nest(shape.members, position);
  const int32_t group = shape.rails.groupOf(position);
  const int32_t members = shape.rails.sizeOf(group);
  const int32_t among_equals = group * members + position - shape.rails.firstOf(group);
  Schedule even = nest(members, among_equals);
  even.collective = collective;
  even.position = among_equals;
  return spreadOverRails(even, shape.rails, position);
}
}  // namespace

Schedule buildHoRing(Collective collective, const Shape& shape, int32_t position, int32_t /*root*/) {
  return nested(collective, shape, position, {Pattern::kRing, Pattern::kRing});
}

Schedule buildHoRingDirect(Collective collective, const Shape& shape, int32_t position, int32_t /*root*/) {
  return nested(collective, shape, position, {Pattern::kRing, Pattern::kDirect});
}

Schedule buildHoDirect(Collective collective, const Shape& shape, int32_t position, int32_t /*root*/) {
  return nested(collective, shape, position, {Pattern::kDirect, Pattern::kDirect});
}

Schedule buildHoShares(Collective collective, const Shape& shape, int32_t position, int32_t root) {
  Schedule schedule = buildHoDirect(collective, shape, position, root);
  schedule.shares = shape.shares;
  return schedule;
}

Schedule buildHoOrdered(Collective collective, const Shape& shape, int32_t position, int32_t root) {
  return nested(collective, shape, position, {Pattern::kOrdered, Pattern::kOrdered}, root);
}

Schedule buildHoHalving(Collective collective, const Shape& shape, int32_t position, int32_t /*root*/) {
  return nested(collective, shape, position, {Pattern::kHalving, Pattern::kDirect});
}

Schedule buildHoDoubling(Collective collective, const Shape& shape, int32_t position, int32_t /*root*/) {
  return nested(collective, shape, position, {Pattern::kDoubling, Pattern::kDirect});
}

}  // namespace horing
