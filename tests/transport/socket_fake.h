#pragma once
// Misbehaving peers: plain TCP clients, and peers that hold the key but violate the protocol.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/auth.h"
#include "base/clock.h"
#include "base/fd.h"
#include "gtest/gtest.h"
#include "pump.h"
#include "transport/socket/published.h"
#include "transport/socket/socket_transport.h"
#include "transport/socket/wire.h"

namespace horing::testing {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes bytesOf(const T& value) {
  const auto view = std::as_bytes(std::span(&value, 1));
  return Bytes(view.begin(), view.end());
}
inline Bytes textBytes(std::string_view text) {
  const auto view = std::as_bytes(std::span(text.data(), text.size()));
  return Bytes(view.begin(), view.end());
}

inline tcp::Published publishedBy(const Transport& transport) {
  Result<tcp::Published> published = tcp::Published::decode(transport.address());
  EXPECT_TRUE(published.ok()) << published.status().toString();
  return published.ok() ? published.take() : tcp::Published();
}

// A TCP client on loopback that sends what the test gives it.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0) << std::strerror(errno);
  }
  explicit Client(Fd fd) : fd_(std::move(fd)) {}

  void say(std::span<const std::byte> bytes) {
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Takes the bytes that have arrived; false once the other end has closed.
  bool listen() {
    std::byte buffer[4096];
    const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) heard_.insert(heard_.end(), buffer, buffer + got);
    return got > 0 || (got < 0 && errno == EAGAIN);
  }
  const Bytes& heard() const { return heard_; }
  void forget(size_t bytes) { heard_.erase(heard_.begin(), heard_.begin() + static_cast<long>(bytes)); }
  void close() { fd_.reset(); }
  int fd() const { return fd_.get(); }

  // Whether the handshake came to a good end, from this side's view.
  bool prove(Transport& other, const HandshakeOptions& options, Status* why = nullptr) {
    Handshake handshake(options);
    bool open = true;
    Status status;
    const bool ended = pumpUntil({&other}, [&] {
      if (!handshake.pending().empty()) {
        const size_t bytes = handshake.pending().size();
        say(handshake.pending());
        handshake.sent(bytes);
      }
      open = listen();
      if (const Result<size_t> fed = handshake.feed(heard_); fed.ok())
        forget(fed.value());
      else
        status = fed.status();
      return handshake.done() || !open || !status.ok();
    });
    if (!handshake.pending().empty()) say(handshake.pending());  // the last message of an end that refuses
    if (why) *why = status;
    return ended && handshake.done();
  }

 private:
  Fd fd_;
  Bytes heard_;
};

inline constexpr LinkShape kFakeShape{.channels = 2, .slots = 4, .slot_bytes = 256};

// The messages of the fake connector, rank 0, when it behaves.
inline tcp::ConnectorHello goodHello(const tcp::Published& acceptor, const tcp::Published& own) {
  return {.peer_instance = acceptor.instance,
          .rank = 0,
          .peer = 1,
          .stream = 0,
          .streams = 1,
          .number = 0,
          .channels = static_cast<uint16_t>(kFakeShape.channels),
          .slots = kFakeShape.slots,
          .slot_bytes = kFakeShape.slot_bytes,
          .attempt = 1,
          .instance = own.instance};
}

// The address that a fake rank on this machine's lo would publish.
inline tcp::Published fakePublished(uint16_t port, int streams = 1) {
  tcp::Published out;
  out.host = tcp::networkStackId();
  randomBytes(out.instance);
  out.port = port;
  out.streams = streams;
  tcp::Interface lo{.name = "lo", .address = {}, .prefix_bits = 8, .loopback = true};
  lo.address.bytes = {127, 0, 0, 1};
  out.interfaces = {lo};
  return out;
}

inline std::unique_ptr<Transport> makeRank(const SocketOptions& options) {
  Result<std::unique_ptr<Transport>> made = makeSocketTransport(options);
  EXPECT_TRUE(made.ok()) << made.status().toString();
  return made.ok() ? made.take() : nullptr;
}

}  // namespace horing::testing
