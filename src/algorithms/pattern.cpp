#include "algorithms/pattern.h"

namespace horing {

namespace {

// The input must also reach this rank's own output.
StepBuilder readOwn(BlockBuilder& block, int32_t chunk, Place from, After after) {
  StepBuilder step = block.at(chunk).read(from);
  if (from.kind == Source::Kind::kIn) step.keep(kOutput);
  return step.after(after.lane, after.step, after.stride);
}

}  // namespace

void gatherRow(BlockBuilder block, Pattern pattern, const Members& members, int32_t row, Place from,
               After after) {
  const int32_t m = members.size, me = members.local;
  if (m == 1) {
    if (from.kind == Source::Kind::kIn) readOwn(block, members.chunk(row, me), from, after);
    return;
  }
  if (pattern == Pattern::kRing) {
    const int32_t next = members.peer(me + 1), previous = members.peer(me - 1);
    readOwn(block, members.chunk(row, me), from, after).send(next);
    for (int32_t hop = 1; hop < m - 1; ++hop)
      block.at(members.chunk(row, me - hop)).recv(previous).keep(kOutput).send(next);
    block.at(members.chunk(row, me + 1)).recv(previous).keep(kOutput);
    return;
  }
  readOwn(block, members.chunk(row, me), from, after).send(members.peer(me + 1));
  for (int32_t distance = 2; distance < m; ++distance)
    block.at(members.chunk(row, me)).read(from).send(members.peer(me + distance));
  for (int32_t distance = 1; distance < m; ++distance)
    block.at(members.chunk(row, me - distance)).recv(members.peer(me - distance)).keep(kOutput);
}

StepBuilder reduceRow(BlockBuilder block, Pattern pattern, const Members& members, int32_t row, Place to) {
  const int32_t m = members.size, me = members.local;
  if (m == 1) {
    return block.at(members.chunk(row, me)).read(kInput).keep(to);
  }
  if (pattern == Pattern::kRing) {
    const int32_t next = members.peer(me + 1), previous = members.peer(me - 1);
    block.at(members.chunk(row, me - 1)).read(kInput).send(next);
    for (int32_t hop = 2; hop < m; ++hop)
      block.at(members.chunk(row, me - hop)).recv(previous).fold(kInput).send(next);
    return block.at(members.chunk(row, me)).recv(previous).fold(kInput).keep(to);
  }
  for (int32_t distance = 1; distance < m; ++distance)
    block.at(members.chunk(row, me + distance)).read(kInput).send(members.peer(me + distance));
  StepBuilder last = block.at(members.chunk(row, me));
  for (int32_t distance = 1; distance < m; ++distance) last.recv(members.peer(me + distance));
  return last.fold(kInput).keep(to);
}

}  // namespace horing
