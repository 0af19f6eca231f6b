#include "capi/group_calls.h"

#include <algorithm>
#include <utility>

#include "capi/streams.h"

namespace horing {

namespace {

// Adds the transfers of one command to another of the same communicator.
void append(Pending& to, const Pending& added) {
  auto& transfers = std::get<ExchangeCommand>(to.command.work).transfers;
  const auto more = added.command.transfers();
  transfers.insert(transfers.end(), more.begin(), more.end());
  auto& pinned = to.command.pinned;
  pinned.insert(pinned.end(), added.command.pinned.begin(), added.command.pinned.end());
  // A driver can copy host memory, too.
  to.command.on_gpu |= added.command.on_gpu;
  const horingStream_t stream = added.streams.front();
  if (std::find(to.streams.begin(), to.streams.end(), stream) == to.streams.end())
    to.streams.push_back(stream);
}

bool waitsForSignals(const Pending& pending) {
  return std::holds_alternative<Transfer::SignalWait>(pending.command.transfers().front().kind);
}

// One-sided operations of a communicator keep their order: puts and signals without a wait between them become one exchange, as do waits.
// What precedes the first wait needs no other call of this group, and comes where it was called; the first wait and what follows come last,
// since another rank may signal after it has met the rest of this group.
class OneSidedOperations {
 public:
  void add(Pending pending, std::vector<Pending>& commands) {
    const auto isOfComm = [&](const Pending& other) { return other.comm == pending.comm; };
    const bool waits = waitsForSignals(pending);
    const bool is_last = waits || std::any_of(last_.begin(), last_.end(), isOfComm);
    std::vector<Pending>& place = is_last ? last_ : commands;
    const auto before = std::find_if(place.rbegin(), place.rend(), isOfComm);
    const bool joins =
        before != place.rend() && isOneSided(before->command) && waitsForSignals(*before) == waits;
    if (joins) return append(*before, pending);
    place.push_back(std::move(pending));
  }
  std::vector<Pending>& last() { return last_; }

 private:
  std::vector<Pending> last_;
};

Status checkKind(const Pending& call, const std::vector<Pending>& calls) {
  const bool all_alike = std::all_of(calls.begin(), calls.end(), [&](const Pending& other) {
    return other.comm != call.comm || !isOneSided(other.command) || isForCuda(other) == isForCuda(call);
  });
  if (all_alike) return {};
  return makeStatus(
      Code::kInvalidUsage,
      "a group has one-sided operations of one communicator on a stream of CUDA and others on "
      "none, or on one of horingStreamCreate: they keep their order, so issue all on streams of "
      "one kind");
}

}  // namespace

bool isForCuda(const Command& command, horingStream_t stream) {
  return command.on_gpu && !isOwnStream(stream);
}

Result<std::vector<Pending>> mergeTransfers(std::vector<Pending> commands) {
  std::vector<Pending> merged, exchanges;
  OneSidedOperations one_sided;
  for (Pending& pending : commands) {
    if (isOneSided(pending.command)) {
      one_sided.add(std::move(pending), merged);
      continue;
    }
    if (!pending.command.isExchange()) {
      merged.push_back(std::move(pending));
      continue;
    }
    const auto same = std::find_if(exchanges.begin(), exchanges.end(), [&](const Pending& other) {
      return other.comm == pending.comm && goesBeside(other.command) == goesBeside(pending.command);
    });
    if (same == exchanges.end()) {
      exchanges.push_back(std::move(pending));
      continue;
    }
    if (isForCuda(*same) != isForCuda(pending))
      return makeStatus(
          Code::kInvalidUsage,
          "a group has sends or receives of one communicator on a stream of CUDA and others on none, "
          "or on one of horingStreamCreate: they go together, so issue all on streams of one kind");
    append(*same, pending);
  }
  std::stable_partition(exchanges.begin(), exchanges.end(),
                        [](const Pending& pending) { return !goesBeside(pending.command); });
  std::move(exchanges.begin(), exchanges.end(), std::back_inserter(merged));
  std::move(one_sided.last().begin(), one_sided.last().end(), std::back_inserter(merged));
  return merged;
}

void orderLaunches(std::vector<Pending>& commands) {
  if (std::none_of(commands.begin(), commands.end(),
                   [](const Pending& pending) { return pending.command.on_gpu; }))
    return;
  std::stable_sort(commands.begin(), commands.end(), [](const Pending& one, const Pending& other) {
    return one.comm->communicator->membership().id() < other.comm->communicator->membership().id();
  });
}

Status OneSidedOnCuda::takeFrom(std::vector<Pending>& calls) {
  std::vector<std::vector<Pending>*> places(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!isOneSided(calls[i].command)) continue;
    HORING_TRY(checkKind(calls[i], calls));
    if (!isForCuda(calls[i])) continue;
    HORING_ASSIGN(const bool is_late, comesLate(i, calls));
    places[i] = is_late ? &late_ : &early_;
  }
  std::vector<Pending> others;
  for (size_t i = 0; i < calls.size(); ++i) (places[i] ? *places[i] : others).push_back(std::move(calls[i]));
  calls = std::move(others);
  return {};
}
Result<bool> OneSidedOnCuda::comesLate(size_t i, const std::vector<Pending>& calls) {
  const Pending& call = calls[i];
  if (waitsForSignals(call)) have_waits_.insert(call.comm);
  if (have_waits_.contains(call.comm)) return true;
  const auto isOnItsStream = [&](const Pending& other) {
    return isForCuda(other) && !isOneSided(other.command) && other.streams == call.streams;
  };
  const auto at = calls.begin() + static_cast<ptrdiff_t>(i);
  const bool is_behind = std::any_of(calls.begin(), at, [&](const Pending& other) {
    return isOnItsStream(other) && !other.command.isExchange();
  });
  if (!is_behind && !come_late_.contains(call.comm)) return false;
  come_late_.insert(call.comm);
  const bool is_before = std::any_of(at, calls.end(), isOnItsStream) ||
                         std::any_of(calls.begin(), at, [&](const Pending& other) {
                           return isOnItsStream(other) && other.command.isExchange();
                         });
  if (!is_before) return true;
  return makeStatus(Code::kInvalidUsage,
                    "a group has a put or a signal behind a collective on a stream of CUDA, and there before "
                    "another, or with messages: issue it before them all, or behind the group");
}

Status OneSidedOnCuda::enqueue(const std::vector<Pending>& calls) {
  for (const Pending& call : calls) {
    const horingStream_t stream = call.streams.front();
    const auto before = last_.find(call.comm);
    std::optional<StreamMark> behind;
    if (before != last_.end() && before->second.stream != stream) behind = before->second.mark;
    HORING_ASSIGN(const StreamMark mark, call.comm->queue->enqueueOneSided(call.command, stream, behind));
    last_[call.comm] = {mark, stream};
  }
  return {};
}

}  // namespace horing
