#pragma once
// One TCP connection that carries frames of a link: a queue of frames to write, and a reader that puts payloads where
// they belong without an intermediate copy.
#include <string>
#include <vector>

#include "base/fd.h"
#include "transport/socket/poller.h"
#include "transport/socket/wire.h"

namespace horing::tcp {

// The link, as its streams see it.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // A header has arrived. Returns where its payload goes, or nullptr after having failed the link: the header lies.
  virtual std::byte* beginFrame(size_t stream, const FrameHeader& header) = 0;
  // ... and now all of its payload has. May fail the link.
  virtual void endFrame(size_t stream, const FrameHeader& header) = 0;
  // The credit to write into a frame of this channel; asked for at the last moment.
  virtual uint64_t creditOf(uint16_t channel) = 0;
  // The kernel has taken all of this frame.
  virtual void frameSent(size_t stream, const FrameHeader& header) = 0;
  // The kernel may not touch the memory of a payload: none stays in memory of callers. False: none was there.
  virtual bool leaveLentMemory() = 0;
};

class SocketStream final : public PollTarget {
 public:
  // `number`: its own, for the sink. At most `queue_frames` frames are ever queued. All memory is allocated here.
  SocketStream(WatchedFd fd, FrameSink& sink, size_t number, size_t queue_frames);
  // Makes the events of the connection this stream's.
  Status watch() { return fd_.watch(kSocketEvents, *this); }

  // The payload must stay as it is until frameSent() (a retransmission is the kernel's matter).
  void enqueue(const FrameHeader& header, const std::byte* payload);
  // ... or go on there, as it was.
  void payloadMoved(const FrameHeader& message, const std::byte* payload);
  bool queueEmpty() const { return count_ == 0; }
  size_t queuedBytes() const { return queued_bytes_; }
  // Writes until the queue is empty or the kernel has no more room.
  void flush();
  // Reads until about `budget` bytes have come or there is no more.
  void receive(size_t budget);
  bool hasInput() const { return ready_.readable; }

  // No more will come; whyEnded() says why.
  bool ended() const { return !why_ended_.empty(); }
  const std::string& whyEnded() const { return why_ended_; }
  bool saidGoodbye() const { return goodbye_; }
  // It ended because the other process closed it or ended itself: a broken network never looks like that.
  bool closedByPeer() const { return closed_by_peer_; }
  // The frame of which a part has come, or nullptr.
  const FrameHeader* incompleteFrame() const { return payload_left_ > 0 ? &incoming_ : nullptr; }
  // The rest of its payload, which begins there now.
  void restComesTo(std::byte* payload) { payload_to_ = payload + (incoming_.bytes - payload_left_); }
  // What has not been written, by position.
  size_t queuedFrames() const { return count_; }
  const FrameHeader& queuedFrame(size_t index) const {
    return queue_[(first_ + index) % queue_.size()].header;
  }
  // The connection is given up for another one; the other end must not take that for the end of this process.
  void breakOff();
  // The link has failed: no further reading or writing.
  void abandon();

  // To be called about once a second: ends a stream whose peer's machine has not answered for `silence_ms`, although
  // something is on its way to it. A peer that is alive but does not read is left alone.
  void checkAlive(int64_t silence_ms);
  // Bytes that the other machine has not acknowledged yet; 0 when the peer does not read any more.
  int unacknowledgedBytes() const;
  uint64_t memoryBytes() const;

  void onEvents(uint32_t events) override { ready_.take(events); }

 private:
  static constexpr size_t kStagingBytes = 4096;
  // From this payload size on, a header is read together with what precedes it, but nothing of its payload is: that is
  // read into its slot at once instead of being copied there.
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
  size_t first_written_ = 0;  // bytes of the first frame that the kernel has
  size_t queued_bytes_ = 0;

  FrameHeader incoming_{};
  std::byte* payload_to_ = nullptr;
  size_t payload_left_ = 0;
  size_t staged_ = 0;  // unparsed bytes in staging_; 0 while a payload is incomplete
  std::vector<std::byte> staging_;
};

}  // namespace horing::tcp
