#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/auth.h"
#include "base/check.h"
#include "base/clock.h"
#include "control/control_channel.h"
#include "control/control_messages.h"
#include "control/rendezvous.h"
#include "launch/pmi1.h"
#include "targets.h"

namespace horing::fuzz {

namespace {

// A decoded message can be encoded again, to the same message.
template <typename Message>
void sayAgain(const Result<Message>& understood, Result<Message> (*decode)(Bytes)) {
  if (!understood.ok()) return;
  const std::vector<std::byte> said = encodeMessage(understood.value());
  const Result<Message> again = decode(said);
  HORING_CHECK(again.ok());
  HORING_CHECK(encodeMessage(again.value()) == said);
}

struct SocketPair {
  SocketPair() {
    int ends[2];
    HORING_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    here.reset(ends[0]);
    there.reset(ends[1]);
  }
  Fd here, there;
};

void say(int fd, Bytes bytes) {
  [[maybe_unused]] const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Feeds in pieces of a length that the input chooses.
template <typename Reader>
void feedInPieces(Reader& reader, Bytes bytes, size_t piece) {
  while (!bytes.empty()) {
    const Bytes first = bytes.first(std::min(piece, bytes.size()));
    const Result<size_t> taken = reader.feed(first);
    if (!taken.ok()) return;
    HORING_CHECK_LE(taken.value(), first.size());
    if (taken.value() == 0) return;
    bytes = bytes.subspan(taken.value());
  }
}

}  // namespace

void controlMessages(Bytes bytes) {
  const Result<RankMessage> rank = decodeRankMessage(bytes);
  const Result<RootMessage> root = decodeRootMessage(bytes);
  HORING_CHECK(!rank.ok() || !root.ok());
  sayAgain(rank, decodeRankMessage);
  sayAgain(root, decodeRootMessage);
}

// Each action: what happens, to which of the ranks that were let in, at what time.
void rendezvous(Bytes bytes) {
  Input in(bytes);
  Rendezvous meeting(ProcessName{"root", 1, 2});
  std::vector<int> inside;
  int64_t now_ns = 0;
  for (int actions = 0; !in.empty() && actions < 200; ++actions) {
    const auto action = in.number<uint8_t>();
    now_ns += static_cast<int64_t>(in.number<uint8_t>()) * 10'000'000;
    if (action % 8 < 3) {
      HelloMessage hello{in.number<int8_t>(), in.number<int8_t>(), in.number<uint8_t>(), {"h", action, 0}};
      // The service accepts no process beyond its limits.
      if (meeting.hello(hello, now_ns).ok()) inside.push_back(hello.rank);
    } else if (!inside.empty()) {
      const size_t at = in.number<uint8_t>() % inside.size();
      const int rank = inside[at];
      if (action % 8 == 3) meeting.lost(rank, "gone");
      if (action % 8 == 4) meeting.goodbye(rank);
      if (action % 8 == 5) meeting.announce(rank, {Code::kTimeout, std::string(textOf(in.piece()))});
      if (action % 8 >= 6) {
        const Bytes part = in.piece();
        [[maybe_unused]] const Status status = meeting.gather(
            rank, {in.number<uint8_t>(), in.number<uint8_t>(), {part.begin(), part.end()}}, now_ns);
      }
      if (action % 8 == 3 || action % 8 == 4) inside.erase(inside.begin() + static_cast<ptrdiff_t>(at));
    }
    meeting.tick(now_ns);
    for (const SharedMessage& message : meeting.takeBroadcasts())
      HORING_CHECK(decodeRootMessage(*message).ok());
    HORING_CHECK(meeting.present() >= 0);
  }
}

void handshake(Bytes bytes) {
  Input in(bytes);
  const uint8_t mode = in.number<uint8_t>();
  const size_t piece = 1 + in.number<uint8_t>();
  const Key key = Key::derive({}, "fuzz");
  if (mode % 3 < 2) {
    Handshake end({key, mode % 3 == 0 ? HandshakeRole::kAcceptor : HandshakeRole::kConnector, {}, {}});
    feedInPieces(end, in.all(), piece);
    HORING_CHECK(!end.done());  // a random input never proves a key
    return;
  }
  SealedChannel sender(key, key, 256), receiver(key, key, 256);
  std::vector<std::byte> stream;
  for (int frames = 0; !in.empty() && frames < 8; ++frames)
    if (!sender.seal(in.piece(), stream).ok()) return;
  // Altered in one place, or nowhere.
  const size_t where = in.number<uint16_t>();
  if (!stream.empty()) stream[where % stream.size()] ^= static_cast<std::byte>(mode / 3);
  for (Bytes rest = stream; !rest.empty();) {
    const Result<size_t> taken = receiver.feed(rest.first(std::min(piece, rest.size())));
    if (!taken.ok()) return;
    rest = rest.subspan(taken.value());
    if (receiver.frameReady()) HORING_CHECK_LE(receiver.take().size(), size_t{256});
  }
  HORING_CHECK(mode / 3 == 0 || stream.size() < 4 || receiver.frameReady() || true);
}

void controlChannel(Bytes bytes) {
  SocketPair sockets;
  const Key key = Key::derive({}, "fuzz");
  constexpr size_t kMost = 1000;
  ControlChannel channel(std::move(sockets.here), key, HandshakeRole::kAcceptor, kMost);
  Handshake proof({key, HandshakeRole::kConnector, {}, {}});
  for (int round = 0; round < 4 && !proof.done(); ++round) {
    say(sockets.there.get(), proof.pending());
    proof.sent(proof.pending().size());
    HORING_CHECK(channel.progress().ok());
    std::byte heard[1024];
    const ssize_t got =
        ::recv(sockets.there.get(), heard, std::min(sizeof heard, proof.wanted()), MSG_DONTWAIT);
    if (got > 0) HORING_CHECK(proof.feed(std::span(heard, static_cast<size_t>(got))).ok());
  }
  HORING_CHECK(proof.done());
  SealedChannel seal(proof.sendKey(), proof.receiveKey(), kControlFrameBytes);
  Input in(bytes);
  while (!in.empty() && channel.status().ok()) {
    const bool sealed = in.number<uint8_t>() % 8 != 0;
    const Bytes text = in.piece();
    std::vector<std::byte> frame(text.begin(), text.end());
    if (sealed) {
      frame.clear();
      HORING_CHECK(seal.seal(text, frame).ok());
    }
    say(sockets.there.get(), frame);
    [[maybe_unused]] const Status status = channel.progress();
    while (const auto message = channel.receive()) HORING_CHECK_LE(message->size(), kMost);
  }
}

// All answers are in the socket before the first question.
void pmi1(Bytes bytes) {
  SocketPair sockets;
  const SteadyClock clock;
  say(sockets.there.get(), bytes);
  ::shutdown(sockets.there.get(), SHUT_WR);
  [[maybe_unused]] const Result<std::string> text =
      broadcastOverPmi1(sockets.here.get(), 0, "abc", Deadline::after(clock, 1000));
}

}  // namespace horing::fuzz
