#include "comm/progress/exchange_beside.h"

#include <algorithm>

namespace horing {

bool ExchangeBeside::poll() {
  // A new call may be ready in a moment: with news, waiting begins anew.
  bool progressed = source_.takeNews();
  if (progressed || source_.mayHaveMore()) progressed = admit() || progressed;
  progressed = parts_.messages.poll() || progressed;
  while (const uint64_t ticket = parts_.messages.takeFinished()) {
    parts_.lent.takeBack(/*failed=*/false, ticket);
    deadlines_.erase(ticket);
    source_.finished(ticket);
    progressed = true;
  }
  return progressed;
}

bool ExchangeBeside::admit() {
  bool admitted = false;
  while (const std::optional<MessageSource::Call> call = source_.take()) {
    if (const Status begun = begin(*call); !begun.ok() && status_.ok()) status_ = begun;
    admitted = true;
  }
  return admitted;
}

Status ExchangeBeside::begin(const MessageSource::Call& call) {
  const int64_t begun_ns = parts_.clock.nowNs();
  parts_.recorder.setNow(begun_ns);
  deadlines_.emplace(call.ticket, Deadline::at(parts_.clock, begun_ns, parts_.timeout_ms));
  HORING_TRY(connect(call.transfers));
  for (const Transfer& transfer : call.transfers)
    parts_.lent.lendTransfer(transports_, transfer, call.ticket);
  parts_.messages.join(call.transfers, call.ticket);
  return {};
}

Status ExchangeBeside::connect(std::span<const Transfer> transfers) {
  const auto add = [](LinkSet& links, int peer) {
    if (std::find(links.peers.begin(), links.peers.end(), peer) == links.peers.end())
      links.peers.push_back(peer);
  };
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == parts_.rank) continue;  // a put or a signal
    if (transfer.peer != kAnyRank) {
      add(links_, transfer.peer);
      add(all_links_, transfer.peer);
      continue;
    }
    for (int peer = 0; peer < parts_.ranks; ++peer)
      if (peer != parts_.rank) add(all_links_, peer);
  }
  HORING_TRY(parts_.connector.begin(all_links_));
  transports_ = parts_.connector.transportsOf(all_links_);
  return {};
}

Deadline ExchangeBeside::deadline() const {
  const auto first = std::min_element(
      deadlines_.begin(), deadlines_.end(),
      [](const auto& one, const auto& other) { return one.second.atNs() < other.second.atNs(); });
  return first == deadlines_.end() ? Deadline::after(parts_.clock, parts_.timeout_ms) : first->second;
}

}  // namespace horing
