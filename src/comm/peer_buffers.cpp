#include "comm/peer_buffers.h"

#include <algorithm>
#include <utility>

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

PeerBuffers::PeerBuffers(const SegmentList& segments, const GroupMap& map, int rank, Memory memory,
                         std::vector<int64_t> processes)
    : segments_(segments),
      map_(map),
      rank_(rank),
      memory_(memory),
      processes_(std::move(processes)),
      offers_(static_cast<size_t>(map.ranks())),
      confirmations_(static_cast<size_t>(map.ranks())) {
  for (auto& buffers : found_) buffers.resize(static_cast<size_t>(map.ranks()));
}

bool PeerBuffers::asks() {
  if (refusals_ < kPatience || ++skipped_ >= kQuietPeriod) {
    skipped_ = 0;
    return true;
  }
  return false;
}

Call PeerBuffers::offer(std::span<const std::byte> input, std::span<std::byte> output) {
  dropFreed();
  ++questions_;
  bytes_ = {input.size(), output.size()};
  own_ = {place(input.data(), input.size()), place(output.data(), output.size())};
  return gatherOf(own_, offers_);
}

BufferOffer PeerBuffers::place(const std::byte* buffer, size_t bytes) const {
  BufferOffer offer;
  if (memory_ == Memory::kOfProcess) {
    offer.address = reinterpret_cast<uintptr_t>(buffer);
  } else if (const auto found = segments_.find(buffer, bytes)) {
    offer.segment = found->name;
    offer.offset = found->offset;
  }
  return offer;
}

bool PeerBuffers::areSound(size_t kind) const {
  const size_t bytes = bytes_[kind];
  if (bytes == 0) return false;
  for (size_t rank = 0; rank < offers_.size(); ++rank) {
    const BufferOffer& offer = offers_[rank][kind];
    const SegmentName& segment = offer.segment;
    const bool is_sound = memory_ == Memory::kOfProcess
                              ? offer.address != 0
                              : segment.id != 0 && segment.pid == processes_[rank] &&
                                    bytes <= segment.bytes && offer.offset <= segment.bytes - bytes;
    if (!is_sound) return false;
  }
  return true;
}

bool PeerBuffers::needsConfirmation() {
  fresh_.clear();
  for (size_t kind = 0; kind < kKinds; ++kind) {
    is_shared_[kind] = areSound(kind);
    if (!is_shared_[kind] || memory_ == Memory::kOfProcess) continue;
    for (const Offers& offers : offers_) {
      const SegmentName& name = offers[kind].segment;
      if (Known* known = find(name)) {
        known->used = questions_;
        is_shared_[kind] = is_shared_[kind] && known->is_reachable;
      } else {
        remember(name);
      }
    }
  }
  while (known_.size() > kMaxKnownSegments) forgetOldest();
  return !fresh_.empty();
}

void PeerBuffers::remember(const SegmentName& name) {
  if (fresh_.empty()) could_map_ = std::byte{1};
  fresh_.push_back(name);
  Known& known = known_.emplace_back();
  known.name = name;
  // True until somebody says no, so that a segment that two ranks offer counts once.
  known.is_reachable = true;
  known.used = questions_;
  if (segments_.dataOf(name)) return;
  Result<PeerSegment> mapped = PeerSegment::open(name);
  if (mapped.ok()) {
    known.mapped.emplace(mapped.take());
  } else {
    could_map_ = std::byte{0};
  }
}

Call PeerBuffers::confirmation() {
  return gatherOf(could_map_, confirmations_);
}

Result<ReachableBuffers> PeerBuffers::agreed() {
  if (!fresh_.empty()) {
    const bool all = std::all_of(confirmations_.begin(), confirmations_.end(),
                                 [](std::byte b) { return b == std::byte{1}; });
    for (const SegmentName& name : fresh_)
      if (Known* known = find(name)) known->is_reachable = all;
    for (size_t kind = 0; kind < kKinds && !all; ++kind)
      is_shared_[kind] =
          is_shared_[kind] && std::none_of(offers_.begin(), offers_.end(), [&](const Offers& offers) {
            return std::find(fresh_.begin(), fresh_.end(), offers[kind].segment) != fresh_.end();
          });
  }
  ReachableBuffers buffers;
  for (size_t kind = 0; kind < kKinds; ++kind)
    if (is_shared_[kind]) HORING_TRY(findAll(kind));
  if (is_shared_[kInput]) buffers.inputs = found_[kInput].data();
  if (is_shared_[kOutput]) buffers.outputs = found_[kOutput].data();
  return buffers;
}

void PeerBuffers::learn(bool served) {
  refusals_ = served ? 0 : std::min(refusals_ + 1, kPatience);
}

Status PeerBuffers::findAll(size_t kind) {
  for (int rank = 0; rank < map_.ranks(); ++rank) {
    const BufferOffer& offer = offers_[static_cast<size_t>(rank)][kind];
    std::byte*& buffer = found_[kind][static_cast<size_t>(map_.positionOfRank(rank))];
    buffer = reinterpret_cast<std::byte*>(offer.address);
    if (memory_ == Memory::kOfProcess) continue;
    const Known* known = find(offer.segment);
    std::byte* const base = known && known->mapped ? known->mapped->data() : segments_.dataOf(offer.segment);
    if (!base)
      return makeStatus(Code::kRemoteError, "rank %d: the %s of rank %d lies in memory that was freed", rank_,
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

// Every rank forgets the same one: they remember in the same order.
void PeerBuffers::forgetOldest() {
  const auto oldest = std::min_element(known_.begin(), known_.end(),
                                       [](const Known& a, const Known& b) { return a.used < b.used; });
  known_.erase(oldest);
}

// What stays is the name: when it goes must not depend on when this rank looks.
void PeerBuffers::dropFreed() {
  for (Known& known : known_)
    if (known.mapped && known.mapped->freed()) known.mapped.reset();
}

}  // namespace horing
