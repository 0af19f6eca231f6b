#include "comm/guard/guard.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "control/root_service.h"

namespace horing {

namespace {

// A broken link is often a consequence of another rank's death: the time to wait for the root cause.
constexpr int64_t kRootCauseMs = kReturnTryMs + kGoodbyeMs;

}  // namespace

Status Guard::occupied() const {
  return makeStatus(Code::kInvalidUsage,
                    "rank %d: another thread is in this communicator; one thread at a time may use it",
                    parts_.rank);
}

Status Guard::mayBegin() {
  if (error_.ok() && parts_.aborted.load(std::memory_order_relaxed))
    return fail(makeStatus(Code::kInvalidUsage, "the communicator was aborted"));
  if (error_.ok() && left_)
    return makeStatus(Code::kInvalidUsage, "rank %d: the communicator was finalized", parts_.rank);
  return error_;
}

Result<std::vector<std::vector<std::byte>>> Guard::allGather(std::span<const std::byte> mine,
                                                             int64_t timeout_ms, std::string_view what) {
  const Away away = this->away();
  return parts_.control.allGather(mine, Deadline::after(parts_.clock, timeout_ms), what);
}

Status Guard::fail(Status status) {
  return error_.ok() ? stick(rootCause(std::move(status))) : error_;
}

// Announces the error to the other ranks; allocates nothing.
Status Guard::stick(Status error) {
  error_ = std::move(error);
  if (parts_.control.status().ok()) parts_.control.announceError(error_);
  parts_.log.warn("comm", "%s: %s", codeName(error_.code()), error_.message().c_str());
  return error_;
}

Status Guard::breakOff(Status why) {
  const ExclusiveUse exclusive = enter();
  if (exclusive.owns()) return fail(std::move(why));
  parts_.control.announceError(why);
  return why;
}

Status Guard::rootCause(Status status) const {
  if (status.code() != Code::kRemoteError) return status;
  const Control& control = parts_.control;
  const Deadline deadline = Deadline::after(parts_.clock, kRootCauseMs);
  // A rendezvous that has closed in good order sends no news.
  while (!deadline.passed() && !parts_.aborted.load(std::memory_order_relaxed) &&
         !control.isOver(std::min(deadline.remainingMs(), kAbortCheckMs))) {
  }
  return control.status().ok() ? status : control.status();
}

Status Guard::news() const {
  if (parts_.aborted.load(std::memory_order_relaxed))
    return makeStatus(Code::kInvalidUsage, "rank %d: the communicator was aborted", parts_.rank);
  Status news = parts_.control.status();
  if (const Status why = parts_.buffer_users.givenUp(); news.ok() && !why.ok())
    news = makeStatus(Code::kRemoteError, "%s", why.message().c_str());
  return news;
}

Status Guard::asyncError() {
  const ExclusiveUse exclusive = enter(Use::kLook);
  // The call that is inside will return the error.
  if (!exclusive.owns()) return {};
  if (error_.ok() && !left_) {
    Status found = news();
    if (!found.ok()) return stick(std::move(found));
  }
  return error_;
}

void Guard::abort() {
  parts_.aborted.store(true, std::memory_order_relaxed);
  // The thread inside notices at its next check, or when its blocking wait ends.
  while (use_.load(std::memory_order_acquire) != Use::kNone) ::poll(nullptr, 0, 1);
}

void Guard::leave() {
  if (error_.ok() && !parts_.aborted) {
    // For a late rank whose last call differs: the rendezvous then reports the mismatch.
    for (const CallLog* log : {&parts_.records.calls(), &parts_.records.launches()})
      if (const uint64_t begun = log->recorder().begun(); begun > 0)
        parts_.control.reportCall(log->report(log->first() + begun - 1));
    parts_.control.leave();
  }
  left_ = true;
}

}  // namespace horing
