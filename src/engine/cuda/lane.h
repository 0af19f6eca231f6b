#pragma once
// The interpreter: one block runs one lane of one part, slice by slice, in the order that engine/host/operation.h states, except concurrent
// steps, which crews of its threads run (ImageStep::concurrent_steps).
//
// Block, the thread's view of its block: as Threads in step.h, and
//   bool any(bool value);        a barrier that says whether `value` was true in any thread
//   LaneShared& shared();        the block's shared memory
//   static int32_t crews();      the number of crews, at most kMostCrews
//   Crew crew();                 the thread's view of its own crew: as Threads, and
//     int32_t number() const;    the number of the crew
#include <algorithm>

#include "engine/cuda/step.h"

namespace horing::cuda {

template <class R, class Block>
class LaneRun {
 public:
  HORING_DEVICE LaneRun(const LaneContext& lane, Block& block)
      : lane_(lane), call_(lane.call()), plan_(lane.plan()), shared_(lane.shared), block_(block) {}

  // False if it gave up; PlanView::failure says why.
  HORING_DEVICE bool run() {
    enter();
    const bool tells = plan_.activity && own() == 0;
    // No fence: there is nothing to publish yet, and the reader tolerates that the end of the previous run becomes visible later.
    if (tells) storeFenced(&lane_.activity().begun, sequence_ + 1);
    const bool ran = runSteps();
    block_.sync();
    leave(ran);
    if (tells) lane_.activity().end(sequence_ + 1, plan_.hosts_carry);
    return ran;
  }

 private:
  HORING_DEVICE bool runSteps() {
    const int32_t slices = call_.slices, window = plan_.window;
    int32_t step = 0, begin = 0;  // of the lane; of the window
    for (;;) {
      // The only call site, executed first: instruction fetches are slow, too.
      loadSteps(step);
      block_.sync();
      // After a run that gave up, the state is invalid.
      if (shared_.has_failed) return false;
      if (slices == 0 || step_count_ == 0) return true;
      do {
        const int32_t concurrent = shared_.steps[step - loaded_].concurrent_steps;
        const int32_t end = std::min(begin + window, slices);
        if (shared_.steps[step - loaded_].needs_barrier) block_.sync();
        if (!(concurrent > 1 ? runAtOnce(step, concurrent, begin, end) : runStep(step, begin, end)))
          return false;
        step += concurrent;
        if (step == step_count_) {
          step = 0;
          begin += window;
          if (begin >= slices) return true;
          block_.sync();
        }
      } while (isNear(step));
      block_.sync();  // no thread reads the others' state any more
    }
  }

  HORING_DEVICE bool runStep(int32_t step, int32_t begin, int32_t end) {
    return StepRun<R, Block, decltype(shared_.slice)>(lane_, step, step - loaded_, block_, shared_.slice)
        .run(begin, end);
  }

  // Each crew runs its own steps in order. A schedule that completes with all steps in order also completes with this weaker order.
  HORING_DEVICE bool runAtOnce(int32_t first, int32_t count, int32_t begin, int32_t end) {
    auto crew = block_.crew();
    auto& slice = shared_.slices_of_crews[crew.number()];
    bool ran = true;
    for (int32_t s = crew.number(); ran && s < count; s += block_.crews())
      ran = StepRun<R, decltype(crew), SliceShared<1>>(lane_, first + s, first + s - loaded_, crew, slice)
                .run(begin, end);
    return !block_.any(!ran);
  }

  HORING_DEVICE void enter() {
    // Loads everything at once, since memory is slow: only the state of ports depends on another load. Some loads exceed what the lane has.
    HORING_ROLLED
    for (int32_t p = own(); p < plan_.most_ports; p += stride()) {
      Port* const far = shared_.far_ports[p] = lane_.farPort(p);
      if (far) shared_.ports[p] = *inGlobal(far);
    }
    sequence_ = lane_.record().sequence;
    step_count_ = plan_.step_counts[lane_.lane_number];
    const bool has_failed = loadFlag(&plan_.failure->claimed) != 0;
    if (own() == 0) {
      shared_.step_count = step_count_;
      shared_.sequence = sequence_;
      shared_.has_failed = has_failed;
      shared_.slice.lacks = shared_.slice.is_foreign = false;
      for (auto& slice : shared_.slices_of_crews) slice.lacks = slice.is_foreign = false;
      if constexpr (R::kIsScaled)
        if (call_.scale.factor_at) memcpy(&shared_.scalar, call_.scale.factor_at, call_.element_bytes);
    }
  }

  // Saves the state for the next call; ports always, since peers see their counters.
  HORING_DEVICE void leave(bool ran) {
    HORING_ROLLED
    for (int32_t p = own(); p < plan_.most_ports; p += stride())
      if (Port* const far = shared_.far_ports[p]) *inGlobal(far) = shared_.ports[p];
    if (own() == 0 && ran) lane_.record().sequence = sequence_ + 1;
  }

  // Including its concurrent steps.
  HORING_DEVICE bool isNear(int32_t step) const {
    const int32_t near = step - loaded_;
    return near >= 0 && near < LaneShared::kSteps &&
           near + shared_.steps[near].concurrent_steps <= LaneShared::kSteps;
  }

  // Loads steps [first, first + kSteps) of the lane, as far as they exist, one per thread.
  HORING_DEVICE void loadSteps(int32_t first) {
    loaded_ = first;
    const ImageStep* const steps = inGlobal(plan_.steps) + lane_.lane_number * plan_.most_steps + first;
    constexpr int32_t kSteps = LaneShared::kSteps, kSources = LaneShared::kSources;
    const int32_t count = std::min(kSteps, plan_.most_steps - first);
    HORING_ROLLED
    for (int32_t i = stride() - 1 - own(); i < count; i += stride()) {
      const ImageStep step = steps[i];
      shared_.steps[i] = step;
      shared_.steps_of_part[i] = ofPart(step);
    }
    const int32_t first_source = first == 0 ? 0 : steps->first_source;
    const int32_t sources = std::min(kSources, plan_.most_sources - first_source);
    // Not by the threads that load ports.
    HORING_ROLLED
    for (int32_t s = (own() + stride() / 2) % stride(); s < sources; s += stride())
      shared_.sources[s] = lane_.sources()[first_source + s];
    if (own() == 0) shared_.first_source = first_source;
  }

  HORING_DEVICE StepOfPart ofPart(const ImageStep& step) const {
    const ChunkSizes& sizes = call_.sizes;
    // Not by an index, which would force the array into memory.
    const bool by_rank = sizes.order == 0;
    const ElementRange input =
        sizes.range(by_rank ? step.input_block[0] : step.input_block[1], step.of_block);
    const ElementRange output =
        sizes.range(by_rank ? step.output_block[0] : step.output_block[1], step.of_block);
    const ElementRange range =
        PartCut::range(input.count, sizes.partOf(input.count), call_.shareOf(lane_.part));
    // The tag is equal at both ends if they agree on the operation, and otherwise practically never: the digest is a hash.
    constexpr uint64_t kOfSequence = 0x9e3779b97f4a7c15;
    return {(input.offset + range.offset) * call_.element_bytes,
            (output.offset + range.offset) * call_.element_bytes, range.count,
            (call_.digest + sequence_ * kOfSequence) ^ static_cast<uint64_t>(step.chunk) << 32};
  }

  HORING_DEVICE int32_t own() const { return static_cast<int32_t>(block_.thread()); }
  HORING_DEVICE int32_t stride() const { return static_cast<int32_t>(block_.threads()); }

  const LaneContext& lane_;
  const LaneCall& call_;
  const PlanView& plan_;
  LaneShared& shared_;
  Block& block_;
  int32_t step_count_ = 0;
  int32_t loaded_ = 0;  // the first step in LaneShared::steps
  uint64_t sequence_ = 0;
};

// The place of a block in its grid, see LaneCalls.
struct BlockPlace {
  int32_t lane;
  int32_t part;
  int32_t rank;
  int32_t ranks;
};

// A block's work in a launch: its lane in each of its rank's calls that use its part, in sequence. False: it gave up.
template <class R, class Block>
HORING_DEVICE inline bool runCalls(const LaneCalls& calls, const BlockPlace& place, Block& block) {
  for (int32_t c = place.rank; c < calls.count; c += place.ranks) {
    const LaneCall& call = calls.each[c];
    const int32_t end = calls.first_part + place.part;
    const int32_t part = end < call.plan.parts ? end : end - call.plan.parts;
    if (place.lane >= call.plan.lane_count || call.shareOf(part) >= call.used_parts) continue;
    const LaneContext lane{calls, c, c - place.rank, place.lane, part, block.shared()};
    if (!LaneRun<R, Block>(lane, block).run()) return false;
    // All threads must see the record that the call leaves.
    block.sync();
  }
  return true;
}

}  // namespace horing::cuda
