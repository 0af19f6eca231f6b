#include "engine/host/operation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/flight_recorder.h"
#include "engine/host/message_tag.h"
#include "engine/host/point_to_point.h"

namespace horing {

namespace {

// Smaller vectors keep the slots of the operation before: telling the senders would take longer than it saves.
constexpr size_t kLeastToRoam = 8 << 10;

// Bytes of the output, for a layout with blocks of one size.
size_t outputBytes(const Schedule& schedule, const Layout& layout, size_t element_bytes) {
  const bool has_one = contractOf(schedule).out == ChunkSet::kOwn;
  const size_t all = layout.allChunks();
  return (has_one ? all / static_cast<size_t>(schedule.ranks) : all) * element_bytes;
}

}  // namespace

HostOperation::HostOperation(Plan& plan, const int32_t* rank_of_position)
    : plan_(plan),
      rank_of_position_(rank_of_position),
      lanes_(plan.schedule().lanes.size()),
      operands_(std::make_unique<const std::byte*[]>(static_cast<size_t>(plan.largestSourceCount()))),
      read_again_(static_cast<size_t>(plan.schedule().grid.chunks())),
      kept_again_(read_again_.size()) {
  if (plan.writesPeers()) outputs_.resize(static_cast<size_t>(plan.schedule().ranks));
  std::vector<bool> kept(kept_again_.size());
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = plan.schedule().lanes[l];
    lanes_[l].steps.resize(static_cast<size_t>(lane.stepCount()));
    lanes_[l].is_signals = lane.isSignals();
    for (StepCursor cursor(lane, plan.schedule().grid); !cursor.done(); cursor.next()) {
      const auto chunk = static_cast<size_t>(cursor.chunk());
      for (const Source& source : cursor.step().sources)
        if (source.kind == Source::Kind::kOut) read_again_[chunk] = true;
      if (!keepsOut(cursor.step().keep)) continue;
      if (kept[chunk]) kept_again_[chunk] = true;
      kept[chunk] = true;
    }
  }
  // Allocated now, since begin() must not fail.
  for (size_t l = 0; l < lanes_.size(); ++l) {
    lanes_[l].tellings.resize(plan.landingReceivers(l).size());
    for (StepCursor cursor(plan.schedule().lanes[l], plan.schedule().grid); !cursor.done(); cursor.next())
      for (const BoundSource& source : plan.boundSteps(l)[cursor.written()].sources)
        if (source.landings) ++lanes_[l].tellings[source.landing_number].next;
    for (Telling& telling : lanes_[l].tellings) telling.arrivals.reserve(std::exchange(telling.next, 0));
  }
  layOut();
}

inline bool HostOperation::fits(const Call& call) const {
  const CallSpec& laid_out = call_;
  return !call.uneven && laid_out == call && !call.copier == !call_.copier && !call.reader == !call_.reader;
}

void HostOperation::layOut() {
  const Schedule& schedule = plan_.schedule();
  const PlanSettings& settings = plan_.settings();
  element_bytes_ = dataTypeBytes(call_.type);
  layout_ = Layout::make(schedule, call_.extent(), rank_of_position_, 64 / element_bytes_);
  slicing_ = layout_.isUneven() ? Slicing::fixed(element_bytes_, settings.slot_bytes)
                                : Slicing::choose(schedule, layout_.largestChunk(), element_bytes_,
                                                  settings.slot_bytes, settings.window);
  turn_slices_ = settings.window *
                 static_cast<int64_t>(settings.slot_bytes / (slicing_.slice_elements * element_bytes_));
  const bool reduces = contractOf(schedule).folds();
  fold_ = reduces ? foldFunction(call_.type, call_.op, settings.simd) : nullptr;
  scales_ = reduces && (call_.op == RedOp::kAvg || call_.op == RedOp::kPreMulSum);
  layout_digest_ = digestOf(call_, schedule);
  pairs_know_sizes_ = agreedCount(call_, schedule.ranks) == kCountsDiffer;
  input_end_ = output_end_ = 0;
  in_place_ = InPlace::kNothing;
  roaming_ = roaming();
  for (size_t l = 0; l < lanes_.size(); ++l) layOutLane(l);
}

HostOperation::Roaming HostOperation::roaming() const {
  const size_t vector_bytes = layout_.allChunks() * element_bytes_;
  if (vector_bytes < kLeastToRoam) return Roaming::kAsBefore;
  // The whole vector moves twice.
  const bool moves_twice = plan_.schedule().collective == Collective::kAllReduce;
  return (moves_twice ? 2 : 1) * vector_bytes <= plan_.settings().roam_bytes ? Roaming::kAll : Roaming::kFew;
}

void HostOperation::layOutLane(size_t lane_number) {
  const std::vector<BoundStep>& bound = plan_.boundSteps(lane_number);
  LaneState& lane = lanes_[lane_number];
  lane.slices = 0;
  for (Telling& telling : lane.tellings) telling.arrivals.clear();
  const bool is_large = !layout_.isUneven() && outputBytes(plan_.schedule(), layout_, element_bytes_) >=
                                                   plan_.settings().stream_bytes;
  StepCursor cursor(plan_.schedule().lanes[lane_number], plan_.schedule().grid);
  for (CallStep& step : lane.steps) {
    const Step& from = cursor.step();
    const int32_t chunk = cursor.chunk();
    const BoundStep& looked_up = bound[cursor.written()];
    step = {.send = looked_up.send,
            .sources = looked_up.sources,
            .wait_lane = from.wait.lane,
            .wait_step = cursor.waitStep(),
            .bound = &looked_up,
            .tag = mixBits(layout_.count(chunk)) ^ static_cast<Tag>(chunk) << 32,
            .mode = modeOf(from, chunk)};
    if (step.mode == Mode::kSignal) {
      layOutSignal(step);
    } else {
      layOutData(step, from, chunk, is_large);
      layOutArrivals(lane, step, chunk);
    }
    lane.slices = std::max(lane.slices, step.slices);
    const size_t bytes = step.count * element_bytes_;
    if (isLargeChunk(step.count)) in_place_ = std::max(in_place_, InPlace::kSends);
    if (std::any_of(from.sources.begin(), from.sources.end(), readsInput))
      input_end_ = std::max(input_end_, step.input_bytes + bytes);
    if (keepsOut(from.keep)) output_end_ = std::max(output_end_, step.output_bytes + bytes);
    cursor.next();
  }
}

HostOperation::Mode HostOperation::modeOf(const Step& from, int32_t chunk) const {
  if (from.isSignal()) return Mode::kSignal;
  const Source& source = from.sources[0];
  if (layout_.count(chunk) == 0 && pairs_know_sizes_ && (from.send_to >= 0 || takesMessage(source)))
    return Mode::kSignal;
  // A single value may have to be scaled, as an input or, for an average, at the end.
  const bool moves = from.sources.size() == 1 && !(scales_ && (from.completes || readsInput(source)));
  if (from.keep.kind == Keep::Kind::kEveryOut) return moves ? Mode::kMoveToAll : Mode::kFoldToAll;
  if (call_.copier || (call_.reader && source.kind == Source::Kind::kPeerIn)) return Mode::kCopy;
  return moves ? Mode::kMove : Mode::kFold;
}

void HostOperation::layOutSignal(CallStep& step) const {
  step.slices = 1;
  if (step.send) step.sends = Sends::kToSlot;
  if (!step.bound->signals.empty()) step.sends = Sends::kSignals;
}

void HostOperation::layOutData(CallStep& step, const Step& from, int32_t chunk, bool is_large) const {
  step.count = layout_.count(chunk);
  const Slicing slicing = slicing_.ofChunk(layout_, step.count, element_bytes_);
  step.slice_elements = static_cast<uint32_t>(slicing.slice_elements);
  step.slices = slicing.slicesOf(step.count);
  step.input_bytes = layout_.inputOffset(chunk) * element_bytes_;
  step.output_bytes = layout_.outputOffset(chunk) * element_bytes_;
  if (keepsOut(from.keep))
    step.keeps = is_large && !read_again_[static_cast<size_t>(chunk)] ? Keeps::kPastCaches : Keeps::kInOutput;
  if (from.keep.kind == Keep::Kind::kScratch) step.keeps = Keeps::kInQueue;
  if (step.send)
    step.sends =
        isLargeChunk(step.count) && hasLandings(step.send.landings) ? Sends::kToLanding : Sends::kToSlot;
  step.lasting = lastingOf(step, from, chunk);
}

// Both ends must agree whether a message lands: they know the collective and the size of the chunk. The sender of a reduction does
// not know whether its value is folded, in which case it lands nowhere, and waiting for that would gain nothing.
template <typename End>
bool HostOperation::hasLandings(const End* landings) const {
  return landings && !(isReduction(plan_.schedule().collective) && landings->awaitsLandings());
}

HostOperation::Lasting HostOperation::lastingOf(const CallStep& step, const Step& from, int32_t chunk) const {
  if (!step.send.lent || !isLargeChunk(step.count) || call_.copier) return Lasting::kNone;
  const bool output_lasts = !kept_again_[static_cast<size_t>(chunk)];
  if (keepsOut(from.keep)) return output_lasts ? Lasting::kKept : Lasting::kNone;
  if (step.mode != Mode::kMove) return Lasting::kNone;
  if (from.sources[0].kind == Source::Kind::kIn) return Lasting::kInput;
  return from.sources[0].kind == Source::Kind::kOut && output_lasts ? Lasting::kOutput : Lasting::kNone;
}

void HostOperation::layOutArrivals(LaneState& lane, const CallStep& step, int32_t chunk) {
  if (!isLargeChunk(step.count)) return;
  const bool keeps_out = step.keeps == Keeps::kInOutput || step.keeps == Keeps::kPastCaches;
  const bool in_output = step.mode == Mode::kMove && keeps_out && !kept_again_[static_cast<size_t>(chunk)];
  for (const BoundSource& source : step.sources) {
    if (source.kind != Source::Kind::kRecv || !hasLandings(source.landings)) continue;
    lane.tellings[source.landing_number].arrivals.push_back({&step, in_output});
    if (in_output) in_place_ = InPlace::kLands;
  }
}

// If results replace inputs, an input under way may have to be sent again after it was replaced. Other collectives replace it with
// itself. Transports never read what a copier copies for this rank.
bool HostOperation::inputLasts() const {
  if (call_.copier) return false;
  const Collective collective = plan_.schedule().collective;
  if (!isReduction(collective) && collective != Collective::kAllToAll) return true;
  const auto input = reinterpret_cast<uintptr_t>(call_.input);
  const auto output = reinterpret_cast<uintptr_t>(call_.output);
  return input + input_end_ <= output || output + output_end_ <= input;
}

Factor HostOperation::factorOf(const Call& call) const {
  if (call.op == RedOp::kAvg) return {.number = 1.0 / plan_.schedule().ranks};
  return call.factor_at ? factorFrom(call.type, call.factor_at) : call.factor;
}

void HostOperation::begin(const Call& call, uint64_t sequence) {
  HORING_CHECK(call.collective == plan_.schedule().collective);
  HORING_CHECK(call.peer_inputs || !plan_.readsPeers());
  HORING_CHECK(call.peer_outputs || !plan_.writesPeers());
  HORING_CHECK(!(call.copier || call.reader) || !contractOf(plan_.schedule()).folds());
  // Programs repeat calls: the previous layout often fits.
  const bool is_laid_out = fits(call);
  static_cast<CallMemory&>(call_) = call;
  if (!is_laid_out) {
    static_cast<CallSpec&>(call_) = call;
    layOut();
  }
  sequence_ = sequence;
  if (scales_) factor_ = factorOf(call);
  input_lasts_ = inputLasts();
  if (roaming_ != Roaming::kAsBefore) plan_.roam(roaming_ == Roaming::kAll);
  digest_ = mixBits(layout_digest_ ^ sequence_);
  if (!status_.ok()) status_ = {};
  lanes_running_ = 0;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    LaneState& lane = lanes_[l];
    lane.step = lane.steps.data();
    lane.slice = lane.window_begin = 0;
    lane.window_end = std::min<int64_t>(plan_.settings().window, lane.slices);
    lane.tellings_open = 0;
    for (Telling& telling : lane.tellings) {
      telling.next = 0;
      telling.window = telling.arrivals.empty() ? lane.slices : 0;
      lane.tellings_open += telling.window < lane.slices;
    }
    lanes_running_ += !lane.finished();
  }
  settled_ = in_place_ == InPlace::kNothing;
}

inline void HostOperation::nextSlice(LaneState& lane) {
  if (++lane.slice < lane.window_end) return;
  if (++lane.step == lane.steps.data() + lane.steps.size()) {
    lane.step = lane.steps.data();
    lane.window_begin = lane.window_end;
    lane.window_end = std::min<int64_t>(lane.window_begin + plan_.settings().window, lane.slices);
    lanes_running_ -= lane.finished();
  }
  lane.slice = lane.window_begin;
}

bool HostOperation::poll() {
  bool progressed = false;
  for (LaneState& lane : lanes_) {
    if (lane.tellings_open > 0) [[unlikely]]
      tellLandings(lane);
    if (!lane.finished()) progressed = advanceLane(lane) || progressed;
  }
  if (lanes_running_ == 0 && !settled_) settled_ = plan_.settle();
  return progressed;
}

// At most as many slices at a time as fill a window's slots, so that lanes take turns while kept values are still in the cache.
// Small slices share a turn, and so a system call of the transport.
inline bool HostOperation::advanceLane(LaneState& lane) {
  bool progressed = false;
  for (int64_t budget = turn_slices_; budget > 0 && !lane.finished(); --budget) {
    if (!trySlice(lane)) break;
    progressed = true;
  }
  return progressed;
}

// As early as possible, and for each connection separately: a peer may wait for its landing before it sends the data that another
// peer's next message depends on.
void HostOperation::tellLandings(LaneState& lane) {
  const std::vector<LandingReceiver*>& receivers =
      plan_.landingReceivers(static_cast<size_t>(&lane - lanes_.data()));
  for (size_t number = 0; number < receivers.size(); ++number) {
    Telling& telling = lane.tellings[number];
    if (telling.window >= lane.slices) continue;
    while (telling.window < lane.slices &&
           tellLanding(*receivers[number], telling.arrivals[telling.next], telling.window)) {
      if (++telling.next < telling.arrivals.size()) continue;
      telling.next = 0;
      telling.window += plan_.settings().window;
    }
    lane.tellings_open -= telling.window >= lane.slices;
  }
}

// The step's messages in the window that begins with that slice.
bool HostOperation::tellLanding(LandingReceiver& receiver, const Arrival& arrival, int64_t begin) const {
  const CallStep& step = *arrival.step;
  const int64_t end = std::min<int64_t>(begin + plan_.settings().window, step.slices);
  if (end <= begin) return true;
  const ElementRange first = step.slicing().range(step.count, begin);
  const ElementRange last = step.slicing().range(step.count, end - 1);
  // A message without a landing may have no output.
  std::byte* const memory = arrival.in_output && input_lasts_
                                ? call_.output + step.output_bytes + first.offset * element_bytes_
                                : nullptr;
  return receiver.tryLand({.memory = memory,
                           .bytes = (last.offset + last.count - first.offset) * element_bytes_,
                           .stride = static_cast<uint32_t>(first.count * element_bytes_),
                           .messages = static_cast<uint32_t>(end - begin)});
}

inline bool HostOperation::waitIsOver(const LaneState& lane) const {
  const CallStep& step = *lane.step;
  if (step.wait_lane < 0) return true;
  const LaneState& other = lanes_[static_cast<size_t>(step.wait_lane)];
  // Signals wait for all slices, and all slices wait for signals.
  const int64_t slice = lane.is_signals ? other.slices - 1 : other.is_signals ? 0 : lane.slice;
  if (other.finished() || other.window_begin > slice) return true;
  if (other.window_end <= slice) return false;
  const int32_t reached = other.index();
  return reached > step.wait_step || (reached == step.wait_step && other.slice > slice);
}

// Forced inline, and so is what it calls for each slice: after the fence in passOn() each further call costs latency.
[[gnu::always_inline]] inline bool HostOperation::trySlice(LaneState& lane) {
  const CallStep& step = *lane.step;
  if (lane.slice >= step.slices) [[unlikely]] {
    nextSlice(lane);
    return true;
  }
  Slice slice = sliceOf(lane);
  if (const SliceObstacle obstacle = prepare(lane, slice)) {
    if (obstacle.kind == SliceObstacle::Kind::kOtherData) [[unlikely]]
      rejectMessage(lane, *obstacle.source, slice.bytes);
    return false;
  }
  switch (step.mode) {
    case Mode::kSignal:
      break;
    case Mode::kMove:
      move(step, slice);
      break;
    case Mode::kFold:
      fold(step, slice);
      break;
    case Mode::kMoveToAll:
      moveToAll(step, slice);
      break;
    case Mode::kFoldToAll:
      foldToAll(step, slice);
      break;
    case Mode::kCopy:
      if (!copy(step, slice)) return false;
      break;
  }
  // Continues while the stores of this slice drain; posting and releasing wait for them.
  nextSlice(lane);
  passOn(step, slice);
  return true;
}

[[gnu::always_inline]] inline HostOperation::SliceObstacle HostOperation::prepare(const LaneState& lane,
                                                                                  Slice& slice) const {
  if (!waitIsOver(lane)) return {SliceObstacle::Kind::kLane};
  const SliceObstacle obstacle = gatherOperands(*lane.step, slice);
  return obstacle ? obstacle : findRoom(*lane.step, slice);
}

inline HostOperation::Slice HostOperation::sliceOf(const LaneState& lane) const {
  const ElementRange range = lane.step->slicing().range(lane.step->count, lane.slice);
  return {.offset = range.offset * element_bytes_,
          .count = range.count,
          .bytes = range.count * element_bytes_,
          .tag = tagOf(lane)};
}

[[gnu::always_inline]] inline HostOperation::SliceObstacle HostOperation::gatherOperands(
    const CallStep& step, const Slice& slice) const {
  using Kind = SliceObstacle::Kind;
  const std::byte** operand = operands_.get();
  for (const BoundSource& source : step.sources) {
    if (source.receiver) {
      const Message* message = source.receiver->tryPeek();
      if (!message) return {source.kind == Source::Kind::kSignal ? Kind::kSignal : Kind::kData, source.peer};
      if (message->bytes != slice.bytes || message->tag != slice.tag) [[unlikely]]
        return {Kind::kOtherData, source.peer, &source};
      *operand++ = message->data;
    } else if (source.queue) {
      if (source.queue->empty()) return {Kind::kValue};
      *operand++ = source.queue->front();
    } else if (source.position >= 0) {
      *operand++ = call_.peer_inputs[source.position] + step.input_bytes + slice.offset;
    } else {
      const bool is_input = source.kind == Source::Kind::kIn;
      *operand++ =
          slice.offset + (is_input ? call_.input + step.input_bytes : call_.output + step.output_bytes);
    }
  }
  return {};
}

// Where to keep the value and where to send it from.
[[gnu::always_inline]] inline HostOperation::SliceObstacle HostOperation::findRoom(const CallStep& step,
                                                                                   Slice& slice) const {
  using Kind = SliceObstacle::Kind;
  switch (step.keeps) {
    case Keeps::kNowhere:
      break;
    case Keeps::kInQueue:
      if (step.bound->keep_queue->full()) return {Kind::kQueue};
      slice.kept = step.bound->keep_queue->back();
      break;
    case Keeps::kInOutput:
    case Keeps::kPastCaches:
      slice.kept = call_.output + step.output_bytes + slice.offset;
      break;
  }
  switch (step.sends) {
    case Sends::kNothing:
      break;
    case Sends::kToSlot:
    case Sends::kToLanding:
      slice.sent =
          step.send.tryAcquire(slice.bytes, step.sends == Sends::kToLanding, lastingValue(step, slice.kept));
      if (!slice.sent) return {Kind::kRoom, step.bound->send_peer};
      break;
    case Sends::kSignals:
      for (const BoundSignal& signal : step.bound->signals)
        if (!signal.send.tryAcquire(0, /*lands=*/false, /*value=*/nullptr)) return {Kind::kRoom, signal.peer};
      break;
  }
  return {};
}

inline const std::byte* HostOperation::lastingValue(const CallStep& step, const std::byte* kept) const {
  if (step.lasting == Lasting::kNone) [[likely]]
    return nullptr;
  if (step.lasting == Lasting::kKept) return kept;
  return step.lasting == Lasting::kOutput || input_lasts_ ? operands_[0] : nullptr;
}

// A rank that this rank signals must see the stores into its output.
inline void HostOperation::publishOutputs() const {
  if (plan_.writesPeers()) streamFence();
}

inline void HostOperation::move(const CallStep& step, const Slice& slice) {
  const bool is_there = slice.kept == operands_[0];
  const Places places = placesOf(step, slice, is_there ? nullptr : slice.kept);
  if (places.near > 0)
    copyBytes(operands_[0], places.at[0], places.near > 1 ? places.at[1] : nullptr, slice.bytes);
  if (places.near == places.all) return;
  streamBytes(operands_[0], {places.at + places.near, places.all - places.near}, slice.bytes);
  streamFence();
}

inline void HostOperation::fold(const CallStep& step, const Slice& slice) {
  const Places places = placesOf(step, slice, slice.kept);
  foldTo(step, {places.at, places.all}, places.near, slice.count);
  if (places.near < places.all) streamFence();
}

// Sent values stay in the cache, for a near peer. Kept values stored past the caches take no room there and their lines need not be
// read first, but they stay if a transport reads them at once.
inline HostOperation::Places HostOperation::placesOf(const CallStep& step, const Slice& slice,
                                                     std::byte* kept) const {
  std::byte* const sent = slice.sent.room;
  const bool keeps_near = kept && (step.keeps != Keeps::kPastCaches || slice.sent.lent);
  const bool sends_near = sent && !step.send.readerIsFar(slice.bytes);
  std::byte* const first = sends_near && !keeps_near ? sent : kept;
  std::byte* const second = first == kept ? sent : kept;
  return {.at = {first ? first : second, second},
          .near = static_cast<size_t>(keeps_near) + static_cast<size_t>(sends_near),
          .all = static_cast<size_t>(kept != nullptr) + static_cast<size_t>(sent != nullptr)};
}

// All outputs in one pass, so that each input is read once from memory and only the results are written.
[[gnu::noinline]] void HostOperation::foldToAll(const CallStep& step, Slice slice) {
  const size_t near = placesOfAll(step, slice, nullptr).near.size();
  foldTo(step, outputs_, near, slice.count);
}

[[gnu::noinline]] void HostOperation::moveToAll(const CallStep& step, Slice slice) {
  const AllPlaces places = placesOfAll(step, slice, operands_[0]);
  for (std::byte* const to : places.near) copyBytes(operands_[0], to, nullptr, slice.bytes);
  streamBytes(operands_[0], places.past_caches, slice.bytes);
}

// Except `except`. Each rank begins with another rank's output, to spread the load.
HostOperation::AllPlaces HostOperation::placesOfAll(const CallStep& step, const Slice& slice,
                                                    const std::byte* except) {
  const Schedule& schedule = plan_.schedule();
  size_t near = 0, far = 0;
  for (int32_t distance = 1; distance <= schedule.ranks; ++distance) {
    const int32_t owner = (schedule.position + distance) % schedule.ranks;
    std::byte* const to = call_.peer_outputs[owner] + step.output_bytes + slice.offset;
    if (to == except) continue;
    const bool is_far =
        step.keeps == Keeps::kPastCaches || (slice.bytes >= kFarBytes && plan_.ownerIsFar(owner));
    outputs_[is_far ? outputs_.size() - ++far : near++] = to;
  }
  const std::span<std::byte* const> all(outputs_);
  return {all.first(near), all.last(far)};
}

bool HostOperation::copy(const CallStep& step, Slice slice) {
  const BoundSource& source = step.sources[0];
  for (std::byte* const to : {slice.kept, slice.sent.room}) {
    const MemoryCopier::Ends ends{.from_is_far = !source.receiver && !source.queue,
                                  .to_is_far = to == slice.kept && step.keeps != Keeps::kInQueue};
    // An address in another process has any value here.
    const bool is_there = call_.copier && to == operands_[0];
    if (!to || is_there || !status_.ok()) continue;
    const Status copied = call_.copier ? call_.copier->copy(to, operands_[0], slice.bytes, ends)
                                       : call_.reader->read(source.position, to, operands_[0], slice.bytes);
    if (!copied.ok())
      status_ = makeStatus(copied.code(), "rank %d: %s", rank_of_position_[plan_.schedule().position],
                           copied.message().c_str());
  }
  return status_.ok();
}

// The first `near` destinations through the caches, the others past them.
inline void HostOperation::foldTo(const CallStep& step, std::span<std::byte* const> places, size_t near,
                                  size_t count) {
  FoldArguments arguments;
  arguments.sources = operands_.get();
  arguments.is_input = step.bound->is_input.get();
  arguments.source_count = static_cast<int>(step.sources.size());
  arguments.destinations = places.data();
  arguments.destination_count = static_cast<int>(places.size());
  arguments.count = count;
  arguments.factor = factor_;
  arguments.ranks = plan_.schedule().ranks;
  arguments.is_final = step.bound->completes;
  arguments.streams_from = static_cast<int>(near);
  fold_(arguments);
}

// Passes the value on to the peer and to the other lane, and releases the operands.
inline void HostOperation::passOn(const CallStep& step, const Slice& slice) {
  if (step.sends != Sends::kNothing) {
    publishOutputs();
    post(step, slice);
  }
  if (step.keeps == Keeps::kInQueue) step.bound->keep_queue->push();
  for (const BoundSource& source : step.sources) {
    if (source.receiver) source.receiver->release();
    if (source.queue) source.queue->pop();
  }
}

[[gnu::always_inline]] inline void HostOperation::post(const CallStep& step, const Slice& slice) const {
  if (step.sends != Sends::kSignals) [[likely]] {
    step.send.post(slice.sent, slice.bytes, slice.tag);
  } else {
    for (const BoundSignal& signal : step.bound->signals) signal.send.post({}, 0, slice.tag);
  }
}

bool HostOperation::done() const {
  return lanes_running_ == 0 && settled_ && plan_.flushed();
}

uint64_t HostOperation::memoryBytes() const {
  uint64_t bytes = 0;
  for (const LaneState& lane : lanes_) bytes += lane.steps.size() * sizeof(CallStep);
  return bytes;
}

HostOperation::SliceObstacle HostOperation::obstacleTo(const LaneState& lane) const {
  if (lane.slice >= lane.step->slices) return {};
  Slice slice = sliceOf(lane);
  return prepare(lane, slice);
}

PeerWaits HostOperation::waits() const {
  PeerWaits found;
  for (const LaneState& lane : lanes_)
    if (!lane.finished()) found.add(obstacleTo(lane).wait());
  plan_.addUnflushed(found);
  return found;
}

}  // namespace horing
