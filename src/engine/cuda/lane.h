#pragma once
// The interpreter: one block runs one lane of one part, slice by slice, in the order that engine/host/operation.h states.
//
// A slice takes two barriers. Before the first, the *watchers* wait, each for its share of what the slice needs: threads of the first
// warp for sources, the first of them for the other lane, too, and the last thread of the block for room where the value goes. Then all
// fold. After the second the same threads post and release, which shows all that the block has written: two warps, at the same time,
// and one fence in each. What a small slice takes is what comes one after the other: looks at memory, fences and barriers; so all that
// can be known before a slice is, and a message's label comes while its data does.
//
// Block, the thread's view of its block:
//   uint32_t thread() const, threads() const;
//   void sync();             a barrier
//   bool any(bool value);    a barrier that says whether `value` was true in any thread
//   void pause();            between two looks at something that others change
//   uint64_t nowNs() const;  of a clock that never goes back
//   LaneShared& shared();    of the block
#include "engine/cuda/fold_body.h"
#include "engine/cuda/lane_call.h"
#include "engine/cuda/patience.h"
#include "engine/host/message_tag.h"

namespace horing::cuda {

// Whom a step can write to: outputs of ranks that share the GPU, or one place that keeps the value and one that sends it.
inline constexpr int kMaxDestinations = kMaxCallsOfLaunch;

// What a step is of one part of a call.
struct StepOfPart {
  size_t input = 0;   // bytes from the start of the rank's buffers
  size_t output = 0;  //
  size_t count = 0;   // elements
  uint64_t tag = 0;   // of its messages, but for the slice
};

// What the threads of a block tell each other about a slice, and what they have near at hand: memory of the GPU is a quarter of a
// microsecond away, and after each look at a counter so is all that the block has read of it before.
struct LaneShared {
  static constexpr int32_t kSteps = 32;                  // so many of the lane at a time
  static constexpr int32_t kSources = 64, kPorts = 128;  // what is beyond stays where it is
  ImageLane lane;
  ImageStep steps[kSteps];
  StepOfPart steps_of_part[kSteps];
  int32_t first_source;  // among the image's
  ImageSource sources[kSources];
  Port ports[kPorts];
  const std::byte* operands[kMaxSources];
  uint8_t is_input[kMaxSources];
  std::byte* destinations[kMaxDestinations];
  int32_t destination_count;
  uint64_t scalar;    // the call's, if it has one in memory
  uint64_t sequence;  // of the call, see LaneRecord
  bool has_failed;    // a run before it, or a lane beside it
};

template <class R, class Block>
class LaneRun {
 public:
  // `number`: of the call; `first`: of the first rank's, which goes with it.
  HORING_DEVICE LaneRun(const LaneCalls& calls, int32_t number, int32_t first, int32_t lane, int32_t part,
                        Block& block)
      : calls_(calls),
        first_(first),
        call_(calls.each[number]),
        plan_(call_.plan),
        lane_(block.shared().lane),
        lane_number_(lane),
        part_(part),
        block_(block),
        shared_(block.shared()) {}

  // False if it gave up; PlanView::failure says why.
  HORING_DEVICE bool run() {
    enter();
    const bool tells = plan_.activity && own() == 0;
    // No fence: there is nothing to show yet, and who looks does not mind whether the end of the run before comes later.
    if (tells) storeFenced(&activity().begun, shared_.sequence + 1);
    // Nothing is right any more behind a run that gave up.
    const bool ran = !shared_.has_failed && runSteps();
    block_.sync();
    leave(ran);
    if (tells) storeRelease(&activity().ended, shared_.sequence + 1);
    return ran;
  }

 private:
  HORING_DEVICE bool runSteps() {
    for (int32_t begin = 0; begin < call_.slices; begin += plan_.window) {
      const int32_t end = std::min(begin + plan_.window, call_.slices);
      for (int32_t step = 0; step < lane_.step_count; ++step)
        if (!runStep(step, begin, end)) return false;
    }
    return true;
  }

  HORING_DEVICE void enter() {
    const ImageLane lane = plan_.lanes[lane_number_];
    loadSteps(lane, 0);
    for (int32_t p = own(); p < lane.port_count && p < LaneShared::kPorts; p += stride())
      shared_.ports[p] = farPort(lane.first_port + p);
    if (own() == 0) {
      shared_.lane = lane;
      shared_.sequence = record().sequence;
      shared_.has_failed = loadFlag(&plan_.failure->claimed) != 0;
      if constexpr (R::kIsScaled)
        if (call_.scale.factor_at) memcpy(&shared_.scalar, call_.scale.factor_at, call_.element_bytes);
    }
    block_.sync();
  }

  // For the next call; and ends of queues always, for others see how far they have come.
  HORING_DEVICE void leave(bool ran) {
    for (int32_t p = own(); p < lane_.port_count && p < LaneShared::kPorts; p += stride())
      farPort(lane_.first_port + p) = shared_.ports[p];
    if (own() == 0 && ran) record().sequence = shared_.sequence + 1;
  }

  // Steps [first, first + kSteps) of the lane. Each by a thread, for it takes divisions.
  HORING_DEVICE void loadSteps(const ImageLane& lane, int32_t first) {
    loaded_ = first;
    const ImageStep* const steps = plan_.steps + lane.first_step + first;
    constexpr int32_t kSteps = LaneShared::kSteps, kSources = LaneShared::kSources;
    const int32_t count = std::min(kSteps, lane.step_count - first);
    if (count <= 0) return;
    for (int32_t i = stride() - 1 - own(); i < count; i += stride()) {
      const ImageStep step = steps[i];
      shared_.steps[i] = step;
      shared_.steps_of_part[i] = ofPart(step);
    }
    const int32_t first_source = steps->first_source;
    const int32_t sources = std::min(kSources, lane.end_source - first_source);
    for (int32_t s = own(); s < sources; s += stride()) shared_.sources[s] = plan_.sources[first_source + s];
    if (own() == 0) shared_.first_source = first_source;
  }

  HORING_DEVICE StepOfPart ofPart(const ImageStep& step) const {
    const size_t chunk = call_.layout.count(step.chunk);
    const ElementRange range = call_.cut.range(chunk, call_.shareOf(part_));
    // The tag is equal at both ends exactly if they agree on what is being done.
    return {
        (call_.layout.inputOffset(step.chunk) + range.offset) * call_.element_bytes,
        (call_.layout.outputOffset(step.chunk) + range.offset) * call_.element_bytes, range.count,
        mixBits(call_.digest ^ record().sequence) ^ mixBits(chunk) ^ static_cast<uint64_t>(step.chunk) << 32};
  }

  // Where the slice at hand is.
  struct At {
    int32_t step;
    int32_t slice;
    size_t offset;  // bytes from the start of the part's elements of the chunk
    size_t bytes;
    uint64_t tag;
  };

  HORING_DEVICE bool runStep(int32_t number, int32_t begin, int32_t end) {
    // The step before is over for all: another thread may have used its ports.
    block_.sync();
    if (const int32_t first = number - number % LaneShared::kSteps; first != loaded_) {
      loadSteps(lane_, first);
      block_.sync();
    }
    const ImageStep& step = shared_.steps[number - loaded_];
    const StepOfPart& of_part = shared_.steps_of_part[number - loaded_];
    for (int32_t slice = begin; slice < end; ++slice) {
      const ElementRange range = call_.slicing.range(of_part.count, slice);
      const At at{number, slice, range.offset * call_.element_bytes, range.count * call_.element_bytes,
                  of_part.tag ^ static_cast<uint64_t>(slice)};
      if (range.count == 0) {
        tellProgress(step, at);
      } else if (!runSlice(step, of_part, at, range.count)) {
        return false;
      }
    }
    return true;
  }

  HORING_DEVICE bool runSlice(const ImageStep& step, const StepOfPart& of_part, const At& at, size_t count) {
    if (block_.any(!gather(step, of_part, at))) return false;
    FoldScale scale = call_.scale;
    scale.is_final = step.completes;
    if constexpr (R::kIsScaled)
      if (scale.factor_at) scale.factor_at = &shared_.scalar;
    const FoldWork work{shared_.operands,     shared_.is_input,          step.source_count,
                        shared_.destinations, shared_.destination_count, count,
                        block_.thread(),      block_.threads()};
    foldSlice<R>(scale, work);
    if (block_.any(isForeign(step, at))) return false;
    hand(step, at);
    return true;
  }

  // A watcher's share of what the slice needs; false: given up.
  HORING_DEVICE bool gather(const ImageStep& step, const StepOfPart& of_part, const At& at) {
    bool there = true;
    label_ = at.tag;
    if (own() == 0) there = awaitLane(step, at);
    for (int32_t s = firstOwn(); there && s < step.source_count; s += watchers())
      there = findSource(step, of_part, at, s);
    if (there && isLast()) there = findRoom(step, of_part, at);
    return there;
  }

  HORING_DEVICE bool awaitLane(const ImageStep& step, const At& at) {
    if (step.wait_lane < 0) return true;
    const LaneClock clock{step.wait_step_count, call_.slices, plan_.window};
    const uint64_t target = clock.after(shared_.sequence, step.wait_step, at.slice);
    const uint64_t* const progress = &plan_.records[part_ * plan_.lane_count + step.wait_lane].progress;
    return await([&] { return LaneClock::reached(loadAcquire(progress), target); }, at, -1);
  }

  HORING_DEVICE bool findSource(const ImageStep& step, const StepOfPart& of_part, const At& at, int32_t s) {
    const ImageSource source = sourceAt(step, s);
    const std::byte* operand = nullptr;
    switch (source.kind) {
      case Source::Kind::kIn:
        operand = call_.input + of_part.input + at.offset;
        break;
      case Source::Kind::kPeerIn:
        operand = callAt(source.index).input + of_part.input + at.offset;
        break;
      case Source::Kind::kOut:
        operand = call_.output + of_part.output + at.offset;
        break;
      default:
        operand = receive(at, source);
        if (!operand) return false;
    }
    shared_.operands[s] = operand;
    shared_.is_input[s] = source.kind == Source::Kind::kIn || source.kind == Source::Kind::kPeerIn;
    return true;
  }

  // The oldest message of a port, or null. What its label says is asked once the data is read.
  HORING_DEVICE const std::byte* receive(const At& at, const ImageSource& source) {
    Port& port = portAt(source.index);
    if (!await([&] { return port.canReceive(); }, at, source.index)) return nullptr;
    if (label_ == at.tag) label_ = port.labels[port.slot].tag;
    return port.data();
  }

  // Whether a message that this watcher has received is of another operation: gives up then.
  HORING_DEVICE bool isForeign(const ImageStep& step, const At& at) {
    if (label_ == at.tag) return false;
    for (int32_t s = firstOwn(); s < step.source_count; s += watchers()) {
      const ImageSource source = sourceAt(step, s);
      if (!takesPort(source.kind)) continue;
      const Port& port = portAt(source.index);
      if (port.labels[port.slot].tag != at.tag) giveUp(Failure::Kind::kForeignMessage, at, source.index);
    }
    return true;
  }

  HORING_DEVICE bool findRoom(const ImageStep& step, const StepOfPart& of_part, const At& at) {
    int32_t count = 0;
    const size_t offset = of_part.output + at.offset;
    if (step.keeps_out) shared_.destinations[count++] = call_.output + offset;
    if (step.keeps_every_out)
      for (; count < plan_.ranks; ++count)
        shared_.destinations[count] = calls_.each[first_ + count].output + offset;
    if (step.keep_port >= 0 && !(shared_.destinations[count++] = acquire(step.keep_port, at))) return false;
    if (step.send_port >= 0 && !(shared_.destinations[count++] = acquire(step.send_port, at))) return false;
    shared_.destination_count = count;
    return true;
  }

  // The next free slot of a port, with the message's label on it, or null.
  HORING_DEVICE std::byte* acquire(int32_t number, const At& at) {
    Port& port = portAt(number);
    if (!await([&] { return port.canSend(); }, at, number)) return nullptr;
    port.labels[port.slot] = {at.tag, at.bytes};
    return port.data();
  }

  // Posts and releases what this watcher has looked after.
  HORING_DEVICE void hand(const ImageStep& step, const At& at) {
    if (own() == 0 && step.is_awaited) {
      releaseFenceOfGpu();
      tellProgress(step, at);
    }
    if (isLast() && (step.send_port >= 0 || step.keep_port >= 0)) {
      releaseFence();
      if (step.send_port >= 0) portAt(step.send_port).advanceFenced();
      if (step.keep_port >= 0) portAt(step.keep_port).advanceFenced();
    }
    bool is_fenced = false;
    for (int32_t s = firstOwn(); s < step.source_count; s += watchers()) {
      const ImageSource source = sourceAt(step, s);
      if (!takesPort(source.kind)) continue;
      if (!is_fenced) releaseFence();
      is_fenced = true;
      portAt(source.index).advanceFenced();
    }
  }

  // To lanes of this GPU, after a releaseFenceOfGpu(), or where there is nothing to show.
  HORING_DEVICE void tellProgress(const ImageStep& step, const At& at) {
    if (own() != 0 || !step.is_awaited) return;
    const LaneClock clock{lane_.step_count, call_.slices, plan_.window};
    storeFenced(&record().progress, clock.after(shared_.sequence, at.step, at.slice));
  }

  template <class Condition>
  HORING_DEVICE bool await(const Condition& is_there, const At& at, int32_t port) {
    // Another lane of this rank that waits for a peer in vain says so itself; but it may never have begun.
    const uint64_t later_ns = port < 0 ? Patience::kLaterNs : 0;
    Patience patience;
    for (uint32_t looks = 1; !is_there(); ++looks) {
      if (looks % Patience::kLooks == 0) {
        const Failure::Kind end =
            patience.look(block_.nowNs(), plan_.abort, &plan_.failure->claimed, plan_.timeout_ns, later_ns);
        if (end != Failure::Kind::kNone) {
          giveUp(end, at, port);
          return false;
        }
      }
      block_.pause();
    }
    return true;
  }

  HORING_DEVICE void giveUp(Failure::Kind kind, const At& at, int32_t port) {
    Failure& failure = *plan_.failure;
    if (!claim(&failure.claimed)) return;
    failure.lane = lane_number_;
    failure.part = part_;
    failure.step = at.step;
    failure.slice = at.slice;
    failure.port = port;
    failure.call = call_.number;
    failure.run = shared_.sequence;
    // Last, for the host looks when any kernel has set the flag: it shall find all of it, or nothing.
    storeFlag(&failure.kind, static_cast<uint32_t>(kind));
    // The other ranks wait for this one in vain.
    storeFlag(plan_.abort, 1);
  }

  HORING_DEVICE static bool takesPort(Source::Kind kind) {
    return kind == Source::Kind::kRecv || kind == Source::Kind::kScratch;
  }
  HORING_DEVICE const LaneCall& callAt(int32_t position) const {
    return calls_.each[first_ + plan_.rank_of_position[position]];
  }
  HORING_DEVICE LaneRecord& record() const { return plan_.records[part_ * plan_.lane_count + lane_number_]; }
  HORING_DEVICE Activity& activity() const { return plan_.activity[&record() - plan_.records]; }
  HORING_DEVICE ImageSource sourceAt(const ImageStep& step, int32_t s) const {
    const int32_t near = step.first_source + s - shared_.first_source;
    return near < LaneShared::kSources ? shared_.sources[near] : plan_.sources[step.first_source + s];
  }
  HORING_DEVICE Port& farPort(int32_t number) const {
    return *plan_.ports[part_ * plan_.port_count + number];
  }
  HORING_DEVICE Port& portAt(int32_t number) const {
    const int32_t near = number - lane_.first_port;
    return near < LaneShared::kPorts ? shared_.ports[near] : farPort(number);
  }
  HORING_DEVICE int32_t own() const { return static_cast<int32_t>(block_.thread()); }
  HORING_DEVICE int32_t stride() const { return static_cast<int32_t>(block_.threads()); }
  // A warp, if the block has one.
  HORING_DEVICE int32_t watchers() const { return stride() < 32 ? stride() : 32; }
  // Of the sources that a thread looks after; others have none.
  HORING_DEVICE int32_t firstOwn() const { return own() < watchers() ? own() : INT32_MAX; }
  HORING_DEVICE bool isLast() const { return own() + 1 == stride(); }

  const LaneCalls& calls_;
  const int32_t first_;
  const LaneCall& call_;
  const PlanView& plan_;
  const ImageLane& lane_;
  const int32_t lane_number_;
  const int32_t part_;
  Block& block_;
  LaneShared& shared_;
  int32_t loaded_ = 0;  // the first step in LaneShared::steps
  uint64_t label_ =
      0;  // of a message that this watcher has received; as it should be while there is none, or once one was not
};

// Where a block is in its grid, see LaneCalls.
struct BlockPlace {
  int32_t lane;
  int32_t part;
  int32_t rank;
  int32_t ranks;
};

// What a block does of a launch: its lane of those of its rank's calls that use its part, one after the other. False: it gave up.
template <class R, class Block>
HORING_DEVICE inline bool runCalls(const LaneCalls& calls, const BlockPlace& place, Block& block) {
  for (int32_t c = place.rank; c < calls.count; c += place.ranks) {
    const LaneCall& call = calls.each[c];
    const int32_t end = calls.first_part + place.part;
    const int32_t part = end < call.plan.parts ? end : end - call.plan.parts;
    if (place.lane >= call.plan.lane_count || call.shareOf(part) >= call.used_parts) continue;
    if (!LaneRun<R, Block>(calls, c, c - place.rank, place.lane, part, block).run()) return false;
    // All threads shall see what the call leaves in the record.
    block.sync();
  }
  return true;
}

}  // namespace horing::cuda
