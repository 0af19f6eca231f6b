#pragma once
// Everything between this rank and one peer over TCP: slots, connections and the streams that they share.
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/socket/connection.h"
#include "transport/socket/stream.h"
#include "transport/transport.h"

namespace horing::tcp {

struct LinkOptions {
  int rank = 0;
  int peer = 0;
  int number = 0;
  LinkShape shape;
  // One per stream: "eth0 10.0.0.1 -> 10.0.0.2:4711".
  std::vector<std::string> stream_names;
};

// Messages of a connection are spread over the streams, each to the one with the least under way, and put in order again
// by the slot that their number names; with one stream none of that costs anything.
class SocketLink final : public Link, private FrameSink {
 public:
  explicit SocketLink(LinkOptions options);

  int peer() const override { return options_.peer; }
  int number() const override { return options_.number; }
  bool established() const override { return missing_streams_ == 0; }
  const Status& status() const override { return status_; }
  Sender& sender(int channel) override { return channels_[static_cast<size_t>(channel)]->sender; }
  Receiver& receiver(int channel) override { return channels_[static_cast<size_t>(channel)]->receiver; }
  uint64_t memoryBytes() const override;
  std::string describe() const override;

  // --- Coming up. What still stands in the way of a stream, for describe().
  void noteObstacle(int stream, std::string obstacle) {
    obstacles_[static_cast<size_t>(stream)] = std::move(obstacle);
  }
  bool hasStream(int stream) const { return streams_[static_cast<size_t>(stream)] != nullptr; }
  int streams() const { return static_cast<int>(streams_.size()); }
  // Takes over a proven connection that both ends know to be meant for this link.
  void attach(int stream, WatchedFd fd);
  // Tells the connector through a stream just attached that this end is there, too.
  void sendReady(int stream);

  // --- Running.
  // Moves bytes. `thoroughly`: leave nothing undone that could be done now, since the caller is about to block.
  enum class Effort : uint8_t { kNormal, kIdle, kThorough };
  void progress(Effort effort);
  void checkAlive(int64_t silence_ms);
  // First error wins.
  void fail(Status status);

  // --- Leaving. Says goodbye to a healthy peer when everything posted has been written.
  void sayGoodbye();
  int unacknowledgedBytes() const;

  // --- For the connections.
  const LinkShape& shape() const { return options_.shape; }
  int sendMessage(const FrameHeader& header, const std::byte* payload);
  void messageCredited(int stream, uint32_t bytes) { under_way_[static_cast<size_t>(stream)] -= bytes; }
  void noteRelease() { credits_owed_ = true; }
  // The peer has left in order, and everything that it sent has been read.
  bool departed() const { return departed_; }
  void failDeparted(int channel);

 private:
  struct Channel {
    SocketSender sender;
    SocketReceiver receiver;
  };
  struct AlignedDelete {
    void operator()(std::byte* memory) const;
  };

  std::byte* beginFrame(const FrameHeader& header) override;
  void endFrame(const FrameHeader& header) override;
  uint64_t creditOf(uint16_t channel) override;
  void frameSent(const FrameHeader& header) override;

  std::byte* broken(const FrameHeader& header, const char* why);
  size_t leastBusyStream() const;
  void queueCredits(Effort effort);
  void judgeEndedStreams();

  LinkOptions options_;
  Status status_;
  std::unique_ptr<std::byte[], AlignedDelete> slots_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<std::unique_ptr<SocketStream>> streams_;  // null until attached
  std::vector<std::string> obstacles_;
  std::vector<uint64_t> under_way_;  // bytes posted on each stream and not credited yet
  int missing_streams_;
  bool credits_owed_ = false;
  bool departed_ = false;
  size_t turn_ = 0;
};

}  // namespace horing::tcp
