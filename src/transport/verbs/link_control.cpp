// What the two ends of a link say to each other over the control link: how to begin, what is lost, and farewell.
#include <algorithm>
#include <cstring>

#include "transport/link_shape.h"
#include "transport/verbs/link.h"

namespace horing::verbs {

namespace {

// How long a link without a path, and without hope, waits for a better explanation: a peer that died or left tells so by the control
// link, perhaps a moment later.
constexpr int64_t kExplanationNs = 1'000'000'000;

template <typename Struct>
bool read(const Message& message, Struct& into) {
  if (message.bytes != sizeof into) return false;
  std::memcpy(&into, message.data, sizeof into);
  return true;
}

}  // namespace

void VerbsLink::progressControl() {
  if (!status_.ok() || departed_ || instead_) return;
  if (!control_.status().ok()) return controlFailed();
  if (!control_.established()) return;
  if (!said_hello_) sayHello();
  Receiver& words = control_.receiver(0);
  while (status_.ok() && !departed_) {
    const Message* const word = words.tryPeek();
    if (!word) break;
    hear(*word);
    words.release();
  }
  if (!control_.status().ok() && !departed_) controlFailed();
  progressLives();
  if (!why_stranded_.empty()) judgeStranded();
}

// False: the control link is broken, or not there yet.
bool VerbsLink::say(Word word, std::span<const std::byte> what) {
  std::byte* const memory =
      control_.established() && control_.status().ok() ? control_.sender(0).tryAcquire() : nullptr;
  if (!memory) return false;
  std::copy(what.begin(), what.end(), memory);
  control_.sender(0).post(static_cast<uint32_t>(what.size()), static_cast<Tag>(word));
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
  said_hello_ = say(Word::kHello, std::as_bytes(std::span(&hello, 1)));
  for (size_t i = 0; i < paths_.size() && said_hello_; ++i)
    if (paths_[i].pair)
      paths_[i].offered = true;
    else
      sayBroken(i);
}

PathHello VerbsLink::helloOf(const LinkPath& path) const {
  return {.queue_pair = path.pair->queuePair(),
          .packet_number = path.pair->firstPacket(),
          .remote_key = path.incoming.remoteKey(),
          .reserved = 0};
}

bool VerbsLink::sayPath(Word word, size_t index) {
  const auto number = static_cast<uint32_t>(index);
  return say(word, std::as_bytes(std::span(&number, 1)));
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
  paths_[index].said_broken = say(Word::kBroken, std::as_bytes(std::span(&said, 1)));
}

void VerbsLink::hear(const Message& message) {
  const auto word = static_cast<Word>(message.tag);
  if (word == Word::kHello && !heard_hello_) return hearHello(message);
  if (word == Word::kReady && said_hello_ && heard_hello_ && !peer_ready_ && message.bytes == 0) {
    peer_ready_ = true;
    return;
  }
  if (word == Word::kBroken && heard_hello_) return hearBroken(message);
  Again again;
  if (word == Word::kAgain && said_ready_ && read(message, again)) return hearAgain(again);
  uint32_t path = 0;
  if (word == Word::kOn && heard_hello_ && read(message, path)) return hearOn(path);
  if (word == Word::kGoodbye && said_ready_) return hearGoodbye(message);
  broken("a word out of turn");
}

void VerbsLink::hearHello(const Message& message) {
  Hello hello;
  if (!read(message, hello) || hello.channels > UINT16_MAX) return broken("a broken hello");
  const LinkShape theirs{
      .channels = static_cast<int>(hello.channels), .slots = hello.slots, .slot_bytes = hello.slot_bytes};
  if (theirs != shape()) return fail(linkShapeMismatch(options_.rank, shape(), options_.peer, theirs));
  // Both ends have computed the paths from the same addresses.
  if (hello.paths != paths_.size()) return broken("another number of paths than ours");
  heard_hello_ = true;
  peer_slots_ = hello.slots_address;
  for (size_t i = 0; i < paths_.size(); ++i) {
    paths_[i].theirs = hello.path[i];
    paths_[i].heard_offer = hello.path[i].queue_pair != 0;  // else the peer says next why it has none
    if (paths_[i].pair && paths_[i].heard_offer) connectPath(i);
  }
}

// Whoever notices first that a path is gone tells the other, which gives it up, too, and says what it has; then each sends again.
void VerbsLink::hearBroken(const Message& message) {
  Broken said;
  if (!read(message, said) || said.path >= paths_.size()) return broken("a loss of no path");
  said.why.back() = '\0';
  LinkPath& path = paths_[said.path];
  if (path.over()) beginLife(path);  // of which the peer had not even something to offer
  if (path.peer_gave_up) return broken("a loss that it has told before");
  path.peer_gave_up = true;
  // It will not offer it again, so that there is nothing to wait for.
  path.lost_for_good = path.lost_for_good || said.for_good != 0;
  giveUp(said.path, formatString("rank %d says: %s", options_.peer, said.why.data()));
  for (size_t channel = 0; channel < channels_.size(); ++channel)
    if (!channels_[channel]->sender.pathGone(static_cast<uint16_t>(said.path), said.state[channel]))
      return broken("it says that it has messages that were not sent");
}

void VerbsLink::hearGoodbye(const Message& message) {
  if (!read(message, goodbye_)) return broken("a broken goodbye");
  for (uint32_t channel = 0; channel < channels_.size(); ++channel) {
    VerbsSender& sender = channels_[channel]->sender;
    if (!sender.takeCredit(goodbye_.released[channel]))
      return broken("more messages acknowledged than were sent");
    if (!sender.flushed()) failDeparted(channel);
  }
  departed_ = true;
}

void VerbsLink::controlFailed() {
  const std::string also = why_stranded_.empty() ? "" : " (by RDMA: " + why_stranded_ + ")";
  fail(makeStatus(control_.status().code(), "%s%s", control_.status().message().c_str(), also.c_str()));
}

void VerbsLink::judgeStranded() {
  if (!status_.ok() || departed_) return;
  if (!ready()) {
    if (agreedWithoutPaths()) goWithoutPaths();
    return;
  }
  const bool has_hope =
      std::any_of(paths_.begin(), paths_.end(), [](const LinkPath& path) { return !path.lost_for_good; });
  const int64_t patience_ns = has_hope ? std::max(options_.outage_ns, kExplanationNs) : kExplanationNs;
  if (options_.clock->nowNs() - stranded_since_ns_ < patience_ns) return;
  fail(makeStatus(Code::kRemoteError,
                  "rank %d lost its last RDMA path to rank %d, and none came back within %lld ms%s: %s; look "
                  "at the port (ibv_devinfo, rdma link), the cable and the "
                  "switch, or use HORING_TRANSPORTS=shm,socket",
                  options_.rank, options_.peer, static_cast<long long>(patience_ns / 1'000'000),
                  has_hope ? " (HORING_IB_OUTAGE_MS)" : "", why_stranded_.c_str()));
}

// An end says that it is ready while it has a path, hence before it says that it has lost the last one. So once both have said so of all,
// both know whether both were ready, and only then one may have sent anything.
bool VerbsLink::agreedWithoutPaths() const {
  return heard_hello_ &&
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
  if (!status_.ok() || departed_ || !ready() || instead_ || said_goodbye_) return true;
  if (waiting_count_ > 0 || credits_owed_) return false;
  bool settled = true;
  for (size_t index = 0; index < paths_.size(); ++index) {
    LinkPath& path = paths_[index];
    if (!path.proven) continue;  // it has carried nothing in this life
    // What went by a path that is gone is known to be lost or not once the peer has said so.
    settled = settled && (path.pair || path.peer_gave_up);
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
  // Unsaid, the control link is broken, and nobody listens.
  [[maybe_unused]] const bool heard = say(Word::kGoodbye, std::as_bytes(std::span(&said, 1)));
  return said_goodbye_ = true;
}

}  // namespace horing::verbs
