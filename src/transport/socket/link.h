#pragma once
// Everything between this rank and one peer over TCP: slots, connections and the streams that they share.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/socket/connection.h"
#include "transport/socket/lent_memory.h"
#include "transport/socket/stream.h"
#include "transport/socket/stream_pace.h"
#include "transport/transport.h"

namespace horing::tcp {

enum class StreamState : uint8_t {
  kReserve,   // its path is tried only if no other path answers
  kMissing,   // a connection must be made
  kAttached,  // connected; the peer has not reported its state for this stream yet
  kOpen,      // carries messages
  kGivenUp,   // for good
};
// An attached or open stream is dropped before it is replaced or given up.
constexpr bool mayFollow(StreamState now, StreamState next) {
  using enum StreamState;
  switch (now) {
    case kReserve:
    case kMissing:
      return next == kAttached || next == kGivenUp;
    case kAttached:
      return next == kOpen || next == kMissing;
    case kOpen:
      return next == kMissing;
    case kGivenUp:
      return false;
  }
  return false;
}

struct LinkOptions {
  int rank = 0;
  int peer = 0;
  int number = 0;
  LinkShape shape;
  // One per stream: "eth0 10.0.0.1 -> 10.0.0.2:4711".
  std::vector<std::string> stream_names;
  // Streams from this number on are in reserve, for the case that none before them gets an answer.
  size_t wanted = SIZE_MAX;
  std::function<bool()> deaths_are_told;  // see SocketOptions
  const LentMemory* lent = nullptr;
  DataMoved* moved = nullptr;  // the counter to add to
};

// Messages of a connection are spread over the streams and put in order again by the slot that their number names; with one stream this
// costs nothing. Each takes the stream with the fewest bytes under way or, if the streams differ in speed, the one that will have moved it
// first (stream_pace.h).
//
// A stream whose connection breaks is missing until attach() brings another one. Both ends then report their state, and send again
// the messages of this stream that did not arrive: they are still in their slots, or in their sender's memory, because no credit
// has come for them. The end of a stream without such a break is the end of the peer's process, and fails the link.
//
// A path without an answer is given up while another one works: both ends drop it and report that and their state, and other
// streams take what it lost.
class SocketLink final : public Link, private FrameSink {
 public:
  explicit SocketLink(LinkOptions options);

  int peer() const override { return options_.peer; }
  int number() const override { return options_.number; }
  bool established() const override { return established_; }
  bool givenUp() const override { return false; }
  bool isMending() const override { return established_ && !complete() && status_.ok(); }
  bool hasUnderWay() const override {
    return std::ranges::any_of(streams_, [](const Stream& stream) { return stream.under_way > 0; });
  }
  const Status& status() const override { return status_; }
  Sender& sender(int channel) override { return channels_[static_cast<size_t>(channel)]->sender; }
  Receiver& receiver(int channel) override { return channels_[static_cast<size_t>(channel)]->receiver; }
  uint64_t memoryBytes() const override;
  std::string describe() const override;

  // --- Coming up, for the first time or again. The obstacle of a stream, for describe().
  void noteObstacle(size_t stream, std::string obstacle) { streams_[stream].obstacle = std::move(obstacle); }
  size_t streams() const { return streams_.size(); }
  bool hasStream(size_t stream) const { return streams_[stream].tcp != nullptr; }
  bool complete() const { return missing_streams_ == 0; }
  // The number of the connection that a stream has or last had; 0 before the first.
  uint32_t attempt(size_t stream) const { return streams_[stream].attempt; }
  // Why the last connection of a stream broke; "" if none did.
  const std::string& whyBroken(size_t stream) const { return streams_[stream].why_broken; }
  const std::string& streamName(size_t stream) const { return options_.stream_names[stream]; }
  // Takes over a proven connection that both ends know to be for this link, in place of the present one. The accepting end
  // announces on it that it is ready.
  void attach(size_t stream, WatchedFd fd, uint32_t attempt);

  // Whether the connection must still be made: the stream is neither in reserve nor given up.
  bool wants(size_t stream) const { return streams_[stream].isWanted(); }
  bool isGivenUp(size_t stream) const { return streams_[stream].state == StreamState::kGivenUp; }
  // Whether another stream works and the peer has answered on it: then this one may be given up for good.
  bool hasAnotherWay(size_t stream) const;
  bool answersElsewhere(size_t stream, int64_t within_ms) const;
  void giveUp(size_t stream);

  // --- Running.
  // Moves bytes. `thoroughly`: leave nothing undone that could be done now, since the caller is about to block.
  enum class Effort : uint8_t { kNormal, kIdle, kThorough };
  void progress(Effort effort);
  // Drops a stream on which the peer's machine is silent for `silence_ms`, or for `path_silence_ms` if it answers on another path.
  void checkAlive(int64_t silence_ms, int64_t path_silence_ms);
  // The first error is kept.
  void fail(Status status);
  // Stops reading and writing a region that was lent. Whether messages had to be moved.
  bool withdraw(const Region& region);

  // --- Leaving. Says goodbye to a healthy peer when everything posted has been written. Call this after progress() until it
  // returns true: all that this end sent has arrived, or the link has failed. False while a stream is missing.
  bool leave();

  // --- For the connections.
  const LinkShape& shape() const { return options_.shape; }
  // The index among a connection's slots.
  size_t slotsBytes() const { return static_cast<size_t>(shape().slots) * shape().slot_bytes; }
  // Chooses the stream for a message of this size.
  size_t chooseStream(uint32_t bytes);
  void sendMessage(size_t stream, const FrameHeader& header, const std::byte* payload);
  void queueMessage(size_t stream, const FrameHeader& header, const std::byte* payload) {
    streams_[stream].tcp->enqueue(header, payload);
  }
  // The stream is attached, and the peer has reported its state.
  bool isOpen(size_t stream) const { return streams_[stream].isOpen(); }
  void messageCredited(size_t stream, uint32_t bytes) { streams_[stream].under_way -= bytes; }
  void noteRelease() { credits_owed_ = true; }
  const LentMemory& lentMemory() const { return *options_.lent; }
  DataMoved& moved() { return *options_.moved; }
  // Of a message under way: the part that has not been written, or read, yet.
  void payloadMoved(size_t stream, const FrameHeader& header, const std::byte* payload);
  void restComesTo(int channel, uint64_t sequence, std::byte* payload);
  void failLanding(const FrameHeader& message);
  // The peer has left in order, and everything that it sent has been read.
  bool departed() const override { return departed_; }
  void failDeparted(int channel);

 private:
  struct Channel {
    SocketSender sender;
    SocketReceiver receiver;
  };
  struct Stream {
    StreamState state = StreamState::kMissing;
    std::unique_ptr<SocketStream> tcp;  // while it is attached or open
    bool said_goodbye = false;          // by this end
    uint32_t attempt = 0;
    uint64_t under_way = 0;  // bytes posted to it without a credit yet
    StreamPace pace;         // if the link uses several
    std::string obstacle;
    std::string why_broken;
    std::vector<ChannelState> mine;  // as sent to the peer
    std::vector<ChannelState> theirs;
    // When it is given up: the peer's state, and the stream that carried it.
    std::vector<std::vector<ChannelState>> told;

    bool isOpen() const { return state == StreamState::kOpen; }
    bool isWanted() const { return state != StreamState::kReserve && state != StreamState::kGivenUp; }
  };
  struct AlignedDelete {
    void operator()(std::byte* memory) const;
  };

  std::byte* beginFrame(size_t stream, const FrameHeader& header) override;
  void endFrame(size_t stream, const FrameHeader& header) override;
  uint64_t creditOf(uint16_t channel) override;
  void frameSent(size_t stream, const FrameHeader& header) override;
  bool leaveLentMemory() override;

  std::byte* broken(const FrameHeader& header, const char* why);
  std::byte* beginState(Stream& stream, const FrameHeader& header);
  void endState(size_t stream, const FrameHeader& header);
  std::byte* beginGivenUp(size_t carrier, const FrameHeader& header);
  void endGivenUp(size_t carrier, const FrameHeader& header);
  void tellGivenUp(size_t stream, size_t carrier);
  void enter(Stream& stream, StreamState next);
  std::vector<ChannelState> states() const;
  void drop(size_t stream);
  bool flushed() const;
  size_t bestStream(uint32_t bytes);
  size_t leastBusyStream() const;
  void lookAtPaces(int64_t now_ns);
  size_t firstToFinish(uint32_t bytes, int64_t now_ns) const;
  SocketStream* creditStream(size_t channel);
  void queueCredits(Effort effort);
  bool deathsAreTold() const;
  bool hasLeft(const Stream& stream) const;
  void judgeEndedStreams();

  LinkOptions options_;
  Status status_;
  std::unique_ptr<std::byte[], AlignedDelete> slots_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<Stream> streams_;
  size_t used_streams_;     // those after them are in reserve
  size_t missing_streams_;  // streams in state kMissing
  bool established_ = false;
  bool credits_owed_ = false;
  bool departed_ = false;
  size_t turn_ = 0;
  bool paces_differ_ = false;  // among the used streams, which are all open then
};

}  // namespace horing::tcp
