#pragma once
// The connecting end of one stream, until the link takes it over: connect, prove, wait for the peer to be ready; again
// and again until it works or cannot. The accepting end of a stream that broke only knocks: it connects and hangs up, to
// know whether somebody is there who might come.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/auth.h"
#include "base/clock.h"
#include "base/listener.h"
#include "transport/link_shape.h"
#include "transport/socket/poller.h"
#include "transport/socket/proof.h"
#include "transport/socket/tuning.h"
#include "transport/socket/wire.h"

namespace horing::tcp {

struct DialOptions {
  enum class Purpose : uint8_t { kStream, kKnock };
  Purpose purpose = Purpose::kStream;
  Key key;
  ConnectorHello hello;
  Address from;  // of this rank's interface
  Endpoint to;
  SocketTuning tuning;
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
        reached_ns_(clock.nowNs()) {}
  ~Dial() override { hangUp(); }

  // Goes on as far as possible. An error is final: trying again would not help.
  Status progress();
  // The peer is ready; take the connection.
  bool ready() const { return stage_ == Stage::kReady; }
  WatchedFd take();
  // Counts the attempts of all dials of this stream.
  uint32_t attempt() const { return options_.hello.attempt; }
  // Not ok when nobody seems to be there any more: refused, unless deaths are told, or no answer at all, for too long. For links
  // that were there.
  Status hopeless() const;
  // For how long nobody has answered at the address, or has refused, in a row; for ever where somebody else answers.
  int64_t silentMs() const;
  // For how long the machine there has not answered at all.
  int64_t unreachableMs() const;
  // Not ok: who answers there is not the peer, such as another machine with that address.
  const Status& misled() const { return misled_; }
  // Why it is not ready yet.
  const std::string& obstacle() const { return obstacle_; }

  void onEvents(uint32_t) override { stirred_ = true; }

 private:
  enum class Stage : uint8_t { kResting, kConnecting, kProving, kAwaitingReady, kReady, kMisled };

  // Errors: those of this machine, which are final.
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
  bool stirred_ = false;
  std::unique_ptr<Handshake> handshake_;
  std::array<std::byte, sizeof(FrameHeader)> reply_;
  size_t reply_bytes_ = 0;
  int64_t next_attempt_ns_;
  int64_t pause_ms_ = 0;
  int attempts_ = 0;
  int unanswered_ = 0;                   // the last of them, in a row
  int64_t attempt_until_ns_ = 0;         // of one that is connecting
  int64_t looked_ns_;                    // when progress() was called last
  Fd question_;                          // see askMachine()
  int64_t reached_ns_;                   // when patience with silence began
  int64_t refused_from_ns_ = INT64_MAX;  // the first of the refusals in a row; INT64_MAX: there was none
  Status misled_;
  std::string obstacle_ = "not tried yet";
};

// The frame by which an acceptor tells a connector that its link has another shape.
FrameHeader refusalOf(const LinkShape& mine);

}  // namespace horing::tcp
