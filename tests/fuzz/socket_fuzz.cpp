#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/auth.h"
#include "base/check.h"
#include "base/clock.h"
#include "targets.h"
#include "transport/link_shape.h"
#include "transport/socket/acceptor.h"
#include "transport/socket/interfaces.h"
#include "transport/socket/link.h"
#include "transport/socket/poller.h"
#include "transport/socket/published.h"
#include "transport/socket/wire.h"

namespace horing::fuzz {

namespace {

// Whether the connection is established in the end: the fuzzer's alarm clock may interrupt the call, but not the handshake.
bool finishConnect(int fd) {
  pollfd writable{.fd = fd, .events = POLLOUT};
  while (::poll(&writable, 1, -1) < 0)
    if (errno != EINTR) return false;
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

// Connected to the listener on this machine; closing it resets the connection, so that no port stays in use.
Fd dial(uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const linger reset{.l_onoff = 1, .l_linger = 0};
  HORING_CHECK(::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
  sockaddr_in to{
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  const bool at_once = ::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  HORING_CHECK(at_once || (errno == EINTR && finishConnect(fd.get())));
  return fd;
}

void say(int fd, Bytes bytes) {
  [[maybe_unused]] const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The state of two channels that the peer reports.
void sayState(int fd, const ChannelState& one, const ChannelState& two) {
  const ChannelState states[] = {one, two};
  const tcp::FrameHeader header{.bytes = sizeof states, .channel = 0, .kind = tcp::FrameKind::kState};
  say(fd, std::as_bytes(std::span(&header, 1)));
  say(fd, std::as_bytes(std::span(states)));
}

// The accepting end, which exists as long as the process: a listener for each input would be slow.
struct Host {
  Host() { HORING_CHECK(poller.open().ok() && acceptor.open().ok() && acceptor.watch().ok()); }
  void turn() {
    poller.poll();
    acceptor.progress();
  }
  SteadyClock clock;
  tcp::Poller poller;
  const Key key = Key::derive({}, "fuzz");
  tcp::Acceptor acceptor{{.rank = 5, .key = key}, poller, clock};
};

}  // namespace

void published(Bytes bytes) {
  Input in(bytes);
  const Bytes first = in.bytes(in.number<uint16_t>());
  const auto lower = tcp::Published::decode(first);
  const auto higher = tcp::Published::decode(in.all());
  if (!lower.ok()) return;
  const auto again = tcp::Published::decode(lower.value().encode());
  HORING_CHECK(again.ok() && again.value().encode() == lower.value().encode());
  HORING_CHECK(!lower.value().interfaces.empty() && lower.value().interfaces.size() <= tcp::kMaxInterfaces);
  const tcp::Published& other = higher.ok() ? higher.value() : lower.value();
  for (const tcp::InterfacePair& pair : tcp::pairInterfaces(lower.value(), other)) {
    HORING_CHECK_LT(pair.lower, lower.value().interfaces.size());
    HORING_CHECK_LT(pair.higher, other.interfaces.size());
  }
  for (const tcp::Interface& each : lower.value().interfaces)
    HORING_CHECK((!Endpoint{each.address, lower.value().port}.text().empty()));
}

// The first byte decides whether the key is proven before the rest is sent.
void acceptor(Bytes bytes) {
  static Host& host = *new Host;  // never destroyed, as there is no moment for it
  Input in(bytes);
  const bool proves = in.number<uint8_t>() % 4 != 0;
  const Fd fd = dial(host.acceptor.port());
  host.turn();
  if (proves) {
    tcp::ConnectorHello hello{};
    hello.peer = 5;  // for this rank and this transport, but for what the input changes
    const Bytes said = in.bytes(kMaxHelloBytes);
    std::vector<std::byte> text(std::max(said.size(), sizeof hello));
    std::memcpy(text.data(), &hello, sizeof hello);
    for (size_t i = 0; i < said.size(); ++i) text[i] ^= said[i];
    if (said.size() % 16 == 15) text.resize(said.size());
    Handshake proof({host.key, HandshakeRole::kConnector, text, {}});
    for (int round = 0; round < 6 && !proof.done(); ++round) {
      say(fd.get(), proof.pending());
      proof.sent(proof.pending().size());
      host.turn();
      std::byte heard[1024];
      const ssize_t got = ::recv(fd.get(), heard, std::min(sizeof heard, proof.wanted()), MSG_DONTWAIT);
      if (got > 0 && !proof.feed(std::span(heard, static_cast<size_t>(got))).ok()) break;
    }
    host.turn();
    while (auto proven = host.acceptor.claim(static_cast<int>(hello.rank), {}, 0)) {
      HORING_CHECK(proven->hello.rank < 5 && proven->hello.stream < proven->hello.streams);
      HORING_CHECK(proven->hello.streams <= tcp::kMaxStreams);
    }
  } else {
    say(fd.get(), in.all());
    host.turn();
  }
}

// What the peer writes, in pieces, against an end that sends, receives and releases as it pleases, and lends memory until it takes that
// back: from then on nothing touches it.
void socketLink(Bytes bytes) {
  constexpr LinkShape kShape{2, 4, 128};
  int ends[2];
  HORING_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  Fd peer(ends[1]);
  int other_ends[2];
  HORING_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, other_ends) == 0);
  const Fd other_peer(other_ends[1]);
  tcp::Poller poller;
  HORING_CHECK(poller.open().ok());
  std::array<std::byte, 256> memory{};
  const Region region{.id = 1, .begin = memory.data(), .bytes = memory.size()};
  tcp::LentMemory lent;
  lent.lend(region);
  bool is_lent = true;
  DataMoved moved;
  tcp::SocketLink link({.rank = 1,
                        .peer = 0,
                        .shape = kShape,
                        .stream_names = {"fuzz", "other"},
                        .lent = &lent,
                        .moved = &moved});
  link.attach(0, tcp::WatchedFd(Fd(ends[0]), poller), 1);
  link.attach(1, tcp::WatchedFd(Fd(other_ends[0]), poller), 1);
  sayState(peer.get(), {}, {});
  sayState(other_peer.get(), {}, {});
  Input in(bytes);
  for (int actions = 0; !in.empty() && actions < 64 && link.status().ok(); ++actions) {
    const auto action = in.number<uint8_t>();
    const int channel = action / 8 % kShape.channels;
    if (action % 8 < 4) {
      say(peer.get(), in.piece());
    } else if (action % 8 == 4) {
      // A frame that could be right, so that the next one is reached.
      tcp::FrameHeader header{};
      header.bytes = in.number<uint8_t>();
      header.channel = static_cast<uint16_t>(channel);
      const auto kind = in.number<uint8_t>();
      header.kind = static_cast<tcp::FrameKind>(kind % 8);
      header.landing = kind / 8;
      header.tag = kind / 8;  // of kGivenUp: a stream
      header.sequence = in.number<uint8_t>();
      header.credit = in.number<uint8_t>();
      say(peer.get(), std::as_bytes(std::span(&header, 1)));
      say(peer.get(), in.bytes(header.bytes));
    } else if (action % 8 == 5 && link.sender(channel).tryAcquire(kWholeSlot)) {
      const uint32_t length = action / 16 * 8;
      if (action % 16 == 13 && link.sender(channel).lent()->sendsFrom(memory.data(), length)) {
        link.sender(channel).lent()->postFrom(memory.data(), length, action);
      } else {
        link.sender(channel).post(length, action);
      }
    } else if (action % 8 == 6 && action >= 192) {
      const size_t offset = action % 64;
      link.receiver(channel).landings()->tryLand(
          {.memory = memory.data() + offset, .bytes = 192, .stride = 100, .messages = 2});
    } else if (action % 8 == 6) {
      if (const Message* message = link.receiver(channel).tryPeek()) {
        HORING_CHECK_LE(message->bytes, kShape.slot_bytes);
        std::vector<std::byte> copy(message->data, message->data + message->bytes);
        link.receiver(channel).release();
      }
    } else if (action % 8 == 7) {
      std::byte heard[512];
      [[maybe_unused]] const ssize_t got = ::recv(peer.get(), heard, sizeof heard, MSG_DONTWAIT);
      if (action < 16 && is_lent) {
        is_lent = false;
        lent.takeBack(region);
        link.withdraw(region);
        memory.fill(std::byte{77});
      } else if (action > 240) {
        ::shutdown(peer.get(), SHUT_WR);
      } else if (action > 200) {
        // Another connection for the stream, whose first words may be wrong.
        if (link.isGivenUp(0)) continue;
        HORING_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        peer = Fd(ends[1]);
        link.attach(0, tcp::WatchedFd(Fd(ends[0]), poller), link.attempt(0) + 1);
        const ChannelState one{.released = in.number<uint8_t>(), .received = {in.number<uint8_t>(), 0}};
        const ChannelState two{.released = in.number<uint8_t>(), .received = {in.number<uint8_t>(), 0}};
        sayState(peer.get(), one, two);
      }
    }
    poller.poll();
    link.progress(tcp::SocketLink::Effort::kThorough);
  }
  link.leave();
  HORING_CHECK(!link.describe().empty());
  HORING_CHECK(is_lent ||
               std::all_of(memory.begin(), memory.end(), [](auto byte) { return byte == std::byte{77}; }));
}

}  // namespace horing::fuzz
