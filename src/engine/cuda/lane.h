#pragma once
// The interpreter: one block runs one lane of one part, slice by slice, in the order that engine/host/operation.h states.
//
// A slice takes two barriers. Before the first, the *watchers* wait, each for its share of what the slice needs: threads of the first
// warp for sources, the first of them for the other lane, too, and the last thread of the block for room where the value goes. Then all
// fold. After the second the same threads post and release, which shows all that the block has written: two warps, at the same time,
// and one fence in each.
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

// What the threads of a block tell each other about a slice, and what they have near at hand: memory of the GPU is a quarter of a
// microsecond away, and after each look at a counter so is all that the block has read of it before.
struct LaneShared {
  static constexpr int32_t kSources = 32, kPorts = 128;  // what is beyond stays where it is
  ImageLane lane;
  ImageStep steps[2];  // the one at hand and the next
  ImageSource sources[2][kSources];
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
    if (lane.step_count > 0) fetch(lane.first_step);
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

  // Where the slice at hand is.
  struct At {
    int32_t step;
    int32_t slice;
    size_t offset;  // bytes from the chunk's start
    size_t bytes;
  };

  HORING_DEVICE bool runStep(int32_t number, int32_t begin, int32_t end) {
    // Shows the step, and its ports: another thread may have used them in the step before.
    block_.sync();
    const ImageStep& step = shared_.steps[turn_];
    turn_ ^= 1;
    fetch(lane_.first_step + (number + 1 < lane_.step_count ? number + 1 : 0));
    const ElementRange own = call_.cut.range(call_.layout.count(step.chunk), call_.shareOf(part_));
    for (int32_t slice = begin; slice < end; ++slice) {
      const ElementRange range = call_.slicing.range(own.count, slice);
      const At at{number, slice, (own.offset + range.offset) * call_.element_bytes,
                  range.count * call_.element_bytes};
      if (range.count == 0) {
        tellProgress(number, slice);
      } else if (!runSlice(step, at, range.count)) {
        return false;
      }
    }
    return true;
  }

  HORING_DEVICE bool runSlice(const ImageStep& step, const At& at, size_t count) {
    if (block_.any(!gather(step, at))) return false;
    FoldScale scale = call_.scale;
    scale.is_final = step.completes;
    if constexpr (R::kIsScaled)
      if (scale.factor_at) scale.factor_at = &shared_.scalar;
    const FoldWork work{shared_.operands,     shared_.is_input,          step.source_count,
                        shared_.destinations, shared_.destination_count, count,
                        block_.thread(),      block_.threads()};
    foldSlice<R>(scale, work);
    block_.sync();
    if (isWatched() && (own() < watchers() || isLast())) hand(step, at);
    return true;
  }

  // A step of the image and its sources, for the next turn. By the last threads, for the watchers, the first ones, have more to do. All
  // meet before they look at it.
  HORING_DEVICE void fetch(int32_t number) {
    constexpr int32_t kWords = sizeof(ImageStep) / sizeof(uint32_t);
    const ImageStep& from = plan_.steps[number];
    for (int32_t at = stride() - 1 - own(); at < kWords + LaneShared::kSources; at += stride()) {
      if (at < kWords) {
        copyWord(&shared_.steps[turn_], &from, at);
      } else if (const int32_t s = at - kWords; s < from.source_count) {
        shared_.sources[turn_][s] = plan_.sources[from.first_source + s];
      }
    }
  }
  HORING_DEVICE static void copyWord(void* to, const void* from, int32_t number) {
    const size_t offset = static_cast<size_t>(number) * sizeof(uint32_t);
    memcpy(static_cast<std::byte*>(to) + offset, static_cast<const std::byte*>(from) + offset,
           sizeof(uint32_t));
  }

  // A watcher's share of what the slice needs; false: given up.
  HORING_DEVICE bool gather(const ImageStep& step, const At& at) {
    bool there = true;
    if (own() == 0) there = awaitLane(step, at);
    for (int32_t s = firstOwn(); there && s < step.source_count; s += watchers())
      there = findSource(step, at, s);
    if (there && isLast()) there = findRoom(step, at);
    return there;
  }

  HORING_DEVICE bool awaitLane(const ImageStep& step, const At& at) {
    if (step.wait_lane < 0) return true;
    const ImageLane& other = plan_.lanes[step.wait_lane];
    const LaneClock clock{other.step_count, call_.slices, plan_.window};
    const uint64_t target = clock.after(shared_.sequence, step.wait_step, at.slice);
    const uint64_t* const progress = &plan_.records[part_ * plan_.lane_count + step.wait_lane].progress;
    return await([&] { return LaneClock::reached(loadAcquire(progress), target); }, at, -1);
  }

  HORING_DEVICE bool findSource(const ImageStep& step, const At& at, int32_t s) {
    const ImageSource source = sourceAt(step, s);
    const std::byte* operand = nullptr;
    switch (source.kind) {
      case Source::Kind::kIn:
        operand = call_.input + inputBytes(step) + at.offset;
        break;
      case Source::Kind::kPeerIn:
        operand = callAt(source.index).input + inputBytes(step) + at.offset;
        break;
      case Source::Kind::kOut:
        operand = call_.output + outputBytes(step) + at.offset;
        break;
      default:
        operand = receive(step, at, source);
        if (!operand) return false;
    }
    shared_.operands[s] = operand;
    shared_.is_input[s] = source.kind == Source::Kind::kIn || source.kind == Source::Kind::kPeerIn;
    return true;
  }

  // The oldest message of a port, or null.
  HORING_DEVICE const std::byte* receive(const ImageStep& step, const At& at, const ImageSource& source) {
    Port& port = portAt(source.index);
    if (!await([&] { return port.canReceive(); }, at, source.index)) return nullptr;
    if (port.labels[port.slot].tag == tagOf(step, at)) return port.data();
    giveUp(Failure::Kind::kForeignMessage, at, source.index);
    return nullptr;
  }

  HORING_DEVICE bool findRoom(const ImageStep& step, const At& at) {
    int32_t count = 0;
    const size_t offset = outputBytes(step) + at.offset;
    if (step.keeps_out) shared_.destinations[count++] = call_.output + offset;
    if (step.keeps_every_out)
      for (; count < plan_.ranks; ++count)
        shared_.destinations[count] = calls_.each[first_ + count].output + offset;
    if (step.keep_port >= 0 && !(shared_.destinations[count++] = acquire(step.keep_port, step, at)))
      return false;
    if (step.send_port >= 0 && !(shared_.destinations[count++] = acquire(step.send_port, step, at)))
      return false;
    shared_.destination_count = count;
    return true;
  }

  // The next free slot of a port, with the message's label on it, or null.
  HORING_DEVICE std::byte* acquire(int32_t number, const ImageStep& step, const At& at) {
    Port& port = portAt(number);
    if (!await([&] { return port.canSend(); }, at, number)) return nullptr;
    port.labels[port.slot] = {tagOf(step, at), at.bytes};
    return port.data();
  }

  // Posts and releases what this watcher has looked after.
  HORING_DEVICE void hand(const ImageStep& step, const At& at) {
    releaseFence();
    if (isLast() && step.send_port >= 0) portAt(step.send_port).advanceFenced();
    if (isLast() && step.keep_port >= 0) portAt(step.keep_port).advanceFenced();
    for (int32_t s = firstOwn(); s < step.source_count; s += watchers()) {
      const ImageSource source = sourceAt(step, s);
      if (takesPort(source.kind)) portAt(source.index).advanceFenced();
    }
    tellProgress(at.step, at.slice);
  }

  // After a releaseFence(), or where there is nothing to show.
  HORING_DEVICE void tellProgress(int32_t step, int32_t slice) {
    if (own() != 0) return;
    const LaneClock clock{lane_.step_count, call_.slices, plan_.window};
    storeFenced(&record().progress, clock.after(shared_.sequence, step, slice));
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

  // Identifies a message to the peer: equal at both ends exactly if they agree on what is being done.
  HORING_DEVICE uint64_t tagOf(const ImageStep& step, const At& at) const {
    return mixBits(call_.digest ^ shared_.sequence) ^ mixBits(call_.layout.count(step.chunk)) ^
           static_cast<uint64_t>(step.chunk) << 32 ^ static_cast<uint64_t>(at.slice);
  }

  HORING_DEVICE static bool takesPort(Source::Kind kind) {
    return kind == Source::Kind::kRecv || kind == Source::Kind::kScratch;
  }
  HORING_DEVICE size_t inputBytes(const ImageStep& step) const {
    return call_.layout.inputOffset(step.chunk) * call_.element_bytes;
  }
  HORING_DEVICE size_t outputBytes(const ImageStep& step) const {
    return call_.layout.outputOffset(step.chunk) * call_.element_bytes;
  }
  HORING_DEVICE const LaneCall& callAt(int32_t position) const {
    return calls_.each[first_ + plan_.rank_of_position[position]];
  }
  HORING_DEVICE LaneRecord& record() const { return plan_.records[part_ * plan_.lane_count + lane_number_]; }
  HORING_DEVICE Activity& activity() const { return plan_.activity[&record() - plan_.records]; }
  HORING_DEVICE ImageSource sourceAt(const ImageStep& step, int32_t s) const {
    return s < LaneShared::kSources ? shared_.sources[turn_ ^ 1][s] : plan_.sources[step.first_source + s];
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
  // Whether anybody looks at counters of this lane.
  HORING_DEVICE bool isWatched() const { return lane_.port_count > 0 || plan_.lane_count > 1; }
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
  uint32_t turn_ = 0;  // where in LaneShared::steps the next step is
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
