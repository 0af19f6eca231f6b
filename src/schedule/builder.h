#pragma once
// Writes schedules so that an algorithm reads like its description:
//
//   lane.at(behind(1)).read(in).send(next);
//   lane.repeat(n - 2, {0, -1}).at(behind(2)).recv(previous).fold(in).send(next);
//   lane.at(me).recv(previous).fold(in).keep(out);
#include <utility>

#include "schedule/schedule.h"

namespace horing {

// The space of a value: the space part of a Source or a Keep.
struct Place {
  Source::Kind kind;
  int32_t queue = 0;
};
inline constexpr Place kInput{Source::Kind::kIn};
inline constexpr Place kOutput{Source::Kind::kOut};
constexpr Place scratchQueue(int32_t queue) {
  return {Source::Kind::kScratch, queue};
}

// Builds one step; valid until the next step is added to the same lane.
class StepBuilder {
 public:
  explicit StepBuilder(Step& step) : step_(step) {}
  StepBuilder& read(Place place) { return add({place.kind, place.queue}); }
  StepBuilder& recv(int32_t peer) { return add({Source::Kind::kRecv, peer}); }
  StepBuilder& fold(Place place) { return read(place); }
  // Reads the chunk in that position's input, which must be ready, and must stay valid until released.
  StepBuilder& readInputOf(int32_t position) { return add({Source::Kind::kPeerIn, position}); }
  StepBuilder& keep(Place place) {
    const auto kind = place.kind == Source::Kind::kScratch ? Keep::Kind::kScratch : Keep::Kind::kOut;
    step_.keep = {kind, place.queue};
    return *this;
  }
  // Keeps the value in the outputs of all positions, which must be ready, and must stay valid until released.
  StepBuilder& keepInEvery() {
    step_.keep = {Keep::Kind::kEveryOut, 0};
    return *this;
  }
  StepBuilder& send(int32_t peer) {
    step_.send_to = peer;
    return *this;
  }
  // The fold of this step is the last one of its chunk.
  StepBuilder& complete() {
    step_.completes = true;
    return *this;
  }
  // In a signal lane: waits for a signal from each of these positions, then sends a signal to each.
  StepBuilder& await(const std::vector<int32_t>& positions) {
    for (const int32_t position : positions) add({Source::Kind::kSignal, position});
    return *this;
  }
  StepBuilder& signal(const std::vector<int32_t>& positions) {
    step_.signal_to = positions;
    return *this;
  }
  // Waits, slice by slice, for step `step` of lane `lane`; in iteration k of a block for step + k * stride.
  StepBuilder& after(int32_t lane, int32_t step, int32_t stride = 0) {
    step_.wait = {lane, step, stride};
    return *this;
  }

 private:
  StepBuilder& add(Source source) {
    step_.sources.push_back(source);
    return *this;
  }
  Step& step_;
};

struct Stride {
  int32_t rows = 0;
  int32_t columns = 0;
};

// Adds steps to the body of one block; valid until another block is opened on the same lane.
class BlockBuilder {
 public:
  explicit BlockBuilder(Block& block) : block_(block) {}
  StepBuilder at(int32_t chunk) {
    Step& step = block_.body.emplace_back();
    step.chunk = chunk;
    return StepBuilder(step);
  }
  // Steps in the body so far.
  int32_t size() const { return static_cast<int32_t>(block_.body.size()); }

 private:
  Block& block_;
};

class LaneBuilder {
 public:
  // A step that runs once.
  StepBuilder at(int32_t chunk) { return once().at(chunk); }
  // A block whose steps run once, in sequence.
  BlockBuilder once() { return repeat(1, {}); }
  // A block whose steps run `count` times; not at all if count <= 0.
  BlockBuilder repeat(int32_t count, Stride stride) {
    lane_.blocks.push_back({{}, count, stride.rows, stride.columns});
    return BlockBuilder(lane_.blocks.back());
  }
  // The lane, without empty blocks, with adjacent single blocks merged, and without strides in blocks that do not repeat.
  Lane build() const {
    Lane lane;
    for (const Block& block : lane_.blocks) {
      if (block.count <= 0 || block.body.empty()) continue;
      if (block.count > 1) {
        lane.blocks.push_back(block);
        continue;
      }
      if (lane.blocks.empty() || lane.blocks.back().count > 1) lane.blocks.push_back({});
      std::vector<Step>& body = lane.blocks.back().body;
      for (const Step& step : block.body) body.emplace_back(step).wait.stride = 0;
    }
    return lane;
  }

 private:
  Lane lane_;
};

}  // namespace horing
