// A star: the centre sends to every other rank, or receives from each. One hop and n-1 messages, all of them at the
// centre: D(n-1) bytes through its link for broadcast and reduce, D(n-1)/n, the least possible, for gather and scatter.
// Peers are taken in the order root+1, ..., root-1; a reduction folds them, the root last, in one pass.
//
// all-reduce is both, with the last position as its centre: 2 hops, 2(n-1) messages in all, where direct exchange has 2n(n-1). For tiny
// messages of many ranks on few cores the cost is how often a rank must be scheduled: here the centre once, after all others have sent, and
// each other rank twice, to send and to receive.
#include "algorithms/catalogue.h"
#include "schedule/builder.h"

namespace horing {

namespace {

int32_t peerAt(int32_t root, int32_t distance, int32_t n) {
  return (root + distance) % n;
}

// A broadcast sends every rank the same chunk, a scatter each rank its own.
Schedule fromRoot(Collective collective, int32_t n, int32_t me, int32_t root) {
  const bool scatters = collective == Collective::kScatter;
  const auto chunkOf = [&](int32_t peer) { return scatters ? peer : 0; };
  LaneBuilder lane;
  BlockBuilder steps = lane.once();
  if (me != root) {
    steps.at(chunkOf(me)).recv(root).keep(kOutput);
  } else {
    for (int32_t distance = 1; distance < n; ++distance) {
      const int32_t peer = peerAt(root, distance, n);
      steps.at(chunkOf(peer)).read(kInput).send(peer);
    }
    steps.at(chunkOf(me)).read(kInput).keep(kOutput);
  }
  return {.grid = {1, scatters ? n : 1}, .lanes = {lane.build()}};
}

Schedule gatherToRoot(int32_t n, int32_t me, int32_t root) {
  LaneBuilder lane;
  BlockBuilder steps = lane.once();
  if (me != root) {
    steps.at(me).read(kInput).send(root);
  } else {
    steps.at(me).read(kInput).keep(kOutput);
    for (int32_t distance = 1; distance < n; ++distance) {
      const int32_t peer = peerAt(root, distance, n);
      steps.at(peer).recv(peer).keep(kOutput);
    }
  }
  return {.grid = {1, n}, .lanes = {lane.build()}};
}

Schedule reduceToRoot(int32_t n, int32_t me, int32_t root) {
  LaneBuilder lane;
  StepBuilder step = lane.at(0);
  if (me == root)
    for (int32_t distance = 1; distance < n; ++distance) step.recv(peerAt(root, distance, n));
  step.fold(kInput);
  me == root ? step.complete().keep(kOutput) : step.send(root);
  return {.lanes = {lane.build()}};
}

Schedule reduceAndSpread(int32_t n, int32_t me) {
  const int32_t centre = n - 1;
  LaneBuilder lane;
  if (me != centre) {
    lane.at(0).read(kInput).send(centre);
    lane.at(0).recv(centre).keep(kOutput);
  } else {
    StepBuilder fold = lane.at(0);
    for (int32_t peer = 0; peer < centre; ++peer) fold.recv(peer);
    fold.fold(kInput).complete().keep(kOutput);
    if (centre > 0) fold.send(0);
    for (int32_t peer = 1; peer < centre; ++peer) lane.at(0).read(kOutput).send(peer);
  }
  return {.grid = {1, 1}, .lanes = {lane.build()}};
}

}  // namespace

Schedule buildStar(Collective collective, const Shape& shape, int32_t position, int32_t root) {
  const int32_t n = shape.ranks();
  if (collective == Collective::kAllReduce) return reduceAndSpread(n, position);
  if (collective == Collective::kGather) return gatherToRoot(n, position, root);
  if (collective == Collective::kReduce) return reduceToRoot(n, position, root);
  return fromRoot(collective, n, position, root);
}

}  // namespace horing
