#include "engine/host/operation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/flight_recorder.h"
#include "engine/host/message_tag.h"
#include "engine/host/point_to_point.h"

namespace horing {

namespace {

// Vectors of fewer bytes take slots as the operation before did: telling senders would take longer than it gains.
constexpr size_t kTinyBytes = 8 << 10;

// Bytes of the output, of a layout in which every block has one size.
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
      operands_(static_cast<size_t>(plan.largestSourceCount())),
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
  layOut(call_);
}

void HostOperation::layOut(const CallSpec& spec) {
  const Schedule& schedule = plan_.schedule();
  const PlanSettings& settings = plan_.settings();
  element_bytes_ = dataTypeBytes(spec.type);
  layout_ = Layout::make(schedule, spec.extent(), rank_of_position_, 64 / element_bytes_);
  slicing_ = layout_.isUneven() ? Slicing::fixed(element_bytes_, settings.slot_bytes)
                                : Slicing::choose(schedule.collective, layout_.largestChunk(), element_bytes_,
                                                  settings.slot_bytes, settings.window);
  turn_slices_ = settings.window *
                 static_cast<int64_t>(settings.slot_bytes / (slicing_.slice_elements * element_bytes_));
  const bool reduces = contractOf(schedule).folds();
  fold_ = reduces ? foldFunction(spec.type, spec.op, settings.simd) : nullptr;
  scales_ = reduces && (spec.op == RedOp::kAvg || spec.op == RedOp::kPreMulSum);
  layout_digest_ = digestOf(spec, schedule);
  pairs_know_sizes_ = agreedCount(spec, schedule.ranks) == kCountsDiffer;
  input_end_ = output_end_ = 0;
  has_large_chunks_ = has_landings_ = false;
  const size_t vector_bytes = layout_.allChunks() * element_bytes_;
  is_tiny_ = vector_bytes < kTinyBytes;
  // The whole vector moves twice.
  const bool moves_twice = schedule.collective == Collective::kAllReduce;
  roams_ = (moves_twice ? 2 : 1) * vector_bytes <= settings.roam_bytes;
  for (size_t l = 0; l < lanes_.size(); ++l) layOutLane(l);
}

void HostOperation::layOutLane(size_t lane_number) {
  const std::vector<BoundStep>& bound = plan_.boundSteps(lane_number);
  LaneState& lane = lanes_[lane_number];
  lane.slices = lane.is_signals ? 1 : 0;
  lane.tells_landings = false;
  const bool is_large = !layout_.isUneven() && outputBytes(plan_.schedule(), layout_, element_bytes_) >=
                                                   plan_.settings().stream_bytes;
  StepCursor cursor(plan_.schedule().lanes[lane_number], plan_.schedule().grid);
  for (CallStep& step : lane.steps) {
    const Step& from = cursor.step();
    const int32_t chunk = cursor.chunk();
    step.bound = &bound[cursor.written()];
    step.sources = step.bound->sources;
    step.keep_queue = step.bound->keep_queue;
    step.sender = step.bound->sender;
    step.count = layout_.count(chunk);
    if (!lane.is_signals) lane.slices = std::max(lane.slices, slicing_.slicesOf(step.count));
    step.input_bytes = layout_.inputOffset(chunk) * element_bytes_;
    step.output_bytes = layout_.outputOffset(chunk) * element_bytes_;
    step.is_empty = step.count == 0 && pairs_know_sizes_ && (step.sender || takesMessage(from.sources[0]));
    if (step.is_empty) lane.slices = std::max<int64_t>(lane.slices, 1);
    step.tag = mixBits(step.count) ^ static_cast<Tag>(chunk) << 32;
    step.wait_lane = from.wait.lane;
    step.wait_step = cursor.waitStep();
    step.keeps_out = keepsOut(from.keep);
    step.completes = from.completes;
    // A single value may have to be scaled, on the way in or, of an average, at the end.
    step.only_moves =
        from.sources.size() == 1 && !(scales_ && (from.completes || readsInput(from.sources[0])));
    step.streams = is_large && step.keeps_out && !read_again_[static_cast<size_t>(chunk)];
    step.lasting = lastingOf(step, from, chunk);
    layOutLandings(step, chunk);
    lane.tells_landings = lane.tells_landings || step.tells_landing;
    const size_t bytes = step.count * element_bytes_;
    has_large_chunks_ = has_large_chunks_ || bytes >= kInPlaceBytes;
    has_landings_ = has_landings_ || step.lands;
    if (std::any_of(from.sources.begin(), from.sources.end(), readsInput))
      input_end_ = std::max(input_end_, step.input_bytes + bytes);
    if (step.keeps_out) output_end_ = std::max(output_end_, step.output_bytes + bytes);
    cursor.next();
  }
}

// Both ends must say the same of a message: they know what is done, and the size of the chunk. The sender of a reduction does not know
// whether its value is to be folded, and then lands nowhere; to wait for that would gain nothing.
template <typename End>
bool HostOperation::hasLandings(const End* end) const {
  return end && end->hasLandings() && !(isReduction(plan_.schedule().collective) && end->awaitsLandings());
}

void HostOperation::layOutLandings(CallStep& step, int32_t chunk) const {
  const bool is_large = step.count * element_bytes_ >= kInPlaceBytes;
  step.has_landing = is_large && hasLandings(step.sender);
  step.tells_landing =
      is_large && std::any_of(step.sources.begin(), step.sources.end(), [&](const auto& source) {
        return source.kind == Source::Kind::kRecv && hasLandings(source.receiver);
      });
  step.lands =
      step.tells_landing && step.only_moves && step.keeps_out && !kept_again_[static_cast<size_t>(chunk)];
}

HostOperation::Lasting HostOperation::lastingOf(const CallStep& step, const Step& from, int32_t chunk) const {
  if (!step.sender || step.count * element_bytes_ < kInPlaceBytes) return Lasting::kNone;
  const bool output_lasts = !kept_again_[static_cast<size_t>(chunk)];
  if (step.keeps_out) return output_lasts ? Lasting::kKept : Lasting::kNone;
  if (!step.only_moves) return Lasting::kNone;
  if (from.sources[0].kind == Source::Kind::kIn) return Lasting::kInput;
  return from.sources[0].kind == Source::Kind::kOut && output_lasts ? Lasting::kOutput : Lasting::kNone;
}

// Where results replace inputs, an input that is under way may have to be sent again when it is no more. Other collectives replace
// it by itself. What is copied for this rank is none that transports reach.
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
  // Programs repeat themselves: what is laid out often fits the next call too.
  CallSpec& spec = call_;
  if (call.uneven || spec != call) {
    layOut(call);
    spec = call;
  }
  static_cast<CallMemory&>(call_) = call;
  sequence_ = sequence;
  if (scales_) factor_ = factorOf(call);
  input_lasts_ = inputLasts();
  if (!is_tiny_) plan_.roam(roams_);
  digest_ = mixBits(layout_digest_ ^ sequence_);
  if (!status_.ok()) status_ = {};
  lanes_running_ = 0;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    LaneState& lane = lanes_[l];
    lane.step = lane.steps.data();
    lane.slice = lane.window_begin = 0;
    lane.window_end = std::min<int64_t>(plan_.settings().window, lane.slices);
    lane.finished = lane.slices == 0;
    lane.told = lane.step;
    lane.told_window = lane.tells_landings ? 0 : lane.slices;
    lanes_running_ += !lane.finished;
  }
  settled_ = !has_large_chunks_;
}

inline void HostOperation::nextSlice(LaneState& lane) {
  if (++lane.slice < lane.window_end) return;
  if (++lane.step == lane.steps.data() + lane.steps.size()) {
    lane.step = lane.steps.data();
    lane.window_begin = lane.window_end;
    lane.window_end = std::min<int64_t>(lane.window_begin + plan_.settings().window, lane.slices);
    lane.finished = lane.window_begin == lane.slices;
    lanes_running_ -= lane.finished;
  }
  lane.slice = lane.window_begin;
}

bool HostOperation::poll() {
  bool progressed = false;
  for (LaneState& lane : lanes_) {
    if (lane.told_window < lane.slices) tellLandings(lane);
    if (!lane.finished) progressed = advanceLane(lane) || progressed;
  }
  if (lanes_running_ == 0 && !settled_) settled_ = plan_.settle();
  return progressed;
}

// At most as many slices at a time as fill a window's slots, so that lanes take turns while what one kept is still in the
// cache. Small ones share a slot's turn, and so a system call of the transport.
inline bool HostOperation::advanceLane(LaneState& lane) {
  bool progressed = false;
  for (int64_t budget = turn_slices_; budget > 0 && !lane.finished; --budget) {
    if (!trySlice(lane)) break;
    progressed = true;
  }
  return progressed;
}

// As early as possible, and in the order of the messages.
void HostOperation::tellLandings(LaneState& lane) {
  const CallStep* const end = lane.steps.data() + lane.steps.size();
  while (lane.told_window < lane.slices) {
    const int64_t window_end = lane.told_window + plan_.settings().window;
    for (; lane.told != end; ++lane.told)
      if (lane.told->tells_landing && !tellLanding(*lane.told, lane.told_window, window_end)) return;
    lane.told = lane.steps.data();
    lane.told_window = window_end;
  }
}

bool HostOperation::tellLanding(const CallStep& step, int64_t begin, int64_t end) {
  const int64_t messages = std::min(end, slicing_.slicesOf(step.count)) - begin;
  if (messages <= 0) return true;
  const ElementRange first = slicing_.range(step.count, begin);
  const ElementRange last = slicing_.range(step.count, begin + messages - 1);
  // What does not land may have no output.
  std::byte* const memory =
      step.lands && input_lasts_ ? call_.output + step.output_bytes + first.offset * element_bytes_ : nullptr;
  const Landing landing{.memory = memory,
                        .bytes = (last.offset + last.count - first.offset) * element_bytes_,
                        .stride = static_cast<uint32_t>(first.count * element_bytes_),
                        .messages = static_cast<uint32_t>(messages)};
  // Where there are several they are folded, so those who may say "not now" are not told.
  return std::all_of(step.sources.begin(), step.sources.end(), [&](const BoundSource& source) {
    return !hasLandings(source.receiver) || source.receiver->tryLand(landing);
  });
}

inline bool HostOperation::waitIsOver(const LaneState& lane) const {
  const CallStep& step = *lane.step;
  if (step.wait_lane < 0) return true;
  const LaneState& other = lanes_[static_cast<size_t>(step.wait_lane)];
  // Signals wait for all slices, and all slices wait for signals.
  const int64_t slice = lane.is_signals ? other.slices - 1 : other.is_signals ? 0 : lane.slice;
  if (other.finished || other.window_begin > slice) return true;
  if (other.window_end <= slice) return false;
  const int32_t reached = other.index();
  return reached > step.wait_step || (reached == step.wait_step && other.slice > slice);
}

// Inlined by force: after the fence in release() each call more would be waited for.
[[gnu::always_inline]] inline bool HostOperation::trySlice(LaneState& lane) {
  if (lane.is_signals) [[unlikely]]
    return tryWithoutData(lane);
  const CallStep& step = *lane.step;
  const ElementRange range = slicing_.range(step.count, lane.slice);
  if (range.count == 0) [[unlikely]] {
    if (step.is_empty && lane.slice == 0) return tryWithoutData(lane);
    nextSlice(lane);
    return true;
  }
  if (!waitIsOver(lane)) return false;
  const size_t bytes = range.count * element_bytes_;
  const size_t byte_offset = range.offset * element_bytes_;
  const Tag tag = tagOf(lane);
  if (!gatherOperands(lane, byte_offset, bytes, tag)) return false;
  std::byte* kept = step.keeps_out ? call_.output + step.output_bytes + byte_offset : nullptr;
  if (step.keep_queue) {
    if (step.keep_queue->full()) return false;
    kept = step.keep_queue->back();
  }
  std::byte* sent = nullptr;
  if (step.sender && !(sent = acquire(step, bytes))) return false;
  if (step.bound->keeps_in_every) [[unlikely]] {
    computeForAll(step, step.output_bytes + byte_offset, range.count);
    nextSlice(lane);
    release(step);
    return true;
  }
  const std::byte* const lasting = lastingValue(step, kept);
  const bool in_place = lasting && step.sender->sendsFrom(lasting, static_cast<uint32_t>(bytes));
  if (call_.copier || (call_.reader && step.sources[0].position >= 0)) [[unlikely]] {
    if (!copy(step, kept, sent, bytes)) return false;
  } else {
    compute(step, kept, in_place ? nullptr : sent, range.count, in_place);
  }
  // Moves on while the stores of this slice drain; to post and to release wait for them.
  nextSlice(lane);
  if (step.sender) publishOutputs();
  if (in_place) {
    step.sender->postFrom(lasting, static_cast<uint32_t>(bytes), tag);
  } else if (step.sender) {
    step.sender->post(static_cast<uint32_t>(bytes), tag);
  }
  if (step.keep_queue) step.keep_queue->push();
  release(step);
  return true;
}

// Who hears from this rank must find what it wrote into outputs of others.
inline void HostOperation::publishOutputs() const {
  if (plan_.writesPeers()) streamFence();
}

// A signal is a message without data, and so is an empty block.
bool HostOperation::tryWithoutData(LaneState& lane) {
  if (!waitIsOver(lane)) return false;
  const CallStep& step = *lane.step;
  const Tag tag = tagOf(lane);
  for (const BoundSource& source : step.sources) {
    const Message* message = source.receiver ? source.receiver->tryPeek() : nullptr;
    if (source.receiver && !message) return false;
    if (message && (message->bytes != 0 || message->tag != tag)) [[unlikely]] {
      rejectMessage(lane, source, *message, 0);
      return false;
    }
  }
  if (step.sender && !step.sender->tryAcquireFor(0)) return false;
  for (Sender* sender : step.bound->signals)
    if (!sender->tryAcquireFor(0)) return false;
  nextSlice(lane);
  publishOutputs();
  if (step.sender) step.sender->post(0, tag);
  for (Sender* sender : step.bound->signals) sender->post(0, tag);
  release(step);
  return true;
}

inline bool HostOperation::gatherOperands(const LaneState& lane, size_t byte_offset, size_t bytes, Tag tag) {
  const CallStep& step = *lane.step;
  const std::byte** operand = operands_.data();
  for (const BoundSource& source : step.sources) {
    if (source.receiver) {
      const Message* message = source.receiver->tryPeek();
      if (!message) return false;
      if (message->bytes != bytes || message->tag != tag) [[unlikely]] {
        rejectMessage(lane, source, *message, bytes);
        return false;
      }
      *operand++ = message->data;
    } else if (source.queue) {
      if (source.queue->empty()) return false;
      *operand++ = source.queue->front();
    } else if (source.position >= 0) {
      *operand++ = call_.peer_inputs[source.position] + step.input_bytes + byte_offset;
    } else {
      const bool is_input = source.kind == Source::Kind::kIn;
      *operand++ =
          byte_offset + (is_input ? call_.input + step.input_bytes : call_.output + step.output_bytes);
    }
  }
  return true;
}

inline const std::byte* HostOperation::lastingValue(const CallStep& step, const std::byte* kept) const {
  if (call_.copier) return nullptr;
  switch (step.lasting) {
    case Lasting::kNone:
      return nullptr;
    case Lasting::kKept:
      return kept;
    case Lasting::kInput:
      return input_lasts_ ? operands_[0] : nullptr;
    case Lasting::kOutput:
      return operands_[0];
  }
  return nullptr;
}

bool HostOperation::copy(const CallStep& step, std::byte* kept, std::byte* sent, size_t bytes) {
  const BoundSource& source = step.sources[0];
  for (std::byte* const to : {kept, sent}) {
    const MemoryCopier::Ends ends{.from_is_far = !source.receiver && !source.queue,
                                  .to_is_far = to == kept && !step.keep_queue};
    // An address in another process may be any here.
    const bool is_there = call_.copier && to == operands_[0];
    if (!to || is_there || !status_.ok()) continue;
    const Status copied = call_.copier ? call_.copier->copy(to, operands_[0], bytes, ends)
                                       : call_.reader->read(source.position, to, operands_[0], bytes);
    if (!copied.ok())
      status_ = makeStatus(copied.code(), "rank %d: %s", rank_of_position_[plan_.schedule().position],
                           copied.message().c_str());
  }
  return status_.ok();
}

// What is `read_at_once` by the transport stays in the cache.
inline void HostOperation::compute(const CallStep& step, std::byte* kept, std::byte* sent, size_t count,
                                   bool read_at_once) {
  const bool sends_far = sent && count * element_bytes_ >= kFarBytes && step.sender->readerIsFar();
  if ((step.streams && !read_at_once) || sends_far)
    return computeAndStream(step, kept, sent, count, sends_far);
  std::byte* first = kept ? kept : sent;
  std::byte* second = kept ? sent : nullptr;
  if (step.only_moves) {
    if (first == operands_[0]) first = std::exchange(second, nullptr);
    if (first) copyBytes(operands_[0], first, second, count * element_bytes_);
    return;
  }
  fold(step, first, second, count);
}

// What is sent stays in the cache, for a peer that is near; what is kept takes no room in it and need not be read before it is
// written.
void HostOperation::computeAndStream(const CallStep& step, std::byte* kept, std::byte* sent, size_t count,
                                     bool sends_far) {
  if (step.only_moves && kept == operands_[0]) kept = nullptr;
  std::byte* places[2];
  size_t given = 0;
  if (kept && !step.streams) places[given++] = kept;
  if (sent && !sends_far) places[given++] = sent;
  const size_t streams_from = given;
  if (kept && step.streams) places[given++] = kept;
  if (sent && sends_far) places[given++] = sent;
  const std::span<std::byte* const> all(places, given);
  if (step.only_moves) {
    const size_t bytes = count * element_bytes_;
    for (std::byte* const place : all.first(streams_from)) copyBytes(operands_[0], place, nullptr, bytes);
    streamBytes(operands_[0], all.subspan(streams_from), bytes);
  } else {
    foldTo(step, all, static_cast<int>(streams_from), count);
  }
  streamFence();
}

// All outputs in one pass, so that each input is read once, from memory, and no more is written than they hold. Those past the caches
// are the last. Each rank begins with another's output.
void HostOperation::computeForAll(const CallStep& step, size_t output_offset, size_t count) {
  const Schedule& schedule = plan_.schedule();
  const size_t bytes = count * element_bytes_;
  size_t places = 0, streamed = 0;
  for (int32_t distance = 1; distance <= schedule.ranks; ++distance) {
    const int32_t owner = (schedule.position + distance) % schedule.ranks;
    std::byte* const to = call_.peer_outputs[owner] + output_offset;
    if (step.only_moves && to == operands_[0]) continue;
    const bool streams = step.streams || (bytes >= kFarBytes && plan_.ownerIsFar(owner));
    outputs_[streams ? outputs_.size() - ++streamed : places++] = to;
  }
  const std::span<std::byte* const> all(outputs_);
  const auto near = all.first(places), far = all.last(streamed);
  if (step.only_moves) {
    for (std::byte* const to : near) copyBytes(operands_[0], to, nullptr, bytes);
    streamBytes(operands_[0], far, bytes);
  } else {
    foldTo(step, all, static_cast<int>(places), count);
  }
}

inline void HostOperation::fold(const CallStep& step, std::byte* first, std::byte* second, size_t count) {
  std::byte* const places[] = {first, second};
  const int given = second ? 2 : 1;
  foldTo(step, {places, static_cast<size_t>(given)}, given, count);
}

inline void HostOperation::foldTo(const CallStep& step, std::span<std::byte* const> places, int streams_from,
                                  size_t count) {
  FoldArguments arguments;
  arguments.sources = operands_.data();
  arguments.is_input = step.bound->is_input.get();
  arguments.source_count = static_cast<int>(step.sources.size());
  arguments.destinations = places.data();
  arguments.destination_count = static_cast<int>(places.size());
  arguments.count = count;
  arguments.factor = factor_;
  arguments.ranks = plan_.schedule().ranks;
  arguments.is_final = step.completes;
  arguments.streams_from = streams_from;
  fold_(arguments);
}

inline void HostOperation::release(const CallStep& step) {
  for (const BoundSource& source : step.sources) {
    if (source.receiver) source.receiver->release();
    if (source.queue) source.queue->pop();
  }
}

bool HostOperation::done() const {
  return lanes_running_ == 0 && settled_ && plan_.flushed();
}

void HostOperation::rejectMessage(const LaneState& lane, const BoundSource& source, const Message& message,
                                  size_t bytes) {
  if (!status_.ok()) return;
  const Collective collective = plan_.schedule().collective;
  const std::string op = isReduction(collective) ? std::string(", ") + redOpName(call_.op) : "";
  const std::string what = message.bytes == bytes
                               ? std::string("of the same size, so perhaps with another type") +
                                     (op.empty() ? "" : ", operation") + " or order of blocks"
                               : formatString("of %u bytes where %zu were due", message.bytes, bytes);
  status_ = makeStatus(
      Code::kInvalidUsage,
      "rank %d is in %s #%llu (%zu x %s%s, algorithm %s) and got from rank %d a message of "
      "another operation "
      "(lane %zu, step %d, slice %lld; %s): every rank must call the same collectives in the same "
      "order with the "
      "same arguments, and run with the same HORING_ settings",
      rank_of_position_[plan_.schedule().position], collectiveName(collective),
      static_cast<unsigned long long>(sequence_), call_.count, dataTypeName(call_.type), op.c_str(),
      plan_.schedule().algorithm.c_str(), source.peer, static_cast<size_t>(&lane - lanes_.data()),
      lane.index(), static_cast<long long>(lane.slice), what.c_str());
}

uint64_t HostOperation::memoryBytes() const {
  uint64_t bytes = 0;
  for (const LaneState& lane : lanes_) bytes += lane.steps.size() * sizeof(CallStep);
  return bytes;
}

Obstacle HostOperation::obstacle() const {
  Obstacle found;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const LaneState& lane = lanes_[l];
    if (lane.finished) continue;
    const auto [text, peer] = obstacleOf(lane);
    found.text +=
        formatString("%slane %zu step %d of %d slice %lld of %lld: %s", found.text.empty() ? "" : "; ", l,
                     lane.index(), static_cast<int>(lane.steps.size()), static_cast<long long>(lane.slice),
                     static_cast<long long>(lane.slices), text.c_str());
    if (peer >= 0 && std::find(found.ranks.begin(), found.ranks.end(), peer) == found.ranks.end())
      found.ranks.push_back(peer);
  }
  if (found.text.empty()) found.text = "all lanes are done; some messages are not handed over yet";
  return found;
}

Status HostOperation::overdue(int64_t timeout_ms) const {
  return makeStatus(
      Code::kTimeout,
      "rank %d: collective #%llu did not complete within %lld ms (HORING_TIMEOUT_MS): %s. A rank "
      "that is waited for is stopped, or never made this call",
      rank_of_position_[plan_.schedule().position], static_cast<unsigned long long>(sequence_),
      static_cast<long long>(timeout_ms), obstacle().text.c_str());
}

// Only looks at what looking does not change.
HostOperation::LaneObstacle HostOperation::obstacleOf(const LaneState& lane) const {
  if (!waitIsOver(lane)) return {formatString("waits for lane %d", lane.step->wait_lane)};
  for (const BoundSource& source : lane.step->sources) {
    if (source.receiver && !source.receiver->tryPeek())
      return {formatString("waits for %s from rank %d",
                           source.kind == Source::Kind::kSignal ? "a signal" : "data", source.peer),
              source.peer};
    if (source.queue && source.queue->empty()) return {"waits for another lane's value"};
  }
  if (lane.step->keep_queue && lane.step->keep_queue->full())
    return {"waits for another lane to take a value"};
  if (lane.step->sender && !acquire(*lane.step, 0))
    return {formatString("waits for rank %d to take data", lane.step->bound->send_peer),
            lane.step->bound->send_peer};
  return {"can go on"};
}

}  // namespace horing
