#pragma once
// The interpreter: one block runs one lane of one part, slice by slice, in the order that engine/host/operation.h states.
//
// A slice takes two barriers. Before the first, threads wait, each for its share of what the slice needs: thread s for source
// s, the last thread for room where the value goes, thread 0 for the other lane. Then all fold. After the second the same
// threads post and release, which shows all that the block has written.
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
#include "engine/host/message_tag.h"

namespace horing::cuda {

// What the threads of a block tell each other about a slice.
struct LaneShared {
  const std::byte* operands[kMaxSources];
  uint8_t is_input[kMaxSources];
  std::byte* kept;
  std::byte* sent;
  uint64_t scalar;  // the call's, if it has one in memory
};

template <class R, class Block>
class LaneRun {
 public:
  HORING_DEVICE LaneRun(const LaneCall& call, int32_t lane, int32_t part, Block& block)
      : call_(call),
        plan_(call.plan),
        lane_(plan_.lanes[lane]),
        lane_number_(lane),
        part_(part),
        record_(plan_.records[part * plan_.lane_count + lane]),
        sequence_(record_.sequence),
        block_(block),
        shared_(block.shared()) {}

  // False if it gave up; PlanView::failure says why.
  HORING_DEVICE bool run() {
    if constexpr (R::kIsScaled) readScalar();
    const bool tells = plan_.activity && block_.thread() == 0;
    if (tells) storeRelease(&activity().begun, sequence_ + 1);
    const bool ran = runSteps();
    if (tells) storeRelease(&activity().ended, sequence_ + 1);
    return ran;
  }

 private:
  HORING_DEVICE bool runSteps() {
    const int32_t slices = lane_.is_signals ? 1 : call_.slices;
    for (int32_t begin = 0; begin < slices; begin += plan_.window) {
      const int32_t end = std::min(begin + plan_.window, slices);
      for (int32_t step = 0; step < lane_.step_count; ++step)
        if (!runStep(step, begin, end)) return false;
    }
    block_.sync();
    if (block_.thread() == 0) record_.sequence = sequence_ + 1;
    return true;
  }

  // Once, for memory of the host is far. All threads meet before the first slice.
  HORING_DEVICE void readScalar() {
    if (block_.thread() == 0 && call_.scale.factor_at)
      memcpy(&shared_.scalar, call_.scale.factor_at, call_.element_bytes);
  }

  // Where the slice at hand is.
  struct At {
    int32_t step;
    int32_t slice;
    size_t offset;  // bytes from the chunk's start
    size_t bytes;
    size_t chunk_count;
  };

  HORING_DEVICE bool runStep(int32_t number, int32_t begin, int32_t end) {
    const ImageStep& step = plan_.steps[lane_.first_step + number];
    // Another thread may have used this step's ports in the step before.
    block_.sync();
    if (lane_.is_signals) return runSlice(step, {number, 0, 0, 0, 0}, 0);
    const size_t chunk_count = call_.layout.count(step.chunk);
    const ElementRange own = call_.cut.range(chunk_count, call_.shareOf(part_));
    for (int32_t slice = begin; slice < end; ++slice) {
      const ElementRange range = call_.slicing.range(own.count, slice);
      const size_t offset = (own.offset + range.offset) * call_.element_bytes;
      if (range.count == 0) {
        tellProgress(number, slice);
      } else if (const size_t bytes = range.count * call_.element_bytes;
                 !runSlice(step, {number, slice, offset, bytes, chunk_count}, range.count)) {
        return false;
      }
    }
    return true;
  }

  HORING_DEVICE bool runSlice(const ImageStep& step, const At& at, size_t count) {
    if (block_.any(!gather(step, at))) return false;
    if (count > 0) {  // signals move nothing
      FoldScale scale = call_.scale;
      scale.is_final = step.completes;
      if constexpr (R::kIsScaled)
        if (scale.factor_at) scale.factor_at = &shared_.scalar;
      std::byte* const first = shared_.kept ? shared_.kept : shared_.sent;
      const FoldWork work{shared_.operands,
                          shared_.is_input,
                          step.source_count,
                          first,
                          shared_.kept ? shared_.sent : nullptr,
                          count,
                          block_.thread(),
                          block_.threads()};
      foldSlice<R>(scale, work);
    }
    block_.sync();
    hand(step);
    tellProgress(at.step, at.slice);
    return true;
  }

  // This thread's share of what the slice needs; false: given up.
  HORING_DEVICE bool gather(const ImageStep& step, const At& at) {
    bool there = true;
    if (block_.thread() == 0) there = awaitLane(step, at);
    for (int32_t s = own(); there && s < step.source_count; s += stride()) there = findSource(step, at, s);
    if (there && isLast()) there = findRoom(step, at);
    for (int32_t s = own(); there && s < step.signal_count; s += stride())
      there = acquire(plan_.signals[step.first_signal + s], step, at) != nullptr;
    return there;
  }

  HORING_DEVICE bool awaitLane(const ImageStep& step, const At& at) {
    if (step.wait_lane < 0) return true;
    const ImageLane& other = plan_.lanes[step.wait_lane];
    const LaneClock clock{other.step_count, other.is_signals ? 1 : call_.slices, plan_.window};
    if (clock.slices == 0) return true;
    // Signals wait for all slices, and all slices wait for signals.
    const int32_t slice = lane_.is_signals ? clock.slices - 1 : other.is_signals ? 0 : at.slice;
    const uint64_t target = clock.after(sequence_, step.wait_step, slice);
    const uint64_t* const progress = &plan_.records[part_ * plan_.lane_count + step.wait_lane].progress;
    return await([&] { return LaneClock::reached(loadAcquire(progress), target); }, at, -1);
  }

  HORING_DEVICE bool findSource(const ImageStep& step, const At& at, int32_t s) {
    const ImageSource source = plan_.sources[step.first_source + s];
    const std::byte* operand = nullptr;
    switch (source.kind) {
      case Source::Kind::kIn:
        operand = call_.input + inputBytes(step) + at.offset;
        break;
      case Source::Kind::kPeerIn:
        operand = call_.peer_inputs[source.index] + inputBytes(step) + at.offset;
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
    const Port& port = portAt(source.index);
    if (!await([&] { return port.canReceive(); }, at, source.index)) return nullptr;
    if (port.labels[port.slot].tag == tagOf(step, at)) return port.data();
    giveUp(Failure::Kind::kForeignMessage, at, source.index);
    return nullptr;
  }

  HORING_DEVICE bool findRoom(const ImageStep& step, const At& at) {
    std::byte* kept = step.keeps_out ? call_.output + outputBytes(step) + at.offset : nullptr;
    std::byte* sent = nullptr;
    if (step.keep_port >= 0) {
      kept = acquire(step.keep_port, step, at);
      if (!kept) return false;
    }
    if (step.send_port >= 0) {
      sent = acquire(step.send_port, step, at);
      if (!sent) return false;
    }
    shared_.kept = kept;
    shared_.sent = sent;
    return true;
  }

  // The next free slot of a port, with the message's label on it, or null.
  HORING_DEVICE std::byte* acquire(int32_t number, const ImageStep& step, const At& at) {
    Port& port = portAt(number);
    if (!await([&] { return port.canSend(); }, at, number)) return nullptr;
    port.labels[port.slot] = {tagOf(step, at), at.bytes};
    return port.data();
  }

  // Posts and releases what this thread has looked after.
  HORING_DEVICE void hand(const ImageStep& step) {
    for (int32_t s = own(); s < step.source_count; s += stride()) {
      const ImageSource source = plan_.sources[step.first_source + s];
      if (takesPort(source.kind)) portAt(source.index).advance();
    }
    if (isLast() && step.keep_port >= 0) portAt(step.keep_port).advance();
    if (isLast() && step.send_port >= 0) portAt(step.send_port).advance();
    for (int32_t s = own(); s < step.signal_count; s += stride())
      portAt(plan_.signals[step.first_signal + s]).advance();
  }

  HORING_DEVICE void tellProgress(int32_t step, int32_t slice) {
    if (block_.thread() != 0) return;
    const LaneClock clock{lane_.step_count, lane_.is_signals ? 1 : call_.slices, plan_.window};
    storeRelease(&record_.progress, clock.after(sequence_, step, slice));
  }

  template <class Condition>
  HORING_DEVICE bool await(const Condition& is_there, const At& at, int32_t port) {
    constexpr uint32_t kLooks = 64;  // between two at the flags, of which one is in memory of the host
    uint64_t begun_ns = 0;
    for (uint32_t looks = 0; !is_there(); ++looks) {
      if (looks % kLooks == kLooks - 1) {
        if (loadFlag(plan_.abort) || loadFlag(&plan_.failure->claimed)) {
          giveUp(Failure::Kind::kAborted, at, port);
          return false;
        }
        const uint64_t now_ns = block_.nowNs();
        if (begun_ns == 0) begun_ns = now_ns;
        if (now_ns - begun_ns > plan_.timeout_ns) {
          giveUp(Failure::Kind::kOverdue, at, port);
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
    failure.run = sequence_;
    // Last, for the host looks when any kernel has set the flag: it shall find all of it, or nothing.
    storeFlag(&failure.kind, static_cast<uint32_t>(kind));
    // The other ranks wait for this one in vain.
    storeFlag(plan_.abort, 1);
  }

  // Identifies a message to the peer: equal at both ends exactly if they agree on what is being done.
  HORING_DEVICE uint64_t tagOf(const ImageStep& step, const At& at) const {
    return mixBits(call_.digest ^ sequence_) ^ mixBits(at.chunk_count) ^
           static_cast<uint64_t>(step.chunk) << 32 ^ static_cast<uint64_t>(at.slice);
  }

  HORING_DEVICE static bool takesPort(Source::Kind kind) {
    return kind == Source::Kind::kRecv || kind == Source::Kind::kSignal || kind == Source::Kind::kScratch;
  }
  HORING_DEVICE size_t inputBytes(const ImageStep& step) const {
    return call_.layout.inputOffset(step.chunk) * call_.element_bytes;
  }
  HORING_DEVICE size_t outputBytes(const ImageStep& step) const {
    return call_.layout.outputOffset(step.chunk) * call_.element_bytes;
  }
  HORING_DEVICE Activity& activity() const { return plan_.activity[&record_ - plan_.records]; }
  HORING_DEVICE Port& portAt(int32_t port) const { return *plan_.ports[part_ * plan_.port_count + port]; }
  HORING_DEVICE int32_t own() const { return static_cast<int32_t>(block_.thread()); }
  HORING_DEVICE int32_t stride() const { return static_cast<int32_t>(block_.threads()); }
  HORING_DEVICE bool isLast() const { return block_.thread() + 1 == block_.threads(); }

  const LaneCall& call_;
  const PlanView& plan_;
  const ImageLane& lane_;
  const int32_t lane_number_;
  const int32_t part_;
  LaneRecord& record_;
  const uint64_t sequence_;
  Block& block_;
  LaneShared& shared_;
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
    if (!LaneRun<R, Block>(call, place.lane, part, block).run()) return false;
    // All threads shall see what the call leaves in the record.
    block.sync();
  }
  return true;
}

}  // namespace horing::cuda
