#pragma once
// The connecting end of one stream, until the link takes it over: connect, prove the key, wait until the peer is ready, and retry
// until it works or cannot. The accepting end of a broken stream only probes: it connects and hangs up, to learn whether the peer
// is alive.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/auth.h"
#include "base/clock.h"
#include "base/listener.h"
#include "base/proof.h"
#include "transport/link_shape.h"
#include "transport/socket/poller.h"
#include "transport/socket/wire.h"

namespace horing::tcp {

struct DialOptions {
  enum class Purpose : uint8_t { kStream, kProbe };
  Purpose purpose = Purpose::kStream;
  Key key;
  ConnectorHello hello;
  Address from;  // of this rank's interface
  Endpoint to;
  std::function<bool()> deaths_are_told;  // see SocketOptions
};

class Dial final : public PollTarget {
 public:
  Dial(DialOptions options, Poller& poller, const Clock& clock)
      : options_(std::move(options)),
        poller_(poller),
        clock_(clock),
        next_attempt_ns_(clock.nowNs()),
        looked_ns_(clock.nowNs()),
        reached_ns_(clock.nowNs()),
        unconnected_from_ns_(reached_ns_) {}
  ~Dial() override { hangUp(); }

  // Continues as far as possible. An error is final: trying again would not help.
  Status progress();
  // The peer has just answered on another path: the growing pauses start anew.
  void hurry();
  // The peer is ready; takes the connection.
  bool ready() const { return stage_ == Stage::kReady; }
  WatchedFd take();
  // Counts the attempts of all dials of this stream.
  uint32_t attempt() const { return options_.hello.attempt; }
  // Not ok when the peer seems to have ended: refused (unless deaths are told), or no answer at all, for too long. For links that
  // were open before.
  Status hopeless() const;
  // How long the address has not answered, or has refused, in a row; for ever if another process answers there.
  int64_t silentMs() const;
  // How long the machine at the address has not answered at all.
  int64_t unreachableMs() const;
  // How long there has been no connection, even if the machine answers: its port may refuse, or a firewall may drop connections.
  int64_t unconnectedMs() const;
  // Not ok: another process answers there, for example on another machine with that address.
  const Status& misled() const { return misled_; }
  // Why it is not ready yet.
  const std::string& obstacle() const { return obstacle_; }

  void onEvents(uint32_t) override { has_event_ = true; }

 private:
  enum class Stage : uint8_t { kResting, kConnecting, kProving, kAwaitingReady, kReady, kMisled };

  bool isConnecting() const { return stage_ == Stage::kResting || stage_ == Stage::kConnecting; }
  // Errors of this machine, which are final.
  Status begin();
  Status tryConnect();
  void hangUp();
  void rest(const Status& why);
  void startPatience();
  void setUserTimeout(int timeout_ms);
  Status connectFailed(int error);
  void askMachine();
  bool machineAnswers() const;
  void checkConnected();
  void prove();
  void giveUp(const Status& why);
  Status awaitReady();
  Status checkReady(const FrameHeader& header) const;

  DialOptions options_;
  Poller& poller_;
  const Clock& clock_;
  WatchedFd fd_;
  Stage stage_ = Stage::kResting;
  bool has_event_ = false;
  std::unique_ptr<Handshake> handshake_;
  std::array<std::byte, sizeof(FrameHeader)> reply_;
  size_t reply_bytes_ = 0;
  int64_t next_attempt_ns_;
  int64_t pause_ms_ = 0;
  int attempts_ = 0;
  int unanswered_ = 0;            // the latest attempts, in a row
  int64_t attempt_until_ns_ = 0;  // of the attempt in progress
  int64_t looked_ns_;             // the last call of progress()
  Fd question_;                   // the datagram of askMachine()
  int64_t reached_ns_;            // start of the present silence
  int64_t unconnected_from_ns_;
  int64_t refused_from_ns_ = INT64_MAX;  // first of the refusals in a row; INT64_MAX: none
  Status misled_;
  std::string obstacle_ = "not tried yet";
};

// The frame with which an acceptor tells a connector that its link has another shape.
FrameHeader refusalOf(const LinkShape& mine);

}  // namespace horing::tcp
