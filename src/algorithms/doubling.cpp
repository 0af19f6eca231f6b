#include "algorithms/doubling.h"

#include <bit>

namespace horing {

void reduceByDoubling(LaneBuilder& lane, const Line& line, int32_t chunk, Place from, const Wait& after) {
  const int32_t me = line.me();
  const auto pairs = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(line.size())));
  const auto peer = [&](int32_t index) { return line.peer(index - me); };
  if (me >= pairs) {
    lane.at(chunk).after(after.lane, after.step).read(from).send(peer(me - pairs));
    lane.at(chunk).recv(peer(me - pairs)).keep(kOutput);
    return;
  }
  const bool has_partner = me + pairs < line.size();
  StepBuilder first = lane.at(chunk);
  first.after(after.lane, after.step).read(from);
  if (has_partner) first.recv(peer(me + pairs));
  // The value folded locally must be the value that is sent, rounded.
  if (has_partner || from.kind == Source::Kind::kIn) first.keep(kOutput);
  first.send(peer(me ^ 1));
  for (int32_t bit = 1; bit < pairs; bit *= 2) {
    const int32_t other = me ^ bit;
    StepBuilder step = lane.at(chunk);
    if (other < me) step.recv(peer(other));
    step.fold(kOutput);
    if (other > me) step.recv(peer(other));
    step.keep(kOutput);
    if (2 * bit < pairs) {
      step.send(peer(me ^ (2 * bit)));
    } else {
      step.complete();
      if (has_partner) step.send(peer(me + pairs));
    }
  }
}

}  // namespace horing
