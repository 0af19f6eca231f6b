#include "engine/host/plan.h"

#include <algorithm>

#include "base/check.h"

namespace horing {

namespace {
template <typename T>
void addOnce(std::vector<T*>& list, T* item) {
  if (item && std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

// Index of a connection in a list that has each once; the newest is checked first, since rings continue with it.
size_t numberOf(std::vector<LandingReceiver*>& list, LandingReceiver* item) {
  const auto found = std::find(list.rbegin(), list.rend(), item);
  if (found != list.rend()) return static_cast<size_t>(list.rend() - found) - 1;
  list.push_back(item);
  return list.size() - 1;
}

}  // namespace

int channelOf(const Schedule& schedule, size_t lane, int32_t position,
              std::vector<int32_t> (*peers_of)(const Lane&)) {
  int channel = 0;
  for (size_t lower = 0; lower < lane; ++lower) {
    const std::vector<int32_t> peers = peers_of(schedule.lanes[lower]);
    channel += std::binary_search(peers.begin(), peers.end(), position);
  }
  HORING_CHECK_LT(channel, kLinkChannels);
  return channel;
}

Plan::Plan(Schedule schedule, const PlanSettings& settings, ConnectionSource& connections)
    : schedule_(std::move(schedule)), settings_(settings) {
  for (int32_t q = 0; q < schedule_.scratch_queues; ++q)
    queues_.push_back(std::make_unique<ScratchQueue>(settings.window + 1, settings.slot_bytes));
  bound_.resize(schedule_.lanes.size());
  landing_receivers_.resize(bound_.size());
  signals_.resize(static_cast<size_t>(schedule_.ranks));
  for (size_t lane = 0; lane < schedule_.lanes.size(); ++lane) {
    for (const Block& block : schedule_.lanes[lane].blocks)
      for (const Step& step : block.body) bound_[lane].push_back(bindStep(step, lane, connections));
  }
}

BoundStep Plan::bindStep(const Step& step, size_t lane, ConnectionSource& connections) {
  BoundStep bound;
  bound.is_input.reset(new bool[step.sources.size()]());
  for (const Source& source : step.sources) {
    bound.is_input[bound.sources.size()] = readsInput(source);
    BoundSource& operand = bound.sources.emplace_back(BoundSource{source.kind});
    if (source.kind == Source::Kind::kScratch)
      operand.queue = queues_[static_cast<size_t>(source.index)].get();
    if (source.kind == Source::Kind::kPeerIn) {
      operand.position = source.index;
      reads_peers_ = true;
    }
    if (!takesMessage(source)) continue;
    operand.receiver =
        &connections.receiver(source.index, channelOf(schedule_, lane, source.index, recvPeers));
    operand.landings = operand.receiver->landings();
    if (operand.landings) operand.landing_number = numberOf(landing_receivers_[lane], operand.landings);
    operand.peer = connections.rankOf(source.index);
    addOnce(lent_, operand.receiver->lent());
  }
  if (step.keep.kind == Keep::Kind::kScratch)
    bound.keep_queue = queues_[static_cast<size_t>(step.keep.index)].get();
  writes_peers_ = writes_peers_ || step.keep.kind == Keep::Kind::kEveryOut;
  bound.completes = step.completes;
  if (step.send_to >= 0) {
    bound.send =
        SendEnd(connections.sender(step.send_to, channelOf(schedule_, lane, step.send_to, sendPeers)));
    bound.send_peer = connections.rankOf(step.send_to);
    addOnce(senders_, bound.send.sender);
    sender_ranks_.resize(senders_.size(), bound.send_peer);
    addOnce(shared_, bound.send.shared);
  }
  for (const int32_t peer : step.signal_to) {
    const SendEnd end(connections.sender(peer, channelOf(schedule_, lane, peer, sendPeers)));
    const int32_t rank = bound.signals.emplace_back(BoundSignal{end, connections.rankOf(peer)}).peer;
    addOnce(senders_, end.sender);
    sender_ranks_.resize(senders_.size(), rank);
    signals_[static_cast<size_t>(peer)] = end.shared;
    addOnce(shared_, signals_[static_cast<size_t>(peer)]);
  }
  largest_source_count_ = std::max(largest_source_count_, static_cast<int32_t>(bound.sources.size()));
  return bound;
}

bool Plan::flushed() const {
  return std::all_of(senders_.begin(), senders_.end(), [](const Sender* s) { return s->flushed(); });
}

void Plan::addUnflushed(PeerWaits& waits) const {
  for (size_t i = 0; i < senders_.size(); ++i)
    if (!senders_[i]->flushed()) waits.add({.peer = sender_ranks_[i], .for_room = true});
}

void Plan::roam(bool all) {
  for (SharedSlotsSender* shared : shared_) shared->roam(all);
}

bool Plan::settle() {
  bool settled = true;
  for (LentReceiver* lent : lent_) settled = lent->settle() && settled;
  return settled;
}

uint64_t Plan::memoryBytes() const {
  uint64_t bytes = 0;
  for (const auto& queue : queues_) bytes += queue->bytes();
  return bytes;
}

}  // namespace horing
