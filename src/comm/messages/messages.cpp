#include "comm/messages/messages.h"

#include <sched.h>

#include <vector>

#include "base/no_memory.h"
#include "comm/messages/rounds.h"

namespace horing {

Status Messages::exchange(std::span<const Transfer> transfers) {
  if (transfers.front().goesBeside()) return exchangeOver(parts_.beside, transfers, parts_.timeout_ms);
  const std::vector<std::vector<Transfer>> rounds = roundsOf(transfers);
  if (rounds.empty()) return exchangeOver(parts_.untagged, transfers, parts_.timeout_ms);
  for (const std::vector<Transfer>& round : rounds)
    HORING_TRY(exchangeOver(parts_.untagged, round, parts_.timeout_ms));
  return {};
}

Status Messages::exchangeOver(PairMessages& messages, std::span<const Transfer> transfers,
                              int64_t timeout_ms) {
  Guard& guard = parts_.guard;
  const ExclusiveUse exclusive = guard.enter();
  if (!exclusive.owns()) return guard.occupied();
  HORING_TRY(guard.mayBegin());
  const LinkSet links = messages.linksOf(transfers);
  const int64_t begun_ns = parts_.clock.nowNs();
  guard.calls().messages().setNow(begun_ns);
  // Nothing is sent yet: an error here does not stick, unless it is of a put that has arrived.
  if (const Status begun = messages.operation().begin(transfers); !begun.ok())
    return messages.operation().status().ok() ? begun : guard.fail(begun);
  Status status = parts_.connector.begin(links);
  if (status.ok() && !parts_.connector.established(links)) parts_.links_made();
  guard.calls().beginExchange();
  if (status.ok()) {
    const uint32_t transports = parts_.connector.transportsOf(links);
    status = withoutExceptions([&] {
      parts_.reach.lend(transports, transfers);
      return parts_.progress.drive({.operation = messages.operation(),
                                    .transports = transports,
                                    .deadline = Deadline::at(parts_.clock, begun_ns, timeout_ms)});
    });
    parts_.reach.takeBack(!status.ok());
  }
  guard.calls().endExchange();
  if (status.ok()) return status;
  // Before the failure is announced, which writes the flight record.
  messages.operation().recordWaiting(begun_ns);
  return guard.fail(status);
}

// Another thread may be inside for a moment: for progress between calls, or to announce an error.
void Messages::dropSource() {
  for (;; ::sched_yield()) {
    const ExclusiveUse exclusive = parts_.guard.enter();
    if (exclusive.owns()) return parts_.progress.dropMessages();
  }
}

std::optional<Status> Messages::driveBeside() {
  return withMessagesBeside(&Progress::driveBeside);
}

Status Messages::serveBeside() {
  if (!parts_.progress.isThreadOfMessages()) return {};
  return withMessagesBeside(&Progress::serveBeside).value_or(Status());
}

std::optional<Status> Messages::withMessagesBeside(Status (Progress::*drive)()) {
  Guard& guard = parts_.guard;
  const ExclusiveUse exclusive = guard.enter();
  if (!exclusive.owns()) return std::nullopt;
  const Status may = guard.mayBegin();
  const Status status = may.ok() ? withoutExceptions([&] { return (parts_.progress.*drive)(); }) : may;
  if (status.ok()) return Status();
  parts_.reach.takeBackAll();
  parts_.beside.operation().recordWaiting(parts_.clock.nowNs());
  return may.ok() ? guard.fail(status) : status;
}

}  // namespace horing
