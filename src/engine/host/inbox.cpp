#include "engine/host/inbox.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <utility>

namespace horing {

namespace {

const Transfer::TaggedReceive& taggedReceive(const Transfer& receive) {
  return std::get<Transfer::TaggedReceive>(receive.kind);
}

void tellSource(const Transfer& receive, int from) {
  if (int* const source = taggedReceive(receive).source) *source = from;
}

}  // namespace

Status Inbox::wrongSize(const Transfer& receive, int from, size_t bytes) const {
  return makeStatus(Code::kInvalidUsage,
                    "rank %d receives %zu bytes with tag %" PRIu64
                    ", and rank %d sent %zu: sends and receives must agree on count and type",
                    rank_, receive.bytes, taggedReceive(receive).tag, from, bytes);
}

Result<std::optional<int>> Inbox::post(const Transfer& receive) {
  const uint64_t number = next_++;
  const std::optional<size_t> message = matcher_.post(receive.peer, taggedReceive(receive).tag, number);
  if (!message) {
    posted_.emplace(number, receive);
    return std::optional<int>();
  }
  Kept& kept = kept_.at(*message);
  if (kept.data.size() != receive.bytes) return wrongSize(receive, kept.from, kept.data.size());
  if (!kept.is_complete) {
    kept.taker = receive;
    kept.taker->peer = kept.from;
    return std::optional<int>();
  }
  const int from = kept.from;
  hand(*message, receive);
  return std::optional(from);
}

void Inbox::hand(uint64_t number, const Transfer& receive) {
  const auto kept = kept_.find(number);
  if (receive.bytes > 0) std::memcpy(receive.output(), kept->second.data.data(), receive.bytes);
  tellSource(receive, kept->second.from);
  kept_bytes_ -= receive.bytes;
  kept_.erase(kept);
}

Result<std::optional<Transfer>> Inbox::arrive(int from, uint64_t tag, size_t bytes) {
  if (const std::optional<size_t> receive = matcher_.arrive(from, tag)) {
    Transfer taken = posted_.extract(*receive).mapped();
    if (taken.bytes != bytes) return wrongSize(taken, from, bytes);
    taken.peer = from;
    return std::optional<Transfer>(taken);
  }
  if (bytes > kMostKeptBytes - kept_bytes_) return std::optional<Transfer>();
  const uint64_t number = next_++;
  Kept& kept = kept_[number];
  kept.from = from;
  kept.data.resize(bytes);
  kept_bytes_ += bytes;
  matcher_.keep(from, tag, number);
  return std::optional<Transfer>(
      {.kind = Transfer::Kept{kept.data.data(), number}, .peer = from, .bytes = bytes});
}

std::optional<Transfer> Inbox::complete(const Transfer& arrived) {
  const auto* const message = std::get_if<Transfer::Kept>(&arrived.kind);
  if (!message) {
    tellSource(arrived, arrived.peer);
    return arrived;
  }
  Kept& kept = kept_.at(message->number);
  kept.is_complete = true;
  const std::optional<Transfer> taker = kept.taker;
  if (taker) hand(message->number, *taker);
  return taker;
}

std::vector<int32_t> Inbox::waitsFor() const {
  std::vector<int32_t> ranks;
  for (const auto& [number, receive] : posted_)
    if (receive.peer != kAnyRank && std::find(ranks.begin(), ranks.end(), receive.peer) == ranks.end())
      ranks.push_back(receive.peer);
  return ranks;
}

std::string Inbox::describe() const {
  constexpr size_t kMostDescribed = 8;
  std::string text;
  size_t described = 0;
  for (const auto& [number, receive] : posted_) {
    if (described++ == kMostDescribed) break;
    const std::string from =
        receive.peer == kAnyRank ? std::string("any rank") : formatString("rank %d", receive.peer);
    text += formatString("%s0 of %zu bytes with tag %" PRIu64 " from %s", text.empty() ? "" : "; ",
                         receive.bytes, taggedReceive(receive).tag, from.c_str());
  }
  if (posted_.size() > kMostDescribed)
    text += formatString(" and %zu more messages", posted_.size() - kMostDescribed);
  if (kept_bytes_ > 0)
    text += formatString("%s%zu bytes of messages with other tags are here", text.empty() ? "" : "; ",
                         kept_bytes_);
  return text;
}

}  // namespace horing
