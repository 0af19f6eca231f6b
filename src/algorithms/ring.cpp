// The flat ring (Patarasuk and Yuan, 2009): n positions in a circle, each sends only to the next one.
//
// all-gather: n-1 steps; in step k a rank sends the chunk of the rank k places behind it. reduce-scatter is
// its mirrored time reversal: chunk c starts at position c+1, goes round, is folded at each stop and ends at
// c. all-reduce is one after the other, as two lanes so that the second starts on a slice as soon as the
// first is done with it. Cost: every link carries D(n-1)/n bytes in n-1 hops, all-reduce twice that. Each of
// those steps contains a slow hop.
#include "algorithms/catalogue.h"
#include "schedule/builder.h"

namespace horing {

namespace {

struct Circle {
  int32_t n, me;
  int32_t behind(int32_t k) const { return ((me - k) % n + n) % n; }
  int32_t next() const { return behind(-1); }
  int32_t previous() const { return behind(1); }
};

constexpr Stride kOneBack{0, -1};

void gather(LaneBuilder& lane, const Circle& circle) {
  lane.repeat(circle.n - 2, kOneBack)
      .at(circle.behind(1))
      .recv(circle.previous())
      .keep(kOutput)
      .send(circle.next());
  lane.at(circle.behind(circle.n - 1)).recv(circle.previous()).keep(kOutput);
}

void reduce(LaneBuilder& lane, const Circle& circle) {
  lane.at(circle.behind(1)).read(kInput).send(circle.next());
  lane.repeat(circle.n - 2, kOneBack)
      .at(circle.behind(2))
      .recv(circle.previous())
      .fold(kInput)
      .send(circle.next());
  lane.at(circle.me).recv(circle.previous()).fold(kInput).complete().keep(kOutput);
}

}  // namespace

Schedule buildRing(Collective collective, Shape shape, int32_t position) {
  const Circle circle{shape.ranks(), position};
  Schedule schedule;
  schedule.grid = {1, circle.n};
  LaneBuilder first, second;
  if (circle.n == 1) {
    StepBuilder copy = first.at(0).read(kInput).keep(kOutput);
    if (collective != Collective::kAllGather) copy.complete();
  } else if (collective == Collective::kAllGather) {
    first.at(position).read(kInput).keep(kOutput).send(circle.next());
    gather(first, circle);
  } else {
    reduce(first, circle);
    if (collective == Collective::kAllReduce) {
      second.at(position).after(0, circle.n - 1).read(kOutput).send(circle.next());
      gather(second, circle);
    }
  }
  schedule.lanes.push_back(first.build());
  if (Lane lane = second.build(); !lane.blocks.empty()) schedule.lanes.push_back(lane);
  return schedule;
}

}  // namespace horing
