// Algorithms for ranks that can access each other's memory.
//
// peer_read folds, or gathers, straight from the inputs. all-reduce: every rank folds its chunk from all inputs in one pass, keeps it and
// sends it to the others, through slots that stay in the cache. reduce-scatter: the same without sending. all-gather: every rank copies all
// blocks in the same order, so that later ranks find a block in the shared cache. peer_write stores each rank's chunk, folded from all
// inputs or copied, in all outputs: no slot, and nothing is read twice. Before the first access every rank signals that it has entered;
// after its last read or write it signals again: only then may the owner of the memory continue. In peer_read's all-reduce a rank's chunk
// serves as this signal, since it is sent after the reads. Chunk c is folded over positions c+1, ..., c, and rounded once.
//
// Cost: 2 rounds of n-1 signals (peer_read's all-reduce 1) before and after the data. Memory read and written, of D bytes of the whole
// vector and all ranks together: all-reduce nD and nD, reduce-scatter nD and D, all-gather D and nD, the least possible; but peer_read's
// all-gather reads nD if no cache is shared, and its all-reduce also copies through slots.
#include "algorithms/catalogue.h"
#include "schedule/builder.h"

namespace horing {

namespace {

constexpr int32_t kSignalLane = 0;
constexpr int32_t kReadyStep = 1;  // in the signal lane: all others have entered

std::vector<int32_t> othersOf(int32_t n, int32_t me) {
  std::vector<int32_t> others;
  for (int32_t distance = 1; distance < n; ++distance) others.push_back((me + distance) % n);
  return others;
}

// `last_access`: the step of the data lane (the next lane) after which no peer's memory is accessed; -1 if messages serve as signals.
Lane signals(const std::vector<int32_t>& others, int32_t last_access) {
  LaneBuilder lane;
  BlockBuilder steps = lane.once();
  steps.at(0).signal(others);
  steps.at(0).await(others);
  if (last_access < 0) return lane.build();
  steps.at(0).signal(others).after(kSignalLane + 1, last_access);
  steps.at(0).await(others);
  return lane.build();
}

StepBuilder foldOwnChunk(BlockBuilder& steps, const std::vector<int32_t>& others, int32_t me) {
  StepBuilder fold = steps.at(me);
  if (!others.empty()) fold.after(kSignalLane, kReadyStep);
  for (const int32_t peer : others) fold.readInputOf(peer);
  return fold.fold(kInput).complete().keep(kOutput);
}

// Blocks in the order of positions, the same on every rank.
void copyBlocks(BlockBuilder& steps, int32_t n, int32_t me) {
  const int32_t first_read = me == 0 ? 1 : 0;
  for (int32_t peer = 0; peer < n; ++peer) {
    StepBuilder step = steps.at(peer).keep(kOutput);
    peer == me ? step.read(kInput) : step.readInputOf(peer);
    if (peer == first_read && n > 1) step.after(kSignalLane, kReadyStep);
  }
}

Schedule scheduleOf(const std::vector<int32_t>& others, int32_t last_access, const LaneBuilder& data) {
  Schedule schedule{.grid = {1, static_cast<int32_t>(others.size()) + 1}};
  if (!others.empty()) schedule.lanes.push_back(signals(others, last_access));
  schedule.lanes.push_back(data.build());
  return schedule;
}

}  // namespace

Schedule buildPeerWrite(Collective collective, const Shape& shape, int32_t position, int32_t /*root*/) {
  const std::vector<int32_t> others = othersOf(shape.ranks(), position);
  LaneBuilder data;
  BlockBuilder steps = data.once();
  if (collective == Collective::kAllReduce) {
    foldOwnChunk(steps, others, position).keepInEvery();
  } else {
    StepBuilder copy = steps.at(position);
    if (!others.empty()) copy.after(kSignalLane, kReadyStep);
    copy.read(kInput).keepInEvery();
  }
  return scheduleOf(others, 0, data);
}

Schedule buildPeerRead(Collective collective, const Shape& shape, int32_t position, int32_t /*root*/) {
  const int32_t n = shape.ranks();
  const std::vector<int32_t> others = othersOf(n, position);
  LaneBuilder data;
  BlockBuilder steps = data.once();
  int32_t last_access = -1;
  if (collective == Collective::kAllGather) {
    copyBlocks(steps, n, position);
    last_access = position == n - 1 ? n - 2 : n - 1;
  } else if (collective == Collective::kReduceScatter) {
    foldOwnChunk(steps, others, position);
    last_access = 0;
  } else {
    StepBuilder fold = foldOwnChunk(steps, others, position);
    if (n > 1) fold.send(others[0]);
    for (size_t i = 1; i < others.size(); ++i) steps.at(position).read(kOutput).send(others[i]);
    for (size_t i = others.size(); i-- > 0;) steps.at(others[i]).recv(others[i]).keep(kOutput);
  }
  return scheduleOf(others, last_access, data);
}

}  // namespace horing
