#include "engine/host/operation.h"

#include <algorithm>
#include <utility>

namespace horing {

namespace {

// The 64-bit finaliser of SplitMix64: every input bit changes about half of the output bits.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Of all that the ranks must agree on, but for the call's number.
uint64_t digestOf(const Call& call, const Schedule& schedule) {
  uint64_t digest = mix(call.count);
  digest = mix(digest ^ (static_cast<uint64_t>(call.type) << 16 | static_cast<uint64_t>(call.op) << 8 |
                         static_cast<uint64_t>(schedule.collective)));
  for (const char c : schedule.algorithm) digest = mix(digest ^ static_cast<unsigned char>(c));
  return digest;
}

}  // namespace

HostOperation::HostOperation(Plan& plan, const int32_t* rank_of_position)
    : plan_(plan),
      rank_of_position_(rank_of_position),
      lanes_(plan.schedule().lanes.size()),
      operands_(static_cast<size_t>(plan.largestSourceCount())) {
  layOut(call_);
}

void HostOperation::layOut(const Call& call) {
  const Schedule& schedule = plan_.schedule();
  const PlanSettings& settings = plan_.settings();
  element_bytes_ = dataTypeBytes(call.type);
  layout_ = Layout::make(schedule, call.count, rank_of_position_, 64 / element_bytes_);
  slicing_ = Slicing::choose(layout_.largestChunk(), element_bytes_, settings.slot_bytes);
  const bool reduces = schedule.collective != Collective::kAllGather;
  fold_ = reduces ? foldFunction(call.type, call.op, settings.simd) : nullptr;
  scales_ = reduces && call.op == RedOp::kAvg;
  layout_digest_ = digestOf(call, schedule);
}

void HostOperation::begin(const Call& call) {
  // Programs repeat themselves: what is laid out often fits the next call too.
  if (call.count != call_.count || call.type != call_.type || call.op != call_.op) layOut(call);
  call_ = call;
  digest_ = mix(layout_digest_ ^ call.sequence);
  if (!status_.ok()) status_ = {};
  lanes_running_ = 0;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    LaneState& lane = lanes_[l];
    lane.steps = plan_.boundSteps(l).data();
    lane.cursor = StepCursor(plan_.schedule().lanes[l], plan_.schedule().grid);
    lane.window_begin = 0;
    lane.window_end = std::min<int64_t>(plan_.settings().window, slicing_.slices);
    lane.finished = slicing_.slices == 0 || lane.cursor.done();
    if (lane.finished) continue;
    ++lanes_running_;
    enterStep(lane);
  }
}

inline void HostOperation::enterStep(LaneState& lane) {
  const Step& step = lane.cursor.step();
  const int32_t chunk = lane.cursor.chunk();
  lane.slice = lane.window_begin;
  lane.waits = step.wait.lane >= 0;
  lane.keeps_out = step.keep.kind == Keep::Kind::kOut;
  // An average also scales a single value, on the way in or at the end.
  lane.only_moves =
      step.sources.size() == 1 && !(scales_ && (step.completes || step.sources[0].kind == Source::Kind::kIn));
  lane.bound = &lane.steps[lane.cursor.written()];
  lane.chunk_count = layout_.count(chunk);
  lane.input = call_.input + layout_.inputOffset(chunk) * element_bytes_;
  lane.output = call_.output + layout_.outputOffset(chunk) * element_bytes_;
  lane.tag = digest_ ^ static_cast<Tag>(chunk) << 32;
}

inline void HostOperation::nextSlice(LaneState& lane, size_t lane_number) {
  if (++lane.slice < lane.window_end) return;
  lane.cursor.next();
  if (lane.cursor.done()) {
    lane.window_begin = lane.window_end;
    lane.window_end = std::min<int64_t>(lane.window_begin + plan_.settings().window, slicing_.slices);
    if (lane.window_begin == slicing_.slices) {
      lane.finished = true;
      --lanes_running_;
      return;
    }
    lane.cursor = StepCursor(plan_.schedule().lanes[lane_number], plan_.schedule().grid);
  }
  enterStep(lane);
}

bool HostOperation::poll() {
  bool progressed = false;
  for (size_t l = 0; l < lanes_.size(); ++l)
    if (!lanes_[l].finished) progressed = advanceLane(l) || progressed;
  return progressed;
}

// At most a window's worth of slices at a time, so that lanes take turns while what one kept is still in the
// cache.
inline bool HostOperation::advanceLane(size_t lane_number) {
  LaneState& lane = lanes_[lane_number];
  bool progressed = false;
  for (int32_t budget = plan_.settings().window; budget > 0 && !lane.finished; --budget) {
    if (!trySlice(lane, lane_number)) break;
    progressed = true;
  }
  return progressed;
}

inline bool HostOperation::waitIsOver(const LaneState& lane) const {
  if (!lane.waits) return true;
  const Wait& wait = lane.cursor.step().wait;
  const LaneState& other = lanes_[static_cast<size_t>(wait.lane)];
  if (other.finished || other.window_begin > lane.slice) return true;
  if (other.window_end <= lane.slice) return false;
  const int32_t step = lane.cursor.waitStep();
  return other.cursor.index() > step || (other.cursor.index() == step && other.slice > lane.slice);
}

inline bool HostOperation::trySlice(LaneState& lane, size_t lane_number) {
  const ElementRange range = slicing_.range(lane.chunk_count, lane.slice);
  if (range.count == 0) {
    nextSlice(lane, lane_number);
    return true;
  }
  if (!waitIsOver(lane)) return false;
  const BoundStep& bound = *lane.bound;
  const size_t bytes = range.count * element_bytes_;
  const size_t byte_offset = range.offset * element_bytes_;
  if (!gatherOperands(lane, byte_offset, bytes)) return false;
  std::byte* kept = lane.keeps_out ? lane.output + byte_offset : nullptr;
  if (bound.keep_queue) {
    if (bound.keep_queue->full()) return false;
    kept = bound.keep_queue->back();
  }
  std::byte* sent = nullptr;
  if (bound.sender && !(sent = bound.sender->tryAcquire())) return false;
  compute(lane, kept, sent, range.count);
  const Tag tag = tagOf(lane);
  // Looks the next slice up while the stores of this one drain; to post and to release wait for them.
  nextSlice(lane, lane_number);
  if (bound.sender) bound.sender->post(static_cast<uint32_t>(bytes), tag);
  if (bound.keep_queue) bound.keep_queue->push();
  release(bound);
  return true;
}

inline bool HostOperation::gatherOperands(const LaneState& lane, size_t byte_offset, size_t bytes) {
  const std::vector<BoundSource>& sources = lane.bound->sources;
  for (size_t s = 0; s < sources.size(); ++s) {
    const BoundSource& source = sources[s];
    switch (source.kind) {
      case Source::Kind::kIn:
        operands_[s] = lane.input + byte_offset;
        break;
      case Source::Kind::kOut:
        operands_[s] = lane.output + byte_offset;
        break;
      case Source::Kind::kScratch:
        if (source.queue->empty()) return false;
        operands_[s] = source.queue->front();
        break;
      case Source::Kind::kRecv: {
        const Message* message = source.receiver->tryPeek();
        if (!message) return false;
        if (message->bytes != bytes || message->tag != tagOf(lane)) {
          rejectMessage(lane, source, *message, bytes);
          return false;
        }
        operands_[s] = message->data;
        break;
      }
    }
  }
  return true;
}

inline void HostOperation::compute(const LaneState& lane, std::byte* kept, std::byte* sent, size_t count) {
  std::byte* first = kept ? kept : sent;
  std::byte* second = kept ? sent : nullptr;
  if (lane.only_moves) {
    if (first == operands_[0]) first = std::exchange(second, nullptr);
    if (first) copyBytes(operands_[0], first, second, count * element_bytes_);
    return;
  }
  FoldArguments arguments;
  arguments.sources = operands_.data();
  arguments.is_input = lane.bound->is_input.get();
  arguments.source_count = static_cast<int>(lane.bound->sources.size());
  arguments.destinations[0] = first;
  arguments.destinations[1] = second;
  arguments.count = count;
  arguments.ranks = plan_.schedule().ranks;
  arguments.is_final = lane.cursor.step().completes;
  fold_(arguments);
}

inline void HostOperation::release(const BoundStep& bound) {
  for (const BoundSource& source : bound.sources) {
    if (source.receiver) source.receiver->release();
    if (source.queue) source.queue->pop();
  }
}

bool HostOperation::done() const {
  return lanes_running_ == 0 && plan_.flushed();
}

void HostOperation::rejectMessage(const LaneState& lane, const BoundSource& source, const Message& message,
                                  size_t bytes) {
  if (!status_.ok()) return;
  const std::string what = message.bytes == bytes
                               ? std::string("of the same size, so perhaps with another type or operation")
                               : formatString("of %u bytes where %zu were due", message.bytes, bytes);
  status_ =
      makeStatus(Code::kInvalidUsage,
                 "rank %d is in %s #%llu (%zu x %s, %s, algorithm %s) and got from rank %d a message of "
                 "another operation "
                 "(lane %zu, step %d, slice %lld; %s): every rank must call the same collectives in the same "
                 "order with the "
                 "same count, type and operation, and run with the same HORING_ settings",
                 rank_of_position_[plan_.schedule().position], collectiveName(plan_.schedule().collective),
                 static_cast<unsigned long long>(call_.sequence), call_.count, dataTypeName(call_.type),
                 redOpName(call_.op), plan_.schedule().algorithm.c_str(), source.peer,
                 static_cast<size_t>(&lane - lanes_.data()), lane.cursor.index(),
                 static_cast<long long>(lane.slice), what.c_str());
}

std::string HostOperation::describeProgress() const {
  std::string text;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const LaneState& lane = lanes_[l];
    if (lane.finished) continue;
    text += formatString("%slane %zu step %d of %d slice %lld of %lld: %s", text.empty() ? "" : "; ", l,
                         lane.cursor.index(), plan_.schedule().lanes[l].stepCount(),
                         static_cast<long long>(lane.slice), static_cast<long long>(slicing_.slices),
                         obstacle(lane).c_str());
  }
  return text.empty() ? "all lanes are done; some messages are not handed over yet" : text;
}

// What keeps the lane from its next slice. Only looks at what looking does not change.
std::string HostOperation::obstacle(const LaneState& lane) const {
  if (!waitIsOver(lane)) return formatString("waits for lane %d", lane.cursor.step().wait.lane);
  for (const BoundSource& source : lane.bound->sources) {
    if (source.receiver && !source.receiver->tryPeek())
      return formatString("waits for data from rank %d", source.peer);
    if (source.queue && source.queue->empty()) return "waits for another lane's value";
  }
  if (lane.bound->keep_queue && lane.bound->keep_queue->full())
    return "waits for another lane to take a value";
  if (lane.bound->sender && !lane.bound->sender->tryAcquire())
    return formatString("waits for rank %d to take data", lane.bound->send_peer);
  return "can go on";
}

}  // namespace horing
