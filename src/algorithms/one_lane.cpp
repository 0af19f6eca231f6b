#include "algorithms/one_lane.h"

#include <utility>

namespace horing {

namespace {

// Whether `next` only sends what the preceding `step` leaves in the output.
bool onlySends(const Step& next, const Step& step) {
  const bool reads_output = next.sources.size() == 1 && next.sources[0].kind == Source::Kind::kOut;
  return reads_output && next.keep.kind == Keep::Kind::kNone && next.chunk == step.chunk &&
         keepsOut(step.keep) && step.send_to < 0;
}

void append(Lane& lane, Block block) {
  if (lane.blocks.empty() || lane.blocks.back().count > 1 || block.count > 1) {
    lane.blocks.push_back(std::move(block));
    return;
  }
  std::vector<Step>& body = lane.blocks.back().body;
  for (Step& step : block.body) {
    if (onlySends(step, body.back())) {
      body.back().send_to = step.send_to;
    } else {
      body.push_back(std::move(step));
    }
  }
}

}  // namespace

Schedule inOneLane(Schedule schedule) {
  Lane joined;
  for (Lane& lane : schedule.lanes)
    for (Block& block : lane.blocks) {
      for (Step& step : block.body) step.wait = {};
      append(joined, std::move(block));
    }
  schedule.lanes = {std::move(joined)};
  return schedule;
}

}  // namespace horing
