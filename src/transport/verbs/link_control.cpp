// The control messages between the two ends of a link: setup, losses, and departure.
#include <algorithm>

#include "transport/link_shape.h"
#include "transport/verbs/link.h"

namespace horing::verbs {

namespace {

// How long a link that has lost all paths for good waits for a better error: the control link may report a moment later that the peer died
// or left.
constexpr int64_t kExplanationNs = 1'000'000'000;

}  // namespace

const std::array<VerbsLink::Rule, 6> VerbsLink::kRules = [] {
  using enum LinkStage;
  return std::array<Rule, 6>{{
      {ControlTag::kHello, kBegun, kBegun, kBegun, kGreeted, &VerbsLink::hearHello},
      {ControlTag::kReady, kGreeted, kGreeted, kGreeted, kReady, &VerbsLink::hearReady},
      {ControlTag::kBroken, kBegun, kGreeted, kReady, {}, &VerbsLink::hearBroken},
      {ControlTag::kOn, kBegun, kGreeted, kReady, {}, &VerbsLink::hearOn},
      {ControlTag::kAgain, kReady, kGreeted, kReady, {}, &VerbsLink::hearAgain},
      {ControlTag::kGoodbye, kReady, kReady, kReady, kLeft, &VerbsLink::hearGoodbye},
  }};
}();

void VerbsLink::progressControl() {
  if (!status_.ok() || hasLeft() || instead_) return;
  if (!control_.status().ok()) return controlFailed();
  if (!control_.established()) return;
  if (mine_ == LinkStage::kBegun) sayHello();
  Receiver& incoming = control_.receiver(0);
  while (status_.ok() && !hasLeft()) {
    const Message* const message = incoming.tryPeek();
    if (!message) break;
    hear(*message);
    incoming.release();
  }
  if (!control_.status().ok() && !hasLeft()) controlFailed();
  progressRecovery();
  if (!why_stranded_.empty()) judgeStranded();
}

// False: the control link is broken, or not established yet.
bool VerbsLink::say(ControlTag tag, std::span<const std::byte> what) {
  std::byte* const memory =
      control_.established() && control_.status().ok() ? control_.sender(0).tryAcquire(kWholeSlot) : nullptr;
  if (!memory) return false;
  std::copy(what.begin(), what.end(), memory);
  control_.sender(0).post(static_cast<uint32_t>(what.size()), static_cast<Tag>(tag));
  return true;
}

void VerbsLink::sayHello() {
  Hello hello{.channels = static_cast<uint32_t>(shape().channels),
              .slots = shape().slots,
              .slot_bytes = shape().slot_bytes,
              .paths = static_cast<uint32_t>(paths_.size()),
              .slots_address = reinterpret_cast<uintptr_t>(slots_.get() + rowBytes()),
              .path = {}};
  for (size_t i = 0; i < paths_.size(); ++i)
    if (paths_[i].pair) hello.path[i] = helloOf(paths_[i]);
  if (!say(ControlTag::kHello, std::as_bytes(std::span(&hello, 1)))) return;
  mine_ = LinkStage::kGreeted;
  for (size_t i = 0; i < paths_.size(); ++i)
    if (paths_[i].pair)
      paths_[i].mine = PathStage::kOffered;
    else
      sayBroken(i);
}

PathHello VerbsLink::helloOf(const LinkPath& path) const {
  return {.queue_pair = path.pair->queuePair(),
          .packet_number = path.pair->firstPacket(),
          .remote_key = path.incoming.remoteKey(),
          .reserved = 0};
}

bool VerbsLink::sayPath(ControlTag tag, size_t index) {
  const auto number = static_cast<uint32_t>(index);
  return say(tag, std::as_bytes(std::span(&number, 1)));
}

void VerbsLink::sayBroken(size_t index) {
  const std::string& why = paths_[index].why_lost;
  Broken said{.path = static_cast<uint32_t>(index),
              .for_good = paths_[index].lost_for_good ? 1u : 0u,
              .state = {},
              .why = {}};
  for (size_t channel = 0; channel < channels_.size(); ++channel)
    said.state[channel] = channels_[channel]->receiver.state();
  std::copy_n(why.begin(), std::min(why.size(), said.why.size() - 1), said.why.begin());
  if (say(ControlTag::kBroken, std::as_bytes(std::span(&said, 1)))) paths_[index].mine = PathStage::kBroken;
}

void VerbsLink::hear(const Message& message) {
  const auto* const rule =
      std::ranges::find(kRules, message.tag, [](const Rule& each) { return static_cast<Tag>(each.tag); });
  if (rule == kRules.end() || mine_ < rule->mine || peers_ < rule->first || peers_ > rule->last)
    return broken("an unexpected control message");
  peers_ = rule->then.value_or(peers_);
  (this->*rule->hear)(message);
}

void VerbsLink::hearHello(const Message& message) {
  Hello hello;
  if (!read(message, hello) || hello.channels > UINT16_MAX) return broken("a broken hello");
  const LinkShape theirs{
      .channels = static_cast<int>(hello.channels), .slots = hello.slots, .slot_bytes = hello.slot_bytes};
  if (theirs != shape()) return fail(linkShapeMismatch(options_.rank, shape(), options_.peer, theirs));
  // Both ends compute the paths from the same addresses.
  if (hello.paths != paths_.size()) return broken("another number of paths than ours");
  peer_slots_ = hello.slots_address;
  for (size_t i = 0; i < paths_.size(); ++i) {
    paths_[i].theirs = hello.path[i];
    // Otherwise the peer's next message gives the reason.
    const bool is_offered = hello.path[i].queue_pair != 0 && paths_[i].hears(PathStage::kOffered);
    if (paths_[i].pair && is_offered) connectPath(i);
  }
}

void VerbsLink::hearReady(const Message& message) {
  if (message.bytes != 0) broken("data where none belongs");
}

// The end that first notices a lost path reports it; the other gives it up, too, and reports what it has received; then both
// retransmit.
void VerbsLink::hearBroken(const Message& message) {
  Broken said;
  if (!read(message, said) || said.path >= paths_.size())
    return broken("the loss of a path that does not exist");
  said.why.back() = '\0';
  LinkPath& path = paths_[said.path];
  if (path.over()) beginGeneration(path);  // which the peer begins by kBroken: it has nothing to offer
  if (!path.hears(PathStage::kBroken)) return broken("a loss that it has reported before");
  // It will not offer it again, so that there is nothing to wait for.
  path.lost_for_good = path.lost_for_good || said.for_good != 0;
  giveUp(said.path, formatString("rank %d reports: %s", options_.peer, said.why.data()));
  for (size_t channel = 0; channel < channels_.size(); ++channel)
    if (!channels_[channel]->sender.pathGone(static_cast<uint16_t>(said.path), said.state[channel]))
      return broken("a state with messages that were not sent");
}

void VerbsLink::hearGoodbye(const Message& message) {
  if (!read(message, goodbye_)) return broken("a broken goodbye");
  for (uint32_t channel = 0; channel < channels_.size(); ++channel) {
    VerbsSender& sender = channels_[channel]->sender;
    if (!sender.takeCredit(goodbye_.released[channel]))
      return broken("more messages acknowledged than were sent");
    if (!sender.flushed()) failDeparted(channel);
  }
}

void VerbsLink::controlFailed() {
  const std::string also = why_stranded_.empty() ? "" : " (by RDMA: " + why_stranded_ + ")";
  fail(makeStatus(control_.status().code(), "%s%s", control_.status().message().c_str(), also.c_str()));
}

void VerbsLink::judgeStranded() {
  if (!status_.ok() || hasLeft()) return;
  if (!ready()) {
    if (agreedWithoutPaths()) goWithoutPaths();
    return;
  }
  const bool has_hope =
      std::any_of(paths_.begin(), paths_.end(), [](const LinkPath& path) { return !path.lost_for_good; });
  const int64_t patience_ns = has_hope ? std::max(options_.outage_ns, kExplanationNs) : kExplanationNs;
  if (options_.clock->nowNs() - stranded_since_ns_ < patience_ns) return;
  fail(makeStatus(Code::kRemoteError,
                  "rank %d lost its last RDMA path to rank %d, and none came back within %lld ms: %s; look "
                  "at the port (ibv_devinfo, rdma link), the cable and the "
                  "switch, or use HORING_TRANSPORTS=shm,socket",
                  options_.rank, options_.peer, static_cast<long long>(patience_ns / 1'000'000),
                  why_stranded_.c_str()));
}

// An end reports ready while it has a path, hence before it reports the loss of its last path. So once both ends have reported all paths
// lost, both know whether both were ready; only in that case may data have been sent.
bool VerbsLink::agreedWithoutPaths() const {
  return peers_ != LinkStage::kBegun &&
         std::all_of(paths_.begin(), paths_.end(), [](const LinkPath& path) { return path.over(); });
}

void VerbsLink::goWithoutPaths() {
  if (!options_.instead)
    return fail(makeStatus(Code::kSystemError,
                           "rank %d cannot link to rank %d by RDMA, no path works: %s; look at the ports "
                           "(ibv_devinfo, rdma link) "
                           "and their addresses, or let sockets serve: HORING_TRANSPORTS=shm,verbs,socket",
                           options_.rank, options_.peer, why_stranded_.c_str()));
  Result<Link*> made = options_.instead();
  if (!made.ok()) return fail(made.status());
  options_.log.warn("verbs", "no RDMA path to rank %d works (%s); sockets serve instead", options_.peer,
                    why_stranded_.c_str());
  instead_ = made.value();
  for (LinkPath& path : paths_) {
    path.outgoing = Registration();
    path.incoming = Registration();
  }
  slots_.reset();
}

bool VerbsLink::leave() {
  if (!status_.ok() || hasLeft() || !ready() || instead_ || mine_ == LinkStage::kLeft) return true;
  if (waiting_count_ > 0 || credits_owed_) return false;
  bool settled = true;
  for (size_t index = 0; index < paths_.size(); ++index) {
    LinkPath& path = paths_[index];
    if (!path.proven) continue;  // it has carried nothing in this generation
    // Messages sent by a lost path are known to be lost or not once the peer has reported its state.
    settled = settled && (path.pair || path.peers == PathStage::kBroken);
    if (!path.pair) continue;
    if (const Status asked = path.pair->settle(); !asked.ok()) postFailed(path, asked);
    settled = settled && path.pair && path.pair->settled();
  }
  if (!settled) return false;
  Goodbye said{};
  for (size_t channel = 0; channel < channels_.size(); ++channel) {
    said.posted[channel] = channels_[channel]->sender.posted();
    said.released[channel] = channels_[channel]->receiver.released();
  }
  // If it cannot be sent, the control link is broken, and the peer is not listening.
  [[maybe_unused]] const bool heard = say(ControlTag::kGoodbye, std::as_bytes(std::span(&said, 1)));
  mine_ = LinkStage::kLeft;
  return true;
}

}  // namespace horing::verbs
