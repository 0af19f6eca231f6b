#include "comm/reach/peer_buffers.h"

#include <algorithm>
#include <utility>

namespace horing {

namespace {

// Asking costs a round of messages: after so many refusals in a row only every kQuietPeriod-th call asks.
constexpr uint32_t kMostRefusals = 8;
constexpr uint32_t kQuietPeriod = 16;

template <typename T>
Call gatherOf(const T& own, std::vector<T>& all) {
  Call call;
  call.collective = Collective::kAllGather;
  call.input = reinterpret_cast<const std::byte*>(&own);
  call.output = reinterpret_cast<std::byte*>(all.data());
  call.count = sizeof(T);
  call.type = DataType::kUint8;
  return call;
}

}  // namespace

PeerBuffers::PeerBuffers(const SegmentList& segments, const GroupMap& map, int rank, Memory memory,
                         std::vector<int64_t> processes, SingleCopy single_copy)
    : segments_(segments),
      map_(map),
      rank_(rank),
      memory_(memory),
      process_memory_(map, std::move(processes)),
      single_copy_(single_copy),
      offers_(static_cast<size_t>(map.ranks())),
      confirmations_(static_cast<size_t>(map.ranks())) {
  for (auto& buffers : found_) buffers.resize(static_cast<size_t>(map.ranks()));
}

bool PeerBuffers::asks(bool only_moves) {
  Backoff& backoff = backoffs_[only_moves];
  if (backoff.refusals < kMostRefusals || ++backoff.skipped >= kQuietPeriod) {
    backoff.skipped = 0;
    return true;
  }
  return false;
}

Call PeerBuffers::offer(std::span<const std::byte> input, std::span<std::byte> output, bool only_moves) {
  dropFreed();
  ++questions_;
  only_moves_ = only_moves;
  bytes_ = {input.size(), output.size()};
  own_ = {{place(input), place(output)}, process_memory_.proof(), trial_.own(bytes_[kInput])};
  BufferOffer& from = own_.buffers[kInput];
  if (couldBeRead() && process_memory_.hasItsRights() &&
      (from.segment.id != 0 || ProcessMemory::canBeRead(input)))
    from.address = reinterpret_cast<uintptr_t>(input.data());
  return gatherOf(own_, offers_);
}

BufferOffer PeerBuffers::place(std::span<const std::byte> buffer) const {
  BufferOffer offer;
  if (memory_ == Memory::kOfProcess) {
    offer.address = reinterpret_cast<uintptr_t>(buffer.data());
  } else if (const auto found = segments_.find(buffer.data(), buffer.size())) {
    offer.segment = found->name;
    offer.offset = found->offset;
  }
  return offer;
}

// Whether this call's inputs can be read, as far as every rank knows.
bool PeerBuffers::couldBeRead() const {
  return memory_ == Memory::kOfSegments && single_copy_ != SingleCopy::kNever && only_moves_ &&
         bytes_[kInput] > 0 && may_read_.value_or(true);
}

// If there is no faster way.
bool PeerBuffers::wantsReading() const {
  return couldBeRead() && !is_shared_[kInput] && !is_shared_[kOutput] &&
         std::all_of(offers_.begin(), offers_.end(),
                     [](const RankOffer& offers) { return offers.buffers[kInput].address != 0; });
}

bool PeerBuffers::readsAll() const {
  for (size_t rank = 0; rank < offers_.size(); ++rank)
    if (static_cast<int>(rank) != rank_ &&
        !process_memory_.reaches(static_cast<int>(rank), offers_[rank].proof))
      return false;
  return true;
}

CopyTimes PeerBuffers::slowest() const {
  CopyTimes slowest;
  for (const RankOffer& offers : offers_) {
    slowest.slots = std::max(slowest.slots, offers.times.slots);
    slowest.kernel = std::max(slowest.kernel, offers.times.kernel);
  }
  return slowest;
}

bool PeerBuffers::areSound(size_t kind) const {
  const size_t bytes = bytes_[kind];
  if (bytes == 0) return false;
  for (size_t rank = 0; rank < offers_.size(); ++rank) {
    const BufferOffer& offer = offers_[rank].buffers[kind];
    const SegmentName& segment = offer.segment;
    const bool is_sound = memory_ == Memory::kOfProcess
                              ? offer.address != 0
                              : segment.id != 0 &&
                                    segment.pid == process_memory_.processOf(static_cast<int>(rank)) &&
                                    bytes <= segment.bytes && offer.offset <= segment.bytes - bytes;
    if (!is_sound) return false;
  }
  return true;
}

bool PeerBuffers::needsConfirmation() {
  fresh_.clear();
  confirmed_ = kMapped;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    is_shared_[kind] = areSound(kind);
    if (!is_shared_[kind] || memory_ == Memory::kOfProcess) continue;
    for (const RankOffer& offers : offers_) {
      const SegmentName& name = offers.buffers[kind].segment;
      if (Known* known = find(name)) {
        known->used = questions_;
        is_shared_[kind] = is_shared_[kind] && known->is_reachable;
      } else {
        remember(name);
      }
    }
  }
  while (known_.size() > kMaxKnownSegments) forgetOldest();
  wants_reading_ = wantsReading();
  tries_reading_ = wants_reading_ && !may_read_;
  if (tries_reading_ && readsAll()) confirmed_ |= kRead;
  return !fresh_.empty() || tries_reading_;
}

void PeerBuffers::remember(const SegmentName& name) {
  fresh_.push_back(name);
  Known& known = known_.emplace_back();
  known.name = name;
  // True until a rank refuses, so that a segment offered by two ranks counts once.
  known.is_reachable = true;
  known.used = questions_;
  if (segments_.dataOf(name)) return;
  Result<PeerSegment> mapped = PeerSegment::open(name);
  if (mapped.ok()) {
    known.mapped.emplace(mapped.take());
  } else {
    confirmed_ &= ~kMapped;
  }
}

Call PeerBuffers::confirmation() {
  return gatherOf(confirmed_, confirmations_);
}

bool PeerBuffers::allConfirmed(std::byte what) const {
  return std::all_of(confirmations_.begin(), confirmations_.end(),
                     [&](std::byte said) { return (said & what) == what; });
}

Result<ReachableBuffers> PeerBuffers::agreed() {
  if (!fresh_.empty()) {
    const bool all = allConfirmed(kMapped);
    for (const SegmentName& name : fresh_)
      if (Known* known = find(name)) known->is_reachable = all;
    for (size_t kind = 0; kind < kKinds && !all; ++kind)
      is_shared_[kind] =
          is_shared_[kind] && std::none_of(offers_.begin(), offers_.end(), [&](const RankOffer& offers) {
            return std::find(fresh_.begin(), fresh_.end(), offers.buffers[kind].segment) != fresh_.end();
          });
  }
  ReachableBuffers buffers;
  for (size_t kind = 0; kind < kKinds; ++kind)
    if (is_shared_[kind]) HORING_TRY(findAll(kind, false));
  if (is_shared_[kInput]) buffers.inputs = found_[kInput].data();
  if (is_shared_[kOutput]) buffers.outputs = found_[kOutput].data();
  if (tries_reading_) may_read_ = allConfirmed(kRead);
  way_.reset();
  if (!wants_reading_ || !*may_read_) return buffers;
  way_ = single_copy_ == SingleCopy::kAlways ? CopyWay::kKernel : trial_.choose(bytes_[kInput], slowest());
  if (*way_ == CopyWay::kSlots) return buffers;
  HORING_TRY(findAll(kInput, true));
  buffers.inputs = found_[kInput].data();
  buffers.reader = &process_memory_;
  return buffers;
}

void PeerBuffers::learn(bool served, int64_t asked_ns, int64_t carried_ns) {
  const bool is_trying = way_ && !trial_.isDecided(bytes_[kInput]);
  if (is_trying) {
    // Other ranks may have been late: the shortest time is the cost of asking.
    least_asked_ns_ = std::min(least_asked_ns_, asked_ns);
    trial_.took(bytes_[kInput], *way_, carried_ns + (*way_ == CopyWay::kKernel ? least_asked_ns_ : 0));
  }
  uint32_t& refusals = backoffs_[only_moves_].refusals;
  refusals = served || is_trying ? 0 : std::min(refusals + 1, kMostRefusals);
}

Status PeerBuffers::findAll(size_t kind, bool are_read) {
  for (int rank = 0; rank < map_.ranks(); ++rank) {
    const BufferOffer& offer = offers_[static_cast<size_t>(rank)].buffers[kind];
    std::byte*& buffer = found_[kind][static_cast<size_t>(map_.positionOfRank(rank))];
    buffer = reinterpret_cast<std::byte*>(offer.address);
    if (memory_ == Memory::kOfProcess || are_read) continue;
    const Known* known = find(offer.segment);
    std::byte* const base = known && known->mapped ? known->mapped->data() : segments_.dataOf(offer.segment);
    if (!base)
      return makeStatus(Code::kRemoteError, "rank %d: the %s of rank %d is in memory that was freed", rank_,
                        kind == kInput ? "input" : "output", rank);
    buffer = base + offer.offset;
  }
  return {};
}

PeerBuffers::Known* PeerBuffers::find(const SegmentName& name) {
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const Known& known) { return known.name == name; });
  return found == known_.end() ? nullptr : &*found;
}

// Every rank forgets the same segment, since all keep the same order.
void PeerBuffers::forgetOldest() {
  const auto oldest = std::min_element(known_.begin(), known_.end(),
                                       [](const Known& a, const Known& b) { return a.used < b.used; });
  known_.erase(oldest);
}

// The name stays in the list: the list must not depend on when this rank looks.
void PeerBuffers::dropFreed() {
  for (Known& known : known_)
    if (known.mapped && known.mapped->freed()) known.mapped.reset();
}

}  // namespace horing
