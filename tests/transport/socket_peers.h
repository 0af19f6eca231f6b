#pragma once
// Test fixtures: real ranks over sockets, and a real rank with a fake peer.
#include <array>
#include <cstring>
#include <utility>

#include "../held_port.h"
#include "base/listener.h"
#include "socket_fake.h"

namespace horing::testing {

class Socket : public ::testing::Test {
 protected:
  SocketOptions options(int rank) {
    return {.rank = rank, .key = key_, .interfaces = "=lo", .family = "ipv4", .clock = &clock_};
  }
  // Whether a fresh link between the two carries a message: nothing has been disturbed.
  void expectWorking(Transport& low, Transport& high) {
    Result<Link*> a = low.connect(1, high.address(), kFakeShape);
    Result<Link*> b = high.connect(0, low.address(), kFakeShape);
    ASSERT_TRUE(a.ok() && b.ok());
    ASSERT_TRUE(pumpUntil({&low, &high}, [&] {
      return a.value()->established() && b.value()->established();
    })) << a.value()->describe();
    std::byte* slot = a.value()->sender(1).tryAcquire(kWholeSlot);
    ASSERT_NE(slot, nullptr);
    slot[0] = std::byte{42};
    a.value()->sender(1).post(1, 77);
    const Message* message = nullptr;
    ASSERT_TRUE(
        pumpUntil({&low, &high}, [&] { return (message = b.value()->receiver(1).tryPeek()) != nullptr; }));
    EXPECT_EQ(message->tag, 77u);
    EXPECT_EQ(message->data[0], std::byte{42});
    EXPECT_TRUE(low.progress().ok());
    EXPECT_TRUE(high.progress().ok());
  }

  SteadyClock clock_;
  Key key_ = Key::random();
};

// Rank 1 is real; rank 0 is a client that holds the key and has come as far as being a peer.
class HostilePeer : public Socket {
 protected:
  void SetUp() override { begin(1); }

  void begin(int streams) {
    SocketOptions mine = options(1);
    mine.streams = streams;
    rank_ = makeRank(mine);
    const tcp::Published acceptor = publishedBy(*rank_);
    fake_ = fakePublished(port_, streams);
    Result<Link*> link = rank_->connect(0, fake_.encode(), kFakeShape);
    ASSERT_TRUE(link.ok()) << link.status().toString();
    link_ = link.value();
    peers_.clear();
    for (int i = 0; i < streams; ++i) {
      peers_.push_back(nullptr);
      come(static_cast<size_t>(i), 1);
      ASSERT_FALSE(HasFatalFailure());
      sayState(peers_.size() - 1, States{});
    }
    ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return link_->established(); }));
  }
  // Connects this stream, up to the rank's report of its state, which is then in `theirs_`.
  void come(size_t stream, uint32_t attempt) {
    const tcp::Published acceptor = publishedBy(*rank_);
    tcp::ConnectorHello hello = goodHello(acceptor, fake_);
    hello.streams = static_cast<uint16_t>(fake_.streams);
    hello.stream = static_cast<uint16_t>(stream);
    hello.attempt = attempt;
    // Closing the one before would be the end of the process.
    former_.push_back(std::exchange(peers_[stream], std::make_unique<Client>(acceptor.port)));
    Client& peer = *peers_[stream];
    ASSERT_TRUE(
        peer.prove(*rank_, {.key = key_, .role = HandshakeRole::kConnector, .hello = bytesOf(hello)}));
    constexpr size_t kFrame = sizeof(tcp::FrameHeader);
    constexpr size_t kGreeting = 2 * kFrame + sizeof theirs_;
    ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return !peer.listen() || peer.heard().size() >= kGreeting; }));
    ASSERT_GE(peer.heard().size(), kGreeting) << "a ready frame, and what it has";
    tcp::FrameHeader frames[2];
    std::memcpy(&frames[0], peer.heard().data(), kFrame);
    std::memcpy(&frames[1], peer.heard().data() + kFrame, kFrame);
    std::memcpy(&theirs_, peer.heard().data() + 2 * kFrame, sizeof theirs_);
    EXPECT_EQ(frames[0].kind, tcp::FrameKind::kReady);
    EXPECT_EQ(frames[1].kind, tcp::FrameKind::kState);
    EXPECT_EQ(frames[1].bytes, sizeof theirs_);
    peer.forget(kGreeting);
  }
  // What the fake has of each channel.
  using States = std::array<ChannelState, 2>;
  void sayState(size_t stream, const States& states) {
    peers_[stream]->say(
        bytesOf(tcp::FrameHeader{.bytes = sizeof states, .channel = 0, .kind = tcp::FrameKind::kState}));
    peers_[stream]->say(bytesOf(states));
  }
  // Breaks a connection as a network does.
  void reset(size_t stream) {
    const linger abort{.l_onoff = 1, .l_linger = 0};
    ASSERT_EQ(::setsockopt(peers_[stream]->fd(), SOL_SOCKET, SO_LINGER, &abort, sizeof abort), 0);
    peers_[stream]->close();
  }
  void say(const tcp::FrameHeader& header, size_t payload, size_t stream = 0) {
    Bytes bytes = bytesOf(header);
    bytes.resize(bytes.size() + payload, std::byte{5});
    peers_[stream]->say(bytes);
  }
  void expectFailure(const char* part) {
    ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return !link_->status().ok(); })) << part;
    EXPECT_EQ(link_->status().code(), Code::kRemoteError);
    const std::string& text = link_->status().message();
    for (const char* expected : {part, "rank 0", "rank 1", "127.0.0.1"})
      EXPECT_NE(text.find(expected), std::string::npos) << text;
    EXPECT_EQ(rank_->progress().message(), text) << "the transport reports it, too";
  }

  uint16_t port_ = 1;  // where the fake listens; nothing listens at 1
  tcp::Published fake_;
  States theirs_{};
  std::unique_ptr<Transport> rank_;
  Link* link_ = nullptr;
  std::vector<std::unique_ptr<Client>> peers_;   // by stream
  std::vector<std::unique_ptr<Client>> former_;  // the earlier connections
};

// One that listens somewhere, so that the rank has reason to wait for it.
class ListeningPeer : public HostilePeer {
 protected:
  void TearDown() override { rank_.reset(); }
  void SetUp() override {
    port_ = held_.number();
    Result<Listener> listening = listenOn(nullptr, port_);
    ASSERT_TRUE(listening.ok()) << listening.status().toString();
    listener_ = std::move(listening.value().fd);
    begin(1);
  }
  // The next frame of a kind that the rank sends; others are passed over. `payload`: what follows it.
  tcp::FrameHeader nextFrame(tcp::FrameKind kind, size_t stream = 0, Bytes* payload = nullptr) {
    Client& peer = *peers_[stream];
    tcp::FrameHeader header{};
    const bool came = pumpUntil({rank_.get()}, [&] {
      peer.listen();
      const Bytes& heard = peer.heard();
      while (heard.size() >= sizeof header) {
        std::memcpy(&header, heard.data(), sizeof header);
        if (heard.size() < sizeof header + header.bytes) return false;
        if (payload)
          payload->assign(heard.begin() + sizeof header, heard.begin() + sizeof header + header.bytes);
        peer.forget(sizeof header + header.bytes);
        if (header.kind == kind) return true;
      }
      return false;
    });
    EXPECT_TRUE(came) << "no such frame";
    return header;
  }
  void turn() {
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(rank_->progress().ok()) << rank_->progress().toString();
  }

  const test::HeldPort held_;  // also without the listener
  Fd listener_;
};

inline constexpr tcp::FrameHeader kGood{
    .bytes = 8, .channel = 1, .kind = tcp::FrameKind::kData, .tag = 9, .sequence = 0, .credit = 0};

}  // namespace horing::testing
