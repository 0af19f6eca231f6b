#pragma once
// One step of a lane, slice by slice, by all threads of a block or by a crew of them.
//
// A slice takes two barriers. Before the first, the *watchers* wait, each for its share of the slice's inputs: threads of the first warp
// for sources, its first thread also for the other lane, and the last thread of all for a free slot to send. Then all threads fold. After
// the second barrier the last thread posts, after a fence that publishes the writes of all these threads, while threads of the first warp
// release. The time of a small slice is its chain of memory accesses, fences and barriers; so everything possible is computed before the
// slice, and a message's label is loaded together with its data.
//
// Threads, a thread's view of the threads that run the step:
//   uint32_t thread() const, threads() const;
//   void sync();             a barrier
//   void pause();            between two polls
//   uint64_t nowNs() const;  a monotonic clock
//   static constexpr bool kIsCrew;
#include "engine/cuda/fold_body.h"
#include "engine/cuda/lane_context.h"
#include "engine/cuda/spin_timeout.h"

namespace horing::cuda {

template <class R, class Threads, class Slice>
class StepRun {
 public:
  // Step `number` of the lane is the `near`-th step in shared memory.
  HORING_DEVICE StepRun(const LaneContext& lane, int32_t number, int32_t near, Threads& threads, Slice& slice)
      : lane_(lane),
        number_(number),
        step_(lane.shared.steps[near]),
        of_part_(lane.shared.steps_of_part[near]),
        threads_(threads),
        slice_(slice) {}

  // Slices [begin, end). False if it gave up; PlanView::failure says why.
  HORING_DEVICE bool run(int32_t begin, int32_t end) {
    const uint32_t element_bytes = lane_.call().element_bytes;
    for (int32_t slice = begin; slice < end; ++slice) {
      const ElementRange range = lane_.call().slicing.range(of_part_.count, slice);
      const At at{slice, range.offset * element_bytes, range.count * element_bytes,
                  of_part_.tag ^ static_cast<uint64_t>(slice)};
      if (range.count == 0) {
        tellProgress(at);
      } else if (!runSlice(at, range.count)) {
        return false;
      }
    }
    return true;
  }

 private:
  // The place of the current slice.
  struct At {
    int32_t slice;
    size_t offset;  // bytes from the start of the part's elements of the chunk
    size_t bytes;
    uint64_t tag;
  };

  HORING_DEVICE bool runSlice(const At& at, size_t count) {
    // Each flag is read after a barrier; its next writer must pass another barrier first.
    if (!gather(at)) raiseFlag(&slice_.lacks);
    threads_.sync();
    if (slice_.lacks) return false;
    FoldScale scale = lane_.call().scale;
    scale.is_final = step_.completes;
    if constexpr (R::kIsScaled)
      if (scale.factor_at) scale.factor_at = &lane_.shared.scalar;
    const FoldWork work{slice_.operands,          slice_.is_input, step_.source_count, slice_.destinations,
                        slice_.destination_count, count,           threads_.thread(),  threads_.threads()};
    if constexpr (Threads::kIsCrew) {
      copySlice<R>(scale, work);
    } else {
      foldSlice<R>(scale, work);
    }
    if (isForeign(at)) raiseFlag(&slice_.is_foreign);
    threads_.sync();
    if (slice_.is_foreign) return false;
    hand(at);
    return true;
  }

  // A watcher's share of the slice's inputs; false: gave up.
  HORING_DEVICE bool gather(const At& at) {
    const ImageStep step = step_;  // loaded at once, not field by field
    bool there = true;
    label_ = at.tag;
    if (own() == 0) there = awaitLane(step, at);
    HORING_ROLLED
    for (int32_t s = firstOwn(); there && s < step.source_count; s += watchers())
      there = findSource(step, at, s);
    if (there && isLast()) there = findRoom(step, at);
    return there;
  }

  HORING_DEVICE bool awaitLane(const ImageStep& step, const At& at) {
    if (step.wait_lane < 0) return true;
    const LaneClock clock{step.wait_step_count, lane_.call().slices, lane_.plan().window};
    const uint64_t target = clock.after(lane_.shared.sequence, step.wait_step, at.slice);
    const uint64_t* const progress = &lane_.recordOf(step.wait_lane).progress;
    return await([&] { return LaneClock::reached(loadAcquire(progress), target); }, at, -1);
  }

  HORING_DEVICE bool findSource(const ImageStep& step, const At& at, int32_t s) {
    const ImageSource source = lane_.sourceAt(step, s);
    const std::byte* operand = nullptr;
    switch (source.kind) {
      case Source::Kind::kIn:
        operand = lane_.call().input + of_part_.input + at.offset;
        break;
      case Source::Kind::kPeerIn:
        operand = lane_.callAt(source.index).input + of_part_.input + at.offset;
        break;
      case Source::Kind::kOut:
        operand = lane_.call().output + of_part_.output + at.offset;
        break;
      default:
        operand = receive(at, source);
        if (!operand) return false;
    }
    slice_.operands[s] = operand;
    slice_.is_input[s] = source.kind == Source::Kind::kIn || source.kind == Source::Kind::kPeerIn;
    return true;
  }

  // The oldest message of a port, or null. Its label is checked after the data is read.
  HORING_DEVICE const std::byte* receive(const At& at, const ImageSource& source) {
    Port& port = lane_.shared.ports[source.index];
    if (!await([&] { return port.canReceive(); }, at, source.index)) return nullptr;
    if (label_ == at.tag) label_ = port.label().tag;
    return port.data();
  }

  // Whether a message that this watcher has received belongs to another operation: if so, gives up.
  HORING_DEVICE bool isForeign(const At& at) {
    if (label_ == at.tag) return false;
    HORING_ROLLED
    for (int32_t s = firstOwn(); s < step_.source_count; s += watchers()) {
      const ImageSource source = lane_.sourceAt(step_, s);
      if (!source.takesPort()) continue;
      const Port& port = lane_.shared.ports[source.index];
      if (port.label().tag != at.tag) giveUp(Failure::Kind::kForeignMessage, at, source.index);
    }
    return true;
  }

  HORING_DEVICE bool findRoom(const ImageStep& step, const At& at) {
    int32_t count = 0;
    const size_t offset = of_part_.output + at.offset;
    if (step.keeps_out) slice_.destinations[count++] = lane_.call().output + offset;
    if (step.keeps_every_out) {
      HORING_ROLLED
      for (; count < lane_.plan().ranks; ++count)
        slice_.destinations[count] = lane_.callOfRank(count).output + offset;
    }
    if (step.keep_port >= 0 && !(slice_.destinations[count++] = acquire(step.keep_port, at))) return false;
    if (step.send_port >= 0 && !(slice_.destinations[count++] = acquire(step.send_port, at))) return false;
    slice_.destination_count = count;
    return true;
  }

  // The next free slot of a port, with the message's label written, or null.
  HORING_DEVICE std::byte* acquire(int32_t number, const At& at) {
    Port& port = lane_.shared.ports[number];
    if (!await([&] { return port.canSend(); }, at, number)) return nullptr;
    port.label() = {at.tag, at.bytes};
    return port.data();
  }

  // Posts and releases this watcher's ports.
  HORING_DEVICE void hand(const At& at) {
    const ImageStep step = step_;
    tellProgress(at);
    if (isLast() && (step.send_port >= 0 || step.keep_port >= 0)) {
      releaseFence();
      if (step.send_port >= 0) lane_.shared.ports[step.send_port].advance();
      if (step.keep_port >= 0) lane_.shared.ports[step.keep_port].advance();
    }
    HORING_ROLLED
    for (int32_t s = firstOwn(); s < step.source_count; s += watchers()) {
      const ImageSource source = lane_.sourceAt(step, s);
      if (source.takesPort()) lane_.shared.ports[source.index].advance();
    }
  }

  // Publishes progress to lanes of this GPU, also for an empty slice, which stands for the steps before it.
  HORING_DEVICE void tellProgress(const At& at) {
    if (own() != 0 || !step_.is_awaited) return;
    const LaneClock clock{lane_.shared.step_count, lane_.call().slices, lane_.plan().window};
    releaseFenceOfGpu();
    storeFenced(&lane_.record().progress, clock.after(lane_.shared.sequence, number_, at.slice));
  }

  template <class Condition>
  HORING_DEVICE bool await(const Condition& is_there, const At& at, int32_t port) {
    // If another lane of this rank waits for a lost peer, that lane reports it; but it may never have begun.
    const uint64_t later_ns = port < 0 ? SpinTimeout::kLaterNs : 0;
    SpinTimeout spin;
    for (uint32_t looks = 1; !is_there(); ++looks) {
      if (looks % SpinTimeout::kLooks == 0) {
        const Failure::Kind end =
            spin.check(threads_.nowNs(), lane_.plan().abort, &lane_.plan().failure->claimed,
                       lane_.plan().timeout_ns, later_ns);
        if (end != Failure::Kind::kNone) {
          giveUp(end, at, port);
          return false;
        }
      }
      threads_.pause();
    }
    return true;
  }

  HORING_DEVICE void giveUp(Failure::Kind kind, const At& at, int32_t port) {
    Failure& failure = *lane_.plan().failure;
    if (!claim(&failure.claimed)) return;
    failure.lane = lane_.lane_number;
    failure.part = lane_.part;
    failure.step = number_;
    failure.slice = at.slice;
    failure.port = port;
    failure.call = lane_.call().number;
    failure.run = lane_.shared.sequence;
    failure.timeout_ns = lane_.plan().timeout_ns;
    // Written last: the host reads the record once any kernel has set the flag, and must find all of it or nothing.
    storeFlag(&failure.kind, static_cast<uint32_t>(kind));
    // The other ranks would wait for this rank for ever.
    storeFlag(lane_.plan().abort, 1);
  }

  HORING_DEVICE int32_t own() const { return static_cast<int32_t>(threads_.thread()); }
  HORING_DEVICE int32_t stride() const { return static_cast<int32_t>(threads_.threads()); }
  // One warp, if there are that many threads.
  HORING_DEVICE int32_t watchers() const { return stride() < 32 ? stride() : 32; }
  // The first source of this watcher; other threads have none.
  HORING_DEVICE int32_t firstOwn() const { return own() < watchers() ? own() : INT32_MAX; }
  HORING_DEVICE bool isLast() const { return own() + 1 == stride(); }

  const LaneContext& lane_;
  const int32_t number_;
  const ImageStep& step_;
  const StepOfPart& of_part_;
  Threads& threads_;
  Slice& slice_;
  // The label of a message that this watcher has received; the expected label if none; a wrong label is kept.
  uint64_t label_ = 0;
};

}  // namespace horing::cuda
