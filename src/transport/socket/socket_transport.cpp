#include "transport/socket/socket_transport.h"

#include <poll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>
#include <vector>

#include "transport/lent_memory.h"
#include "transport/link_shape.h"
#include "transport/socket/acceptor.h"
#include "transport/socket/dial.h"
#include "transport/socket/link.h"
#include "transport/socket/published.h"
#include "transport/socket/tuning.h"

namespace horing {

namespace tcp {
namespace {

// Interval of the checks of retries and unproven connections while connections come up; later only peers' silence is checked, each
// second.
constexpr int64_t kBusyTickMs = 10;
constexpr int64_t kQuietTickMs = 1000;
// After this many rounds without an event single credits are sent. Not sooner: a message that can carry them is often one turn of
// another rank away, and a credit frame costs both ends more CPU than everything else in a small collective.
constexpr int64_t kIdleRounds = 1024;
// An unreachable peer is logged after kSilenceMs, and is an error after this time.
constexpr int64_t kNoPathMs = 30'000;
constexpr const char* kPathAdvice =
    "A firewall, or an interface that does not reach that node? HORING_SOCKET_IFNAME chooses the interfaces";
// How long the destructor waits for the kernel to send the remaining data.
constexpr int64_t kLingerMs = 2000;

// Wakes progress() and waits at intervals.
class Ticker final : public PollTarget {
 public:
  Status open(Poller& poller) {
    fd_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!fd_.valid()) return systemError(errno, "open a timer");
    HORING_TRY(poller.add(fd_.get(), EPOLLIN | EPOLLET, *this));
    interval_ms_ = 0;
    setInterval(kBusyTickMs);
    return {};
  }
  void setInterval(int64_t interval_ms) {
    if (interval_ms == interval_ms_) return;
    interval_ms_ = interval_ms;
    const timespec each{.tv_sec = interval_ms / 1000, .tv_nsec = interval_ms % 1000 * 1'000'000};
    const itimerspec times{.it_interval = each, .it_value = each};
    ::timerfd_settime(fd_.get(), 0, &times, nullptr);
  }
  // Whether the timer has expired since the last call.
  bool rang() {
    if (!rang_) return false;
    uint64_t expirations;
    // Reading arms the timer for the next interval.
    [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &expirations, sizeof expirations);
    rang_ = false;
    return true;
  }
  void onEvents(uint32_t) override { rang_ = true; }

 private:
  Fd fd_;
  int64_t interval_ms_ = 0;
  bool rang_ = false;
};

// A link-local address is behind the interface that is paired with it.
Endpoint targetOf(const Interface& mine, const Interface& theirs, uint16_t port) {
  Endpoint target{theirs.address, port};
  if (target.address.isLinkLocal()) target.address.scope = mine.address.scope;
  return target;
}

class SocketTransport final : public Transport, private RegionAccess {
 public:
  explicit SocketTransport(const SocketOptions& options) : options_(options) {}
  ~SocketTransport() override;

  Status open();
  Status wakeUp();

  const char* name() const override { return "socket"; }
  std::vector<std::byte> address() const override { return own_.encode(); }
  bool canReach(std::span<const std::byte> peer_address) const override;
  std::string whyUnreachable(std::span<const std::byte>) const override { return {}; }
  Result<Link*> connect(int peer, std::span<const std::byte> peer_address, const LinkShape& shape,
                        int number) override;
  Status progress() override;
  void beginWait() override;
  int waitFd() const override { return poller_.fd(); }
  void endWait() override { waiting_ = false; }
  uint64_t memoryBytes() const override;
  RegionAccess* regions() override { return this; }

 private:
  bool usesLentMemory() const override { return false; }
  bool usesOrdinaryMemory() const override { return true; }
  bool usesGpuMemory() const override { return false; }
  bool mayKeepMemory() override { return false; }
  void lend(const Region& region) override { lent_.lend(region); }
  void takeBack(const Region& region) override;
  // Nothing is kept of a region that is not lent, and there is no adapter to tell.
  void forget(uint64_t) override {}
  bool holds(const std::byte*, size_t) const override { return false; }
  DataMoved dataMoved() const override { return moved_; }

  // A link together with what brings it up.
  struct Entry {
    Published peer;
    std::vector<InterfacePair> paths;  // by stream
    bool tries_all = false;            // including those in reserve
    bool warned = false;               // that the peer does not answer
    std::unique_ptr<SocketLink> link;
    std::vector<std::unique_ptr<Dial>> dials;  // by stream; null for those that are there
    // By stream, while it is missing: since when the peer has been answering on other streams.
    std::vector<int64_t> others_answer_from_ns;
    int64_t looked_at_paths_ns = 0;
    bool settled = false;  // all streams are open, or the link has failed
  };

  bool connects(int peer) const { return options_.rank < peer; }
  std::vector<InterfacePair> pairsWith(int peer, const Published& published) const;
  std::vector<InterfacePair> reserveFor(int peer, const Published& published,
                                        const std::vector<InterfacePair>& pairs) const;
  void judgePaths(Entry& entry);
  void giveUpPaths(Entry& entry);
  bool isLost(Entry& entry, size_t stream, int64_t now_ns) const;
  std::string pathsOf(const Entry& entry) const;
  void awaitStreams();
  std::unique_ptr<Dial> makeDial(const Entry& entry, size_t stream);
  void bringUp(Entry& entry);
  void bringUpDials(Entry& entry);
  void reopen(Entry& entry);
  void claimConnections(Entry& entry);
  void attachClaimed(Entry& entry, ProvenConnection proven);
  void onTick();

  SocketOptions options_;
  Poller poller_;
  Ticker ticker_;
  Published own_;
  LentMemory lent_;
  DataMoved moved_;
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::set<std::pair<int, int>> taken_;  // peer and number of every link
  int coming_up_ = 0;                    // links that are not settled
  int64_t last_check_ns_ = 0;
  Status status_;
  bool is_awake_ = false;
  bool waiting_ = false;
  int64_t idle_rounds_ = 0;  // consecutive calls of progress() without an event
};

Status SocketTransport::open() {
  HORING_ASSIGN(const std::vector<Interface> all, listInterfaces());
  HORING_ASSIGN(own_.interfaces, chooseInterfaces(all, options_.interfaces, options_.family));
  if (own_.interfaces.size() > kMaxInterfaces) own_.interfaces.resize(kMaxInterfaces);
  markNear(own_.interfaces, options_.distance);
  own_.host = networkStackId();
  own_.streams = options_.streams;
  randomBytes(own_.instance);
  AcceptorOptions acceptor{.rank = options_.rank,
                           .key = options_.key,
                           .instance = own_.instance,
                           .ports = options_.ports,
                           .network = own_.host,
                           .log = options_.log};
  acceptor_ = std::make_unique<Acceptor>(std::move(acceptor), poller_, *options_.clock);
  HORING_TRY(acceptor_->open());
  own_.port = acceptor_->port();
  for (const Interface& i : own_.interfaces)
    options_.log.info("socket", "interface %s at %s%s", i.name.c_str(),
                      Endpoint{i.address, own_.port}.text().c_str(), i.near ? "" : ", not near to this rank");
  return {};
}

// Opened by the first link, or the first connection that arrives: a communicator that needs no sockets holds no descriptors for
// them.
Status SocketTransport::wakeUp() {
  if (is_awake_) return {};
  HORING_TRY(poller_.open());
  HORING_TRY(ticker_.open(poller_));
  HORING_TRY(acceptor_->watch());
  is_awake_ = true;
  return {};
}

// A peer that receives a goodbye does not take the end of the stream for a failure. Closing with unread input (a credit on its way
// to us) makes the kernel reset the connection and drop unsent data, so the destructor waits for that data.
SocketTransport::~SocketTransport() {
  if (entries_.empty()) return;
  waiting_ = true;  // leaves nothing undone
  const Deadline linger = Deadline::after(*options_.clock, kLingerMs);
  for (int64_t pauses = 0; pauses < kLingerMs && !linger.passed(); ++pauses) {
    [[maybe_unused]] const Status moved = progress();
    bool all_there = true;
    for (auto& entry : entries_) all_there = entry->link->leave() && all_there;
    if (all_there) return;
    ::poll(nullptr, 0, 1);
  }
}

std::vector<InterfacePair> SocketTransport::pairsWith(int peer, const Published& published) const {
  return connects(peer) ? pairInterfaces(own_, published) : pairInterfaces(published, own_);
}

std::vector<InterfacePair> SocketTransport::reserveFor(int peer, const Published& published,
                                                       const std::vector<InterfacePair>& pairs) const {
  return connects(peer) ? reservePairs(own_, published, pairs) : reservePairs(published, own_, pairs);
}

bool SocketTransport::canReach(std::span<const std::byte> peer_address) const {
  const Result<Published> peer = Published::decode(peer_address);
  // The order of the two ranks changes the pairs, but not whether there is one.
  return peer.ok() && !pairInterfaces(own_, peer.value()).empty();
}

Result<Link*> SocketTransport::connect(int peer, std::span<const std::byte> peer_address,
                                       const LinkShape& shape, int number) {
  HORING_TRY(checkLinkShape(shape));
  HORING_TRY(checkLinkNumber(number));
  if (peer < 0 || peer == options_.rank)
    return makeStatus(Code::kInvalidArgument, "rank %d cannot have a socket link to rank %d", options_.rank,
                      peer);
  if (taken_.contains({peer, number}))
    return makeStatus(Code::kInvalidUsage, "rank %d has a socket link %d to rank %d already", options_.rank,
                      number, peer);
  HORING_ASSIGN(Published published, Published::decode(peer_address));
  const std::vector<InterfacePair> pairs = pairsWith(peer, published);
  if (pairs.empty())
    return makeStatus(
        Code::kInvalidUsage,
        "rank %d and rank %d have no network interfaces of one family in common: see HORING_SOCKET_IFNAME "
        "and HORING_SOCKET_FAMILY",
        options_.rank, peer);
  const size_t per_pair = static_cast<size_t>(std::min(options_.streams, published.streams));
  const int streams = static_cast<int>(std::min(pairs.size() * per_pair, static_cast<size_t>(kMaxStreams)));
  LinkOptions link{.rank = options_.rank,
                   .peer = peer,
                   .number = number,
                   .shape = withoutRoom(shape),
                   .stream_names = {},
                   .deaths_are_told = options_.deaths_are_told,
                   .lent = &lent_,
                   .moved = &moved_};
  std::vector<InterfacePair> paths;
  for (int i = 0; i < streams; ++i) paths.push_back(pairs[static_cast<size_t>(i) % pairs.size()]);
  link.wanted = paths.size();
  for (const InterfacePair& pair : reserveFor(peer, published, pairs))
    if (paths.size() < kMaxStreams) paths.push_back(pair);
  for (const InterfacePair& pair : paths) {
    const Interface& mine = own_.interfaces[connects(peer) ? pair.lower : pair.higher];
    const Interface& theirs = published.interfaces[connects(peer) ? pair.higher : pair.lower];
    link.stream_names.push_back(mine.name + " " + mine.address.text() + " -> " +
                                targetOf(mine, theirs, published.port).text());
  }
  auto entry = std::make_unique<Entry>();
  entry->peer = std::move(published);
  entry->link = std::make_unique<SocketLink>(std::move(link));
  HORING_TRY(entry->link->status());
  HORING_TRY(wakeUp());
  entry->dials.resize(paths.size());
  entry->others_answer_from_ns.resize(paths.size(), INT64_MAX);
  entry->paths = std::move(paths);
  awaitStreams();
  taken_.insert({peer, number});
  entries_.push_back(std::move(entry));
  return entries_.back()->link.get();
}

// Only of this additional link: that other links lacked a descriptor before says nothing about its peer.
void SocketTransport::awaitStreams() {
  ++coming_up_;
  ticker_.setInterval(kBusyTickMs);
  acceptor_->tick();
}

std::unique_ptr<Dial> SocketTransport::makeDial(const Entry& entry, size_t stream) {
  const SocketLink& link = *entry.link;
  const InterfacePair& pair = entry.paths[stream];
  const bool connecting = connects(link.peer());
  const Interface& mine = own_.interfaces[connecting ? pair.lower : pair.higher];
  const Interface& theirs = entry.peer.interfaces[connecting ? pair.higher : pair.lower];
  const ConnectorHello hello{.peer_instance = entry.peer.instance,
                             .rank = static_cast<uint32_t>(options_.rank),
                             .peer = static_cast<uint32_t>(link.peer()),
                             .stream = static_cast<uint16_t>(stream),
                             .streams = static_cast<uint16_t>(link.streams()),
                             .number = static_cast<uint16_t>(link.number()),
                             .channels = static_cast<uint16_t>(link.shape().channels),
                             .slots = link.shape().slots,
                             .slot_bytes = link.shape().slot_bytes,
                             .attempt = link.attempt(stream),
                             .instance = own_.instance};
  DialOptions dial{.purpose = connecting ? DialOptions::Purpose::kStream : DialOptions::Purpose::kProbe,
                   .key = options_.key,
                   .hello = hello,
                   .from = mine.address,
                   .to = targetOf(mine, theirs, entry.peer.port),
                   .deaths_are_told = options_.deaths_are_told};
  return std::make_unique<Dial>(std::move(dial), poller_, *options_.clock);
}

void SocketTransport::bringUp(Entry& entry) {
  SocketLink& link = *entry.link;
  if (entry.settled) return;
  if (connects(link.peer()) || link.established()) {
    bringUpDials(entry);
    judgePaths(entry);
  }
  // A peer waits to be accepted, and this machine would refuse it again.
  if (const Status refused = acceptor_->refusesAll(); !refused.ok() && !connects(link.peer()))
    link.fail(makeStatus(refused.code(), "rank %d cannot take the connection of rank %d: %s", options_.rank,
                         link.peer(), refused.message().c_str()));
  if (!link.complete() && link.status().ok()) return;
  entry.settled = true;
  entry.tries_all = false;
  for (auto& dial : entry.dials) dial.reset();
  --coming_up_;
  if (link.complete())
    options_.log.info("socket", "linked to rank %d: %s", link.peer(), link.describe().c_str());
}

void SocketTransport::bringUpDials(Entry& entry) {
  SocketLink& link = *entry.link;
  for (size_t stream = 0; stream < link.streams() && link.status().ok(); ++stream) {
    std::unique_ptr<Dial>& dial = entry.dials[stream];
    const bool is_wanted = link.wants(stream) || (entry.tries_all && !link.isGivenUp(stream));
    if (link.hasStream(stream) || !is_wanted) {
      dial.reset();
      continue;
    }
    if (!dial) dial = makeDial(entry, stream);
    const Status final = dial->progress();
    const bool is_last = link.established() && !link.hasAnotherWay(stream);
    const Status hopeless = is_last ? dial->hopeless() : Status();
    if (!final.ok()) {
      link.fail(makeStatus(final.code(), "rank %d cannot connect to rank %d (%s): %s", options_.rank,
                           link.peer(), link.describe().c_str(), final.message().c_str()));
    } else if (!hopeless.ok()) {
      link.fail(makeStatus(
          Code::kRemoteError,
          "rank %d lost the connection to rank %d (socket %s): %s; nor can it connect again: %s; the process "
          "on that rank has probably died: look at its output",
          options_.rank, link.peer(), link.streamName(stream).c_str(), link.whyBroken(stream).c_str(),
          hopeless.message().c_str()));
    } else if (dial->ready()) {
      const uint32_t attempt = dial->attempt();
      link.attach(stream, dial->take(), attempt);
    } else {
      link.noteObstacle(stream, dial->obstacle());
    }
  }
}

// A path without an answer is given up while another path works. If none works, those in reserve are tried as well.
void SocketTransport::judgePaths(Entry& entry) {
  SocketLink& link = *entry.link;
  if (!link.status().ok() || link.complete()) return;
  giveUpPaths(entry);
  if (link.established() || link.complete()) return;
  int64_t silent_ms = INT64_MAX, unreachable_ms = INT64_MAX, unconnected_ms = INT64_MAX;
  Status misled;
  bool tried = false;
  for (size_t stream = 0; stream < link.streams(); ++stream) {
    if (link.hasStream(stream)) return;
    const Dial* const dial = entry.dials[stream].get();
    if (!dial) continue;
    tried = true;
    silent_ms = std::min(silent_ms, dial->silentMs());
    if (misled.ok()) misled = dial->misled();
    if (!dial->misled().ok()) continue;
    unreachable_ms = std::min(unreachable_ms, dial->unreachableMs());
    unconnected_ms = std::min(unconnected_ms, dial->unconnectedMs());
  }
  if (!tried) return;
  if (unconnected_ms >= kSilenceMs && unconnected_ms != INT64_MAX && !std::exchange(entry.warned, true))
    options_.log.warn("socket", "rank %d does not reach rank %d yet, tried: %s. %s", options_.rank,
                      link.peer(), pathsOf(entry).c_str(), kPathAdvice);
  if (silent_ms < kPathPatienceMs) return;
  if (!std::exchange(entry.tries_all, true)) return;
  if (silent_ms == INT64_MAX)
    return link.fail(makeStatus(misled.code(), "rank %d cannot connect to rank %d (%s): %s", options_.rank,
                                link.peer(), pathsOf(entry).c_str(), misled.message().c_str()));
  if (unreachable_ms >= kNoPathMs)
    link.fail(makeStatus(Code::kSystemError, "rank %d cannot reach rank %d, tried for %lld s: %s. %s",
                         options_.rank, link.peer(), static_cast<long long>(unreachable_ms / 1000),
                         pathsOf(entry).c_str(), kPathAdvice));
}

// Only the connecting end decides: if each end gave up what the other kept, no path would be left.
void SocketTransport::giveUpPaths(Entry& entry) {
  SocketLink& link = *entry.link;
  const int64_t now_ns = options_.clock->nowNs();
  if (!connects(link.peer()) || now_ns - entry.looked_at_paths_ns < kBusyTickMs * 1'000'000) return;
  entry.looked_at_paths_ns = now_ns;
  for (size_t stream = 0; stream < link.streams() && link.status().ok(); ++stream) {
    if (!isLost(entry, stream, now_ns)) continue;
    const Dial* const dial = entry.dials[stream].get();
    options_.log.warn("socket", "rank %d continues without the path %s to rank %d: %s. %s", options_.rank,
                      link.streamName(stream).c_str(), link.peer(), dial->obstacle().c_str(), kPathAdvice);
    link.giveUp(stream);
  }
}

// The peer has been answering on another path for long enough. After an outage of all paths one is back first, and the others get
// that time, too.
bool SocketTransport::isLost(Entry& entry, size_t stream, int64_t now_ns) const {
  const SocketLink& link = *entry.link;
  Dial* const dial = entry.dials[stream].get();
  int64_t& from_ns = entry.others_answer_from_ns[stream];
  if (!dial || link.hasStream(stream) || !link.wants(stream) ||
      !link.answersElsewhere(stream, kAnsweringMs)) {
    from_ns = INT64_MAX;
    return false;
  }
  if (from_ns == INT64_MAX) {
    from_ns = now_ns;
    dial->hurry();
  }
  // Its last answer may be from before this stream went missing, since kAnsweringMs exceeds this time.
  return now_ns - from_ns >= kPathPatienceMs * 1'000'000 && dial->silentMs() >= kPathPatienceMs &&
         link.answersElsewhere(stream, kPathPatienceMs);
}

// "eth0 10.0.0.1 -> 10.0.0.2:4711: connect: No route to host (attempt 3), ..."
std::string SocketTransport::pathsOf(const Entry& entry) const {
  std::string text;
  for (size_t stream = 0; stream < entry.dials.size(); ++stream)
    if (const Dial* const dial = entry.dials[stream].get())
      text += (text.empty() ? "" : ", ") + entry.link->streamName(stream) + ": " + dial->obstacle();
  return text;
}

// A broken stream does not end the link.
void SocketTransport::reopen(Entry& entry) {
  entry.settled = false;
  awaitStreams();
  options_.log.warn("socket", "lost a connection to rank %d, making it again: %s", entry.link->peer(),
                    entry.link->describe().c_str());
}

void SocketTransport::claimConnections(Entry& entry) {
  while (entry.link->status().ok() && acceptor_->hasUnclaimed()) {
    std::optional<ProvenConnection> proven =
        acceptor_->claim(entry.link->peer(), entry.peer.instance, entry.link->number());
    if (!proven) return;
    attachClaimed(entry, std::move(*proven));
  }
}

void SocketTransport::attachClaimed(Entry& entry, ProvenConnection proven) {
  SocketLink& link = *entry.link;
  const ConnectorHello& hello = proven.hello;
  const LinkShape theirs{
      .channels = static_cast<int>(hello.channels), .slots = hello.slots, .slot_bytes = hello.slot_bytes};
  if (theirs != link.shape()) {
    const FrameHeader refusal = refusalOf(link.shape());
    [[maybe_unused]] const ssize_t told = ::send(proven.fd.get(), &refusal, sizeof refusal, MSG_NOSIGNAL);
    return link.fail(linkShapeMismatch(options_.rank, link.shape(), link.peer(), theirs));
  }
  // Both ends have computed the number of streams from the same addresses. A new connection for an open stream means that the peer
  // has lost that one; a late one has already been replaced.
  if (hello.streams != link.streams() || link.isGivenUp(hello.stream) ||
      hello.attempt <= link.attempt(hello.stream)) {
    options_.log.warn("socket", "dropped connection %u of stream %u of %u from rank %d: %zu are expected",
                      hello.attempt, hello.stream, hello.streams, link.peer(), link.streams());
    return;
  }
  link.attach(hello.stream, std::move(proven.fd), hello.attempt);
}

void SocketTransport::onTick() {
  ticker_.setInterval(coming_up_ > 0 || acceptor_->unproven() > 0 ? kBusyTickMs : kQuietTickMs);
  acceptor_->tick();
  const int64_t now_ns = options_.clock->nowNs();
  if (now_ns - last_check_ns_ < kQuietTickMs * 1'000'000) return;
  last_check_ns_ = now_ns;
  for (auto& entry : entries_) entry->link->checkAlive(kSilenceMs, kPathPatienceMs);
}

Status SocketTransport::progress() {
  if (!is_awake_) {
    if (!acceptor_->hasArrivals()) return status_;
    if (const Status awake = wakeUp(); !awake.ok()) {
      acceptor_->closeArrivals(awake.message());
      return status_;
    }
  }
  idle_rounds_ = poller_.poll() == 0 ? idle_rounds_ + 1 : 0;
  if (ticker_.rang()) onTick();
  acceptor_->progress();
  if (acceptor_->hasNewlyProven() || (coming_up_ > 0 && acceptor_->hasUnclaimed()))
    for (auto& entry : entries_)
      if (!connects(entry->link->peer())) claimConnections(*entry);
  if (coming_up_ > 0)
    for (auto& entry : entries_) bringUp(*entry);
  const SocketLink::Effort effort = waiting_                      ? SocketLink::Effort::kThorough
                                    : idle_rounds_ >= kIdleRounds ? SocketLink::Effort::kIdle
                                                                  : SocketLink::Effort::kNormal;
  for (auto& entry : entries_) {
    entry->link->progress(effort);
    if (entry->settled && !entry->link->complete() && entry->link->status().ok()) reopen(*entry);
    if (status_.ok() && !entry->link->status().ok()) status_ = entry->link->status();
  }
  return status_;
}

void SocketTransport::beginWait() {
  waiting_ = true;
  if (!is_awake_) return;
  ticker_.setInterval(coming_up_ > 0 || acceptor_->unproven() > 0 ? kBusyTickMs : kQuietTickMs);
  for (auto& entry : entries_) entry->link->progress(SocketLink::Effort::kThorough);
}

void SocketTransport::takeBack(const Region& region) {
  if (!lent_.takeBack(region)) return;
  for (const auto& entry : entries_) entry->link->withdraw(region);
}

uint64_t SocketTransport::memoryBytes() const {
  uint64_t bytes = sizeof *this;
  for (const auto& entry : entries_) bytes += entry->link->memoryBytes();
  return bytes;
}

}  // namespace
}  // namespace tcp

Result<std::unique_ptr<Transport>> makeSocketTransport(const SocketOptions& options) {
  if (!options.clock) return makeStatus(Code::kInvalidArgument, "the socket transport needs a clock");
  if (options.streams < 1 || options.streams > kMaxStreamsPerPair)
    return makeStatus(Code::kInvalidArgument, "HORING_SOCKET_STREAMS=%d: expected 1 to %d", options.streams,
                      kMaxStreamsPerPair);
  if (options.family != "any" && options.family != "ipv4" && options.family != "ipv6")
    return makeStatus(Code::kInvalidArgument, "HORING_SOCKET_FAMILY=%s: expected any, ipv4 or ipv6",
                      options.family.c_str());
  auto transport = std::make_unique<tcp::SocketTransport>(options);
  if (const Status opened = transport->open(); !opened.ok())
    return makeStatus(opened.code(), "rank %d cannot use sockets: %s", options.rank,
                      opened.message().c_str());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace horing
