#include "comm/peer_inputs.h"

#include <algorithm>

namespace horing {

namespace {

// Asking costs a round of messages: after so many refusals in a row only every kQuietPeriod-th call asks.
constexpr uint32_t kPatience = 8;
constexpr uint32_t kQuietPeriod = 16;

template <typename T>
Call gatherOf(const T& own, std::vector<T>& all) {
  Call call;
  call.input = reinterpret_cast<const std::byte*>(&own);
  call.output = reinterpret_cast<std::byte*>(all.data());
  call.count = sizeof(T);
  call.type = DataType::kUint8;
  return call;
}

}  // namespace

PeerInputs::PeerInputs(const SegmentList& segments, const GroupMap& map, int rank, Memory memory)
    : segments_(segments),
      map_(map),
      rank_(rank),
      memory_(memory),
      offers_(static_cast<size_t>(map.ranks())),
      confirmations_(static_cast<size_t>(map.ranks())),
      inputs_(static_cast<size_t>(map.ranks())) {}

bool PeerInputs::asks() {
  if (refusals_ < kPatience || ++skipped_ >= kQuietPeriod) {
    skipped_ = 0;
    return true;
  }
  return false;
}

Call PeerInputs::offer(const std::byte* input, size_t bytes) {
  dropFreed();
  ++questions_;
  bytes_ = bytes;
  own_ = {};
  if (memory_ == Memory::kOfProcess) {
    own_.address = reinterpret_cast<uintptr_t>(input);
  } else if (const auto place = segments_.find(input, bytes)) {
    own_.segment = place->name;
    own_.offset = place->offset;
  }
  return gatherOf(own_, offers_);
}

bool PeerInputs::isSound(const InputOffer& offer) const {
  return offer.segment.id != 0 && bytes_ <= offer.segment.bytes &&
         offer.offset <= offer.segment.bytes - bytes_;
}

bool PeerInputs::needsConfirmation() {
  fresh_.clear();
  is_shared_ = true;
  if (memory_ == Memory::kOfProcess) return false;
  for (const InputOffer& offer : offers_) is_shared_ = is_shared_ && isSound(offer);
  if (!is_shared_) return false;
  for (int rank = 0; rank < map_.ranks(); ++rank) {
    const SegmentName& name = offerOf(rank).segment;
    if (Known* known = find(name)) {
      known->used = questions_;
      is_shared_ = is_shared_ && known->is_readable;
    } else {
      remember(name);
    }
  }
  while (known_.size() > kMaxKnownSegments) forgetOldest();
  return !fresh_.empty();
}

void PeerInputs::remember(const SegmentName& name) {
  if (fresh_.empty()) could_map_ = std::byte{1};
  fresh_.push_back(name);
  Known& known = known_.emplace_back();
  known.name = name;
  // True until somebody says no, so that a segment that two ranks offer counts once.
  known.is_readable = true;
  known.used = questions_;
  if (segments_.dataOf(name)) return;
  Result<PeerSegment> mapped = PeerSegment::open(name);
  if (mapped.ok()) {
    known.mapped.emplace(mapped.take());
  } else {
    could_map_ = std::byte{0};
  }
}

Call PeerInputs::confirmation() {
  return gatherOf(could_map_, confirmations_);
}

Result<const std::byte* const*> PeerInputs::agreed() {
  if (!fresh_.empty()) {
    const bool all = std::all_of(confirmations_.begin(), confirmations_.end(),
                                 [](std::byte b) { return b == std::byte{1}; });
    for (const SegmentName& name : fresh_)
      if (Known* known = find(name)) known->is_readable = all;
    is_shared_ = is_shared_ && all;
  }
  refusals_ = is_shared_ ? 0 : std::min(refusals_ + 1, kPatience);
  if (!is_shared_) return static_cast<const std::byte* const*>(nullptr);
  for (int rank = 0; rank < map_.ranks(); ++rank) {
    const InputOffer& offer = offerOf(rank);
    const std::byte*& input = inputs_[static_cast<size_t>(map_.positionOfRank(rank))];
    input = reinterpret_cast<const std::byte*>(offer.address);
    if (memory_ == Memory::kOfProcess) continue;
    const Known* known = find(offer.segment);
    const std::byte* base = known && known->mapped ? known->mapped->data() : segments_.dataOf(offer.segment);
    if (!base)
      return makeStatus(Code::kRemoteError, "rank %d: the input of rank %d lies in memory that was freed",
                        rank_, rank);
    input = base + offer.offset;
  }
  return static_cast<const std::byte* const*>(inputs_.data());
}

PeerInputs::Known* PeerInputs::find(const SegmentName& name) {
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const Known& known) { return known.name == name; });
  return found == known_.end() ? nullptr : &*found;
}

// Every rank forgets the same one: they remember in the same order.
void PeerInputs::forgetOldest() {
  const auto oldest = std::min_element(known_.begin(), known_.end(),
                                       [](const Known& a, const Known& b) { return a.used < b.used; });
  known_.erase(oldest);
}

// What stays is the name: when it goes must not depend on when this rank looks.
void PeerInputs::dropFreed() {
  for (Known& known : known_)
    if (known.mapped && known.mapped->freed()) known.mapped.reset();
}

}  // namespace horing
