#include "transport/verbs/link.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "transport/link_shape.h"

namespace horing::verbs {

namespace {
// Sends per slot: a message and its credit, and the same for an announcement; also bounds how far the two ends' states may differ.
constexpr uint32_t kSendsPerSlot = 4;
}  // namespace

void VerbsLink::FreeDelete::operator()(std::byte* memory) const {
  std::free(memory);
}

QueueShape VerbsLink::queueShape(uint32_t channel) const {
  if (channel < dataChannels()) return {shape().slots, shape().slot_bytes};
  return {std::min(shape().slots, kMaxLandingSlots), kLandingSlotBytes};
}

uint64_t VerbsLink::slotBytes() const {
  uint64_t bytes = 0;
  for (const QueueShape queue : {queueShape(0), queueShape(dataChannels())})
    bytes += uint64_t{queue.stride()} * queue.slots * dataChannels();
  return (bytes + kLargestPacket - 1) / kLargestPacket * kLargestPacket;
}

uint64_t VerbsLink::memoryBytes() const {
  return sizeof *this + (slots_ ? 2 * rowBytes() : 0);
}

Status VerbsLink::open() {
  slots_.reset(static_cast<std::byte*>(std::aligned_alloc(kLargestPacket, 2 * rowBytes())));
  if (!slots_)
    return makeStatus(Code::kSystemError,
                      "rank %d cannot allocate %llu bytes for the slots of its link to rank %d",
                      options_.rank, static_cast<unsigned long long>(2 * rowBytes()), options_.peer);
  std::byte* outgoing = slots_.get();
  for (uint32_t channel = 0; channel < 2 * dataChannels(); ++channel) {
    const QueueShape queue = queueShape(channel);
    channels_.emplace_back(new Channel{VerbsSender(*this, channel, queue, outgoing),
                                       VerbsReceiver(*this, channel, queue, outgoing + rowBytes())});
    outgoing += uint64_t{queue.stride()} * queue.slots;
  }
  waiting_.resize(size_t{2} * dataChannels() * shape().slots);
  paths_.resize(options_.paths.size());
  for (size_t index = 0; index < paths_.size(); ++index)
    if (const Status opened = openPath(index); !opened.ok()) giveUp(index, opened.message());
  return {};
}

// Each message is answered by at most one credit, and at most as many messages as slots are unanswered. So each end has at most one pending
// message and one pending credit of the peer for each slot.
Status VerbsLink::openPath(size_t index) {
  LinkPath& path = paths_[index];
  Device& device = *options_.paths[index].device;
  const uint32_t slots = static_cast<uint32_t>(shape().channels) * shape().slots;
  if (!path.outgoing.valid()) {
    HORING_ASSIGN(path.outgoing, Registration::make(device, {.begin = slots_.get(), .bytes = rowBytes()}, 0));
  }
  if (!path.incoming.valid()) {
    HORING_ASSIGN(path.incoming,
                  Registration::make(device, {.begin = slots_.get() + rowBytes(), .bytes = rowBytes()},
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  }
  HORING_ASSIGN(path.pair, Path::make(device, {.id = options_.new_path_id(*this, index),
                                               .sends = kSendsPerSlot * slots,
                                               .receives = kSendsPerSlot * slots,
                                               .pkey_index = options_.tuning.pkey_index}));
  return {};
}

std::string VerbsLink::describe() const {
  if (instead_)
    return instead_->describe() + " (RDMA does not reach rank " + std::to_string(options_.peer) + ")";
  std::string text = "verbs " + options_.paths.front().name;
  if (paths_.size() > 1) text += formatString(" and %zu more paths", paths_.size() - 1);
  if (const size_t there = pathsLeft(); there < paths_.size())
    text += formatString(", %zu of them lost", paths_.size() - there);
  if (!established())
    text += "; waits for rank " + std::to_string(options_.peer) + " over " + control_.describe();
  return text;
}

size_t VerbsLink::openPaths() const {
  return static_cast<size_t>(
      std::count_if(paths_.begin(), paths_.end(), [](const LinkPath& path) { return path.works(); }));
}

// Paths that carry data, or may do so once both ends are ready.
size_t VerbsLink::pathsLeft() const {
  if (ready()) return openPaths();
  return static_cast<size_t>(
      std::count_if(paths_.begin(), paths_.end(), [](const LinkPath& path) { return !path.lost(); }));
}

void VerbsLink::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void VerbsLink::failDeparted(uint32_t channel) {
  fail(makeStatus(Code::kRemoteError,
                  "rank %d left (it destroyed or aborted its communicator) while rank %d still needs it on "
                  "channel %u (%s)",
                  options_.peer, options_.rank, channel, options_.paths.front().name.c_str()));
}

void VerbsLink::progress(Effort effort) {
  if (!status_.ok() || hasLeft() || !ready() || instead_) return;
  if (waiting_count_ > 0) pushWaiting();
  if (credits_owed_) pushCredits(effort);
}

void VerbsLink::send(uint32_t channel, uint64_t sequence) {
  if (!status_.ok()) return;
  if (hasLeft()) return failDeparted(channel);
  HORING_CHECK_LT(waiting_count_, waiting_.size());
  waiting_[(waiting_first_ + waiting_count_++) % waiting_.size()] = {channel, sequence};
  pushWaiting();
}

void VerbsLink::pushWaiting() {
  while (waiting_count_ > 0 && status_.ok()) {
    const Waiting next = waiting_[waiting_first_];
    LinkPath* const path = choosePath(channels_[next.channel]->sender.bytesOf(next.sequence));
    if (!path) return;
    if (!transmit(*path, next)) continue;  // then by another path
    waiting_first_ = (waiting_first_ + 1) % waiting_.size();
    --waiting_count_;
  }
}

// The path that will finish the message first, by the speed of its ports and what has not arrived yet. A path that is slower than its ports
// has more of that, whoever waits for the oldest message: so it is given less.
VerbsLink::LinkPath* VerbsLink::choosePath(uint32_t bytes) {
  LinkPath* best = nullptr;
  std::pair<bool, double> best_cost;
  for (size_t i = 0; i < paths_.size(); ++i) {
    const size_t index = (turn_ + i) % paths_.size();
    LinkPath& path = paths_[index];
    if (!path.works() || !path.pair->hasRoom()) continue;
    const uint32_t mbps =
        std::min(options_.paths[index].device->port().mbps, options_.paths[index].theirs.mbps);
    const std::pair cost(options_.paths[index].spare,
                         static_cast<double>(path.pair->bytesUnderWay() + bytes) / mbps);
    if (best && cost >= best_cost) continue;
    best = &path;
    best_cost = cost;
  }
  ++turn_;
  return best;
}

bool VerbsLink::transmit(LinkPath& path, const Waiting& message) {
  Channel& channel = *channels_[message.channel];
  const uint32_t bytes = channel.sender.bytesOf(message.sequence);
  std::byte* const header = channel.sender.headerOf(message.sequence);
  const uint64_t credit = channel.receiver.released();
  std::memcpy(header + offsetof(SlotHeader, credit), &credit, sizeof credit);
  const Piece head{.from = header, .bytes = sizeof(SlotHeader), .local_key = path.outgoing.localKey()};
  Piece data{.from = header + sizeof(SlotHeader), .bytes = bytes, .local_key = path.outgoing.localKey()};
  if (const std::byte* const memory = channel.sender.callersMemoryOf(message.sequence)) {
    const RegionCache::Entry* const lent = lentMemory(memory, bytes);
    if (!lent) {
      fail(makeStatus(Code::kInternalError,
                      "rank %d took back the memory of a message to rank %d before that had arrived",
                      options_.rank, options_.peer));
      return false;
    }
    data.from = memory;
    data.local_key = lent->localKey(deviceOf(path));
    data.of_gpu = lent->ofGpu();
  }
  const auto index = static_cast<size_t>(&path - paths_.data());
  const VerbsSender::Target& target = channel.sender.targetOf(message.sequence);
  Status posted;
  if (target.address != 0) {
    posted = path.pair->post(
        {.pieces = {data}, .to = target.address, .remote_key = target.keys[index], .immediate = {}});
    data = {};
  }
  // Last, and by the same path: the data is there when the header arrives.
  if (posted.ok())
    posted = path.pair->post(
        {.pieces = {head, data},
         .to = peer_slots_ + static_cast<uint64_t>(header - slots_.get()),  // both ends use the same layout
         .remote_key = path.theirs.remote_key,
         .immediate = Immediate::pack(Immediate::Kind::kData, message.channel, message.sequence)});
  if (!posted.ok()) {
    postFailed(path, posted);
    return false;
  }
  channel.receiver.noteCreditSent(credit);
  channel.sender.sent(message.sequence, static_cast<uint16_t>(index));
  return true;
}

// Credits get a separate message if the peer may soon wait for them, or if this rank is idle; otherwise they are piggybacked on the next
// message of the channel.
void VerbsLink::pushCredits(Effort effort) {
  credits_owed_ = false;
  for (uint32_t channel = 0; channel < channels_.size(); ++channel) {
    const VerbsReceiver& receiver = channels_[channel]->receiver;
    const uint64_t owed = receiver.released() - receiver.creditSent();
    if (owed == 0) continue;
    const bool worth = effort == Effort::kThorough || owed * 2 >= receiver.slots();
    if (!worth || !pushCredit(channel)) credits_owed_ = true;
  }
}

bool VerbsLink::returnCredit(uint32_t channel) {
  return !status_.ok() || pushCredit(channel);
}

bool VerbsLink::pushCredit(uint32_t channel) {
  LinkPath* const path = choosePath(0);
  if (!path) return false;
  VerbsReceiver& receiver = channels_[channel]->receiver;
  const Status posted = path->pair->post(
      {.pieces = {},
       .to = peer_slots_,
       .remote_key = path->theirs.remote_key,
       .immediate = Immediate::pack(Immediate::Kind::kCredit, channel, receiver.released())});
  if (!posted.ok()) {
    postFailed(*path, posted);
    return false;
  }
  receiver.noteCreditSent(receiver.released());
  return true;
}

void VerbsLink::postFailed(LinkPath& path, const Status& status) {
  giveUp(static_cast<size_t>(&path - paths_.data()), status.message());
}

VerbsLink::Loss VerbsLink::lossOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
      return Loss::kForGood;
    default:
      return Loss::kOfNetwork;
  }
}

void VerbsLink::completed(size_t index, const ibv_wc& done) {
  LinkPath& path = paths_[index];
  if (!path.pair || path.pair->id() != Path::idOf(done) || !status_.ok()) return;
  if (done.status != IBV_WC_SUCCESS) {
    // A peer that has left receives nothing any more, which is no failure.
    if (hasLeft()) return;
    const char* const text = options_.paths[index].device->library().statusText(done.status);
    giveUp(index, formatString("%s (vendor code %u)", text, done.vendor_err), lossOf(done.status));
    return;
  }
  if (!Path::received(done)) {
    path.pair->sendDone(done);
    if (!path.proven) prove(index);
    return;
  }
  arrived(done);
  // The path may have been given up meanwhile.
  if (!path.pair) return;
  if (const Status room = path.pair->receiveDone(); !room.ok() && !hasLeft()) postFailed(path, room);
}

std::array<uint32_t, kMaxPaths> VerbsLink::remoteKeys(const RegionCache::Entry& region) const {
  std::array<uint32_t, kMaxPaths> keys{};
  for (size_t path = 0; path < paths_.size(); ++path)
    keys[path] = region.remoteKey(options_.paths[path].device_index);
  return keys;
}

void VerbsLink::broken(const char* what) {
  fail(makeStatus(Code::kRemoteError,
                  "rank %d violated the protocol in a message to rank %d (%s): %s; this is a bug of horing "
                  "or memory that was "
                  "overwritten",
                  options_.peer, options_.rank, options_.paths.front().name.c_str(), what));
}

void VerbsLink::arrived(const ibv_wc& done) {
  const Immediate immediate = Immediate::unpack(done.imm_data);
  if (done.opcode != IBV_WC_RECV_RDMA_WITH_IMM || immediate.channel >= channels_.size())
    return broken("a message for a channel that does not exist");
  Channel& channel = *channels_[immediate.channel];
  uint64_t credit = 0;
  if (immediate.kind == Immediate::Kind::kCredit) {
    credit = immediate.widen(channel.sender.credited());
  } else {
    const uint64_t sequence = immediate.widen(channel.receiver.released());
    if (!channel.receiver.arrived(sequence, done.byte_len))
      return broken("a message out of order, or of another size than announced");
    std::memcpy(&credit, channel.receiver.headerOf(sequence) + offsetof(SlotHeader, credit), sizeof credit);
  }
  if (!channel.sender.takeCredit(credit)) return broken("more messages acknowledged than were sent");
  if (immediate.channel >= dataChannels())
    channels_[immediate.channel - dataChannels()]->sender.announcementArrived();
}

// From here on nothing arrives by this path, and unseen completions are ignored.
void VerbsLink::giveUp(size_t index, const std::string& why, Loss loss) {
  LinkPath& path = paths_[index];
  if (path.lost()) return;
  path.pair.reset();
  path.why_lost = why.empty() ? "no reason given" : why;
  path.lost_at_ns = options_.clock->nowNs();
  ++path.losses;
  path.lost_for_good = path.lost_for_good || loss == Loss::kForGood;
  const std::string& name = options_.paths[index].name;
  options_.log.warn("verbs", "lost a path to rank %d (%s): %s; %zu of %zu are left", options_.peer,
                    name.c_str(), why.c_str(), pathsLeft(), paths_.size());
  if (mine_ != LinkStage::kBegun) sayBroken(index);
  if (openPaths() > 0 || !why_stranded_.empty()) return;
  why_stranded_ = name + ": " + why;
  stranded_since_ns_ = options_.clock->nowNs();
}

void VerbsLink::portFailed(const Device& device, const std::string& why) {
  if (!status_.ok() || hasLeft()) return;
  for (size_t index = 0; index < paths_.size(); ++index)
    if (options_.paths[index].device == &device && paths_[index].pair &&
        (openPaths() > 1 || !paths_[index].proven || device.dead()))
      giveUp(index, why, device.dead() ? Loss::kForGood : Loss::kOfNetwork);
}

}  // namespace horing::verbs
