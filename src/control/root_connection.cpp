#include "control/root_connection.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/listener.h"
#include "control/control.h"
#include "control/control_messages.h"
#include "control/host_addresses.h"

namespace horing {

namespace {

constexpr int64_t kAttemptMs = 2000;      // before the next address is tried
constexpr int64_t kOnlyAttemptMs = 5000;  // when there is no other address
// Until a machine answers: a short time at first, since some of several addresses may not be reachable, then longer.
constexpr int64_t kFirstAnswerMs = 250;
constexpr int kFirstPauseMs = 10;
constexpr int kLongestPauseMs = 500;
// A restarted job may reach its predecessor, which is about to end, on the same port; a wrong key does not change.
constexpr int64_t kRefusalPatienceMs = 3000;
// A refusal may also come from another host, while the rendezvous is still to open at another of the addresses.
constexpr int64_t kStrangerPatienceMs = 20'000;

// What starts ranks may set the loopback interface up only after them.
constexpr int64_t kLoopbackPatienceMs = 2000;

// An unreachable machine is reported long before the deadline.
constexpr int64_t kSilenceReportedMs = 8000;
constexpr const char* kAdvice =
    "a firewall, or an interface that does not reach that machine? HORING_SOCKET_IFNAME chooses the "
    "interfaces";

Status abortedStatus() {
  return makeStatus(Code::kInvalidUsage, "the communicator was aborted while it was set up");
}

// The machine that answered is not, or no longer, this job's rendezvous.
bool isRefusal(const Status& status) {
  return status.code() == Code::kRemoteError;
}

std::string addressList(const UniqueIdParts& parts) {
  std::string text;
  for (const Endpoint& root : parts.roots) text += (text.empty() ? "" : ", ") + root.text();
  return text;
}

Status isOver(const UniqueIdParts& parts) {
  return makeStatus(
      Code::kRemoteError,
      "the rendezvous at %s has ended: this unique ID was used already, or the process that made "
      "it has ended; or these addresses lead elsewhere from here, or a firewall refuses "
      "(HORING_SOCKET_IFNAME chooses the interface)",
      addressList(parts).c_str());
}

Status withoutLoopback(const UniqueIdParts& parts) {
  return makeStatus(Code::kSystemError,
                    "the rendezvous at %s cannot be reached: this machine's own addresses lead through its "
                    "loopback interface, which is down: `ip link set lo up`",
                    addressList(parts).c_str());
}

// What the addresses answered when each was tried once.
struct Round {
  Status error;  // the one that explains most; ok: none was tried
  bool all_refuse = true;
  bool any_refuses = false;
  bool any_answers = false;

  // A rendezvous of another job explains more than silence, and silence more than a port at which nobody listens.
  void add(const Status& failed, Attempt how) {
    const bool refuses = how == Attempt::kNobodyListens;
    if (error.ok() || isRefusal(failed) || (!refuses && all_refuse)) error = failed;
    all_refuse = all_refuse && refuses;
    any_refuses = any_refuses || refuses;
    any_answers = any_answers || refuses || isRefusal(failed);
  }
};

// `last`: the last complete round.
Status limitReached(const UniqueIdParts& parts, const WaitLimit& limit, bool was_open, const Round& last) {
  if (limit.aborted()) return abortedStatus();
  const std::string where = addressList(parts);
  const Status& error = last.error;
  if (isRefusal(error))
    return makeStatus(
        Code::kRemoteError,
        "the rendezvous at %s: %s. Use one unique ID, and one version of horing, on all ranks%s",
        where.c_str(), error.message().c_str(),
        was_open ? "; or this unique ID was used already, or the process that made it has ended, "
                   "and another one listens at its port now"
                 : "");
  const bool nobody_listens = last.any_refuses && last.all_refuse;
  std::string_view why = error.ok() ? "there was no time to try" : std::string_view(error.message());
  if (why.starts_with(where + ": ")) why.remove_prefix(where.size() + 2);
  return makeStatus(
      Code::kTimeout, "the rendezvous at %s cannot be reached: %.*s. %s", where.c_str(),
      static_cast<int>(why.size()), why.data(),
      nobody_listens
          ? "Nothing listens there: rank 0 (without a launcher the process that made the unique ID) has not "
            "begun or has ended, its communicator is complete without this rank, or the address is wrong"
          : "Is that machine up, the address right, and no firewall between? "
            "HORING_SOCKET_IFNAME chooses the interface");
}

}  // namespace

Status waitAndProgress(ControlChannel& channel, const WaitLimit& limit, int at_most_ms) {
  pollfd item{channel.fd(), POLLIN, 0};
  if (channel.wantsWrite()) item.events |= POLLOUT;
  int wait_ms = std::min(limit.deadline.remainingMs(), at_most_ms);
  if (limit.abort) wait_ms = std::min(wait_ms, kAbortCheckMs);
  if (::poll(&item, 1, wait_ms) < 0 && errno != EINTR)
    return systemError(errno, "waiting for the rendezvous failed");
  return channel.progress();
}

Result<std::unique_ptr<ControlChannel>> connectOnce(const Endpoint& address, const Key& key,
                                                    const WaitLimit& limit, Attempt* how) {
  if (how) *how = Attempt::kRefusedHere;
  HORING_ASSIGN(Fd fd, openSocket(address.address.family));
  tuneControlSocket(fd.get());
  if (how) *how = Attempt::kFailed;
  if (const int refused = beginConnect(fd.get(), address); refused != 0)
    return systemError(refused, "%s", address.text().c_str());
  auto channel =
      std::make_unique<ControlChannel>(std::move(fd), key, HandshakeRole::kConnector, maxRankMessageBytes());
  // Nothing is read or written before the connect is complete: that would look like an error.
  pollfd item{channel->fd(), POLLOUT, 0};
  const Deadline answered_by = limit.answered_by.value_or(limit.deadline);
  while (::poll(&item, 1, std::min(answered_by.remainingMs(), kAbortCheckMs)) <= 0) {
    if (limit.aborted()) return abortedStatus();
    if (answered_by.passed()) return makeStatus(Code::kTimeout, "%s: no answer", address.text().c_str());
  }
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(channel->fd(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error != 0) {
    if (how && error == ECONNREFUSED) *how = Attempt::kNobodyListens;
    return systemError(error, "%s", address.text().c_str());
  }
  while (!channel->proven()) {
    HORING_TRY(waitAndProgress(*channel, limit, kAbortCheckMs));
    if (limit.aborted()) return abortedStatus();
    if (!channel->proven() && limit.deadline.passed())
      return makeStatus(Code::kTimeout, "%s: something listens there, but does not answer",
                        address.text().c_str());
  }
  return channel;
}

Result<std::unique_ptr<ControlChannel>> connectToRoot(const UniqueIdParts& parts, const Clock& clock,
                                                      const WaitLimit& limit, bool was_open, const Log& log) {
  const std::vector<Endpoint> roots = behindEachInterface(parts.roots);
  const Key key = jobKey(parts, "control");
  const int64_t attempt_ms = roots.size() > 1 ? kAttemptMs : kOnlyAttemptMs;
  Deadline silent_until = Deadline::after(clock, kSilenceReportedMs);
  bool silence_reported = false;
  Round last;
  std::optional<int64_t> refused_from_ns;
  const bool may_be_cut_off = loopbackIsDown() && areAllOfThisMachine(roots);
  const auto cut_off_from = Deadline::after(clock, kLoopbackPatienceMs);
  int64_t answer_ms = roots.size() > 1 || may_be_cut_off ? kFirstAnswerMs : kOnlyAttemptMs;
  Deadline closed_until = Deadline::after(clock, kRefusalPatienceMs);  // restarts unless all refuse
  for (int pause_ms = kFirstPauseMs; !limit.over(); pause_ms = std::min(2 * pause_ms, kLongestPauseMs)) {
    Round round;
    for (const Endpoint& root : roots) {
      if (limit.over()) {
        round.all_refuse = false;  // not all were tried
        break;
      }
      const int64_t bounded_ms = std::min<int64_t>(attempt_ms, limit.deadline.remainingMs());
      const auto answered_by = Deadline::after(clock, std::min(answer_ms, bounded_ms));
      Attempt how = Attempt::kFailed;
      Result<std::unique_ptr<ControlChannel>> connected =
          connectOnce(root, key, {Deadline::after(clock, bounded_ms), limit.abort, answered_by}, &how);
      if (connected.ok() || how == Attempt::kRefusedHere) return connected;
      round.add(connected.status(), how);
    }
    if (may_be_cut_off && cut_off_from.passed() && !round.any_answers && !limit.over() && loopbackIsDown())
      return withoutLoopback(parts);
    const bool is_complete = !limit.over(), may_begin = !was_open && round.any_refuses;
    if (!isRefusal(last.error) && (is_complete || last.error.ok() || isRefusal(round.error))) last = round;
    answer_ms = std::min(2 * answer_ms, attempt_ms);
    if (round.any_answers) silent_until = Deadline::after(clock, kSilenceReportedMs);
    if (silent_until.passed() && !std::exchange(silence_reported, true))
      log.warn("control", "no answer yet from the rendezvous at %s (%s): %s", addressList(parts).c_str(),
               last.error.message().c_str(), kAdvice);
    if (isRefusal(last.error) && !refused_from_ns) refused_from_ns = clock.nowNs();
    const int64_t refusals_ms = may_begin ? kStrangerPatienceMs : kRefusalPatienceMs;
    if (refused_from_ns && clock.nowNs() - *refused_from_ns >= refusals_ms * 1'000'000) break;
    if (!was_open || !round.all_refuse) closed_until = Deadline::after(clock, kRefusalPatienceMs);
    if (closed_until.passed() && !limit.over()) return isOver(parts);
    ::poll(nullptr, 0, std::min(pause_ms, limit.deadline.remainingMs()));
  }
  return limitReached(parts, limit, was_open, last);
}

}  // namespace horing
