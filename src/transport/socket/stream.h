#pragma once
// One TCP connection that carries frames of a link: a queue of frames to write, and a reader that puts payloads into their place
// without an intermediate copy.
#include <string>
#include <vector>

#include "base/fd.h"
#include "transport/socket/poller.h"
#include "transport/socket/stream_pace.h"
#include "transport/socket/wire.h"

namespace horing::tcp {

// The link, as its streams see it.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // A header has arrived. Returns where its payload goes, or nullptr after having failed the link: the header is invalid.
  virtual std::byte* beginFrame(size_t stream, const FrameHeader& header) = 0;
  // ... and all of its payload has. May fail the link.
  virtual void endFrame(size_t stream, const FrameHeader& header) = 0;
  // The credit to write into a frame of this channel; called just before the frame is written.
  virtual uint64_t creditOf(uint16_t channel) = 0;
  // The kernel has taken all of this frame.
  virtual void frameSent(size_t stream, const FrameHeader& header) = 0;
  // The kernel may not access the memory of a payload: moves it out of callers' memory. False: it was not there.
  virtual bool leaveLentMemory() = 0;
};

class SocketStream final : public PollTarget {
 public:
  // `number`: the stream's, for the sink. At most `queue_frames` frames are queued. All memory is allocated here.
  SocketStream(WatchedFd fd, FrameSink& sink, size_t number, size_t queue_frames);
  // Assigns the connection's events to this stream.
  Status watch() { return fd_.watch(kSocketEvents, *this); }

  // The payload must not change until frameSent(); retransmission is the kernel's task.
  void enqueue(const FrameHeader& header, const std::byte* payload);
  // ... or continue at that address, with the same bytes.
  void payloadMoved(const FrameHeader& message, const std::byte* payload);
  bool queueEmpty() const { return count_ == 0; }
  size_t queuedBytes() const { return queued_bytes_; }
  // Writes until the queue is empty or the kernel has no more room.
  void flush();
  // Reads until about `budget` bytes have arrived or there are no more.
  void receive(size_t budget);
  bool hasInput() const { return ready_.readable; }

  // Nothing more will arrive; whyEnded() says why.
  bool ended() const { return !why_ended_.empty(); }
  const std::string& whyEnded() const { return why_ended_; }
  bool saidGoodbye() const { return goodbye_; }
  // The other process closed it or ended; a broken network never looks like this.
  bool closedByPeer() const { return closed_by_peer_; }
  // The frame that has arrived in part, or nullptr.
  const FrameHeader* incompleteFrame() const { return payload_left_ > 0 ? &incoming_ : nullptr; }
  // The rest of its payload now goes there.
  void restComesTo(std::byte* payload) { payload_to_ = payload + (incoming_.bytes - payload_left_); }
  // The unwritten frames, by position.
  size_t queuedFrames() const { return count_; }
  const FrameHeader& queuedFrame(size_t index) const {
    return queue_[(first_ + index) % queue_.size()].header;
  }
  // The connection is replaced by another one; the other end must not take that for the end of this process.
  void breakOff();
  // The link has failed: no further reading or writing.
  void abandon();

  // Call this about once a second: ends a stream whose peer's machine has not answered for this long, although data is on its way
  // to it. A peer that is alive but does not read keeps its stream: its kernel answers probes.
  struct ProbeLimit {
    int64_t ms;
    int probes;
  };
  void checkAlive(const ProbeLimit& limit);
  // How long nothing has come from the peer's machine, not even an acknowledgement. The kernel probes it after every three quiet
  // seconds (tuning.h).
  int64_t silentMs() const;
  // Bytes that the other machine has not acknowledged yet; 0 if the peer has stopped reading.
  int unacknowledgedBytes() const;
  StreamPace::Counts counts() const;
  uint64_t memoryBytes() const;

  void onEvents(uint32_t events) override { ready_.take(events); }

 private:
  static constexpr size_t kStagingBytes = 4096;
  // From this payload size on, a header is read with what precedes it but without its payload, which is then read directly into its
  // slot instead of being copied there.
  static constexpr uint32_t kDirectBytes = 4096;
  static constexpr size_t kGather = 16;  // frames per system call

  struct Outgoing {
    FrameHeader header;
    const std::byte* payload;
  };

  void advanceWrite(size_t written);
  void takeInput(size_t read);
  void parseStaging();
  void noteGoodbye();
  void endWith(int error_number);

  WatchedFd fd_;
  FrameSink& sink_;
  size_t number_;
  Readiness ready_;
  std::string why_ended_;
  int write_error_ = 0;
  bool goodbye_ = false;
  bool closed_by_peer_ = false;

  std::vector<Outgoing> queue_;  // a ring
  size_t first_ = 0;
  size_t count_ = 0;
  size_t first_written_ = 0;  // bytes of the first frame that the kernel has taken
  size_t queued_bytes_ = 0;

  FrameHeader incoming_{};
  std::byte* payload_to_ = nullptr;
  size_t payload_left_ = 0;
  size_t staged_ = 0;  // unparsed bytes in staging_; 0 while a payload is incomplete
  std::vector<std::byte> staging_;
};

}  // namespace horing::tcp
