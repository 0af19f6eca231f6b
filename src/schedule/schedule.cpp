#include "schedule/schedule.h"

#include <set>

namespace horing {

namespace {
int32_t wrap(int64_t value, int32_t extent) {
  // The common case in an engine, since strides are small beside the extent: avoids a division, which is slow.
  if (value >= 0 && value < extent) return static_cast<int32_t>(value);
  if (value < 0 && value >= -int64_t{extent}) return static_cast<int32_t>(value + extent);
  const int64_t rest = value % extent;
  return static_cast<int32_t>(rest < 0 ? rest + extent : rest);
}
}  // namespace

int32_t Lane::stepCount() const {
  int32_t steps = 0;
  for (const Block& block : blocks) steps += static_cast<int32_t>(block.body.size()) * block.count;
  return steps;
}

int32_t advanceChunk(const Grid& grid, int32_t chunk, const Block& block, int32_t iterations) {
  const int32_t row = grid.rows == 1 ? 0 : chunk / grid.columns;
  const int32_t column = chunk - row * grid.columns;
  return wrap(row + int64_t{block.row_stride} * iterations, grid.rows) * grid.columns +
         wrap(column + int64_t{block.column_stride} * iterations, grid.columns);
}

std::vector<int32_t> sendPeers(const Lane& lane) {
  std::set<int32_t> peers;
  for (const Block& block : lane.blocks)
    for (const Step& step : block.body)
      if (block.count > 0) {
        if (step.send_to >= 0) peers.insert(step.send_to);
        peers.insert(step.signal_to.begin(), step.signal_to.end());
      }
  return {peers.begin(), peers.end()};
}

std::vector<int32_t> recvPeers(const Lane& lane) {
  std::set<int32_t> peers;
  for (const Block& block : lane.blocks)
    for (const Step& step : block.body)
      for (const Source& source : step.sources)
        if (block.count > 0 && takesMessage(source)) peers.insert(source.index);
  return {peers.begin(), peers.end()};
}

}  // namespace horing
