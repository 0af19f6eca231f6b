#include "engine/host/message_matcher.h"

#include <algorithm>

namespace horing {

namespace {

// Removes and returns the first entry that matches.
template <typename Fits>
std::optional<size_t> take(std::list<MessageMatcher::Entry>& entries, const Fits& fits) {
  const auto found = std::find_if(entries.begin(), entries.end(), fits);
  if (found == entries.end()) return std::nullopt;
  const size_t number = found->number;
  entries.erase(found);
  return number;
}

}  // namespace

std::optional<size_t> MessageMatcher::post(int from, uint64_t tag, size_t receive) {
  const std::optional<size_t> message = take(
      kept_, [&](const Entry& kept) { return kept.tag == tag && (from == kAnyRank || kept.from == from); });
  if (!message) posted_.push_back({from, tag, receive});
  return message;
}

std::optional<size_t> MessageMatcher::arrive(int from, uint64_t tag) {
  return take(posted_, [&](const Entry& posted) {
    return posted.tag == tag && (posted.from == kAnyRank || posted.from == from);
  });
}

bool MessageMatcher::awaits(int from) const {
  return std::any_of(posted_.begin(), posted_.end(),
                     [&](const Entry& posted) { return posted.from == kAnyRank || posted.from == from; });
}

}  // namespace horing
