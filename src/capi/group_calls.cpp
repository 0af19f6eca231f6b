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

// One-sided operations of a communicator keep their order: puts and signals without a wait between them become one exchange, as do waits.
// What precedes the first wait needs no other call of this group, and comes where it was called; the first wait and what follows come last,
// since another rank may signal after it has met the rest of this group.
class OneSidedOperations {
 public:
  void add(Pending pending, std::vector<Pending>& commands) {
    const auto isOfComm = [&](const Pending& other) { return other.comm == pending.comm; };
    const bool waits = waitsForSignals(pending.command);
    const bool is_last = waits || std::any_of(last_.begin(), last_.end(), isOfComm);
    std::vector<Pending>& place = is_last ? last_ : commands;
    const auto before = std::find_if(place.rbegin(), place.rend(), isOfComm);
    const bool joins =
        before != place.rend() && isOneSided(before->command) && waitsForSignals(before->command) == waits;
    if (joins) return append(*before, pending);
    place.push_back(std::move(pending));
  }
  std::vector<Pending>& last() { return last_; }

 private:
  std::vector<Pending> last_;
};

Status mixedKinds() {
  return makeStatus(
      Code::kInvalidUsage,
      "a group has one-sided operations of one communicator on a stream of CUDA and others on "
      "none, or on one of horingStreamCreate: they keep their order, so issue all on streams of "
      "one kind");
}

Status outOfPlace(const char* behind) {
  return makeStatus(
      Code::kInvalidUsage,
      "a group has a put or a signal behind %s, and on its stream of CUDA before a collective, or with "
      "messages: issue it before them all, or behind the group",
      behind);
}

}  // namespace

bool isForCuda(const Command& command, horingStream_t stream) {
  return command.on_gpu && !isOwnStream(stream);
}

bool entersStream(const Command& command, bool is_for_cuda) {
  return command.on_gpu && is_for_cuda == isOneSided(command);
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
  std::map<horingComm_t, bool> are_for_cuda;
  std::vector<Other> others_on_cuda;
  for (size_t i = 0; i < calls.size(); ++i) {
    const bool is_for_cuda = isForCuda(calls[i]);
    if (isOneSided(calls[i].command)) {
      if (are_for_cuda.try_emplace(calls[i].comm, is_for_cuda).first->second != is_for_cuda)
        return mixedKinds();
    } else if (is_for_cuda) {
      others_on_cuda.push_back({i, calls[i].streams.front(), calls[i].command.isExchange()});
    }
  }
  std::vector<Pending> others;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!isOneSided(calls[i].command) || !are_for_cuda.at(calls[i].comm)) {
      others.push_back(std::move(calls[i]));
      continue;
    }
    HORING_ASSIGN(const bool is_late, comesLate(i, calls[i], others_on_cuda));
    (is_late ? late_ : early_).push_back(std::move(calls[i]));
  }
  calls = std::move(others);
  return {};
}

Result<bool> OneSidedOnCuda::comesLate(size_t at, const Pending& call, const std::vector<Other>& others) {
  const bool waits = waitsForSignals(call.command);
  if (waits) have_waits_.insert(call.comm);
  bool is_behind = false, is_before = false;  // behind a collective there, or before one, or with messages
  for (const Other& other : others) {
    if (other.stream != call.streams.front()) continue;
    is_behind |= other.at < at && !other.is_exchange;
    is_before |= other.at > at || other.is_exchange;
  }
  if (have_waits_.contains(call.comm)) {
    if (!waits && is_before) return outOfPlace("a wait");
    return true;
  }
  if (!is_behind && !come_late_.contains(call.comm)) return false;
  come_late_.insert(call.comm);
  if (is_before) return outOfPlace("a collective");
  return true;
}

Status OneSidedOnCuda::enterStreams(std::vector<Pending>& others) {
  // What follows a wait of its communicator waits, too, whatever the streams of both.
  std::set<horingComm_t> wait;
  for (std::vector<Pending>* const part : {&early_, &late_})
    for (Pending& call : *part) {
      if (waitsForSignals(call.command)) wait.insert(call.comm);
      HORING_TRY(call.comm->queue->enterStream(call.command, call.streams.front(), wait.contains(call.comm)));
    }
  for (Pending& call : others)
    if (entersStream(call.command, isForCuda(call)))
      HORING_TRY(call.comm->queue->enterStream(call.command, nullptr, false));
  return {};
}

Status OneSidedOnCuda::enqueue(std::vector<Pending>& calls) {
  for (Pending& call : calls) {
    const horingStream_t stream = call.streams.front();
    const auto before = last_.find(call.comm);
    std::optional<StreamMark> behind;
    if (before != last_.end() && before->second.stream != stream) behind = before->second.mark;
    HORING_ASSIGN(const StreamMark mark, call.comm->queue->enqueueOneSided(call.command, stream, behind));
    call.command.stream_use = nullptr;  // the queue keeps that of a wait
    last_[call.comm] = {mark, stream};
  }
  return {};
}

}  // namespace horing
