#include "transport/socket/link.h"

#include <algorithm>
#include <cstdlib>

#include "base/check.h"

namespace horing::tcp {

namespace {
constexpr size_t kAlignment = 64;
// What one stream may read before others have their turn and the caller sees what came, while it is still in the cache.
constexpr size_t kReadBudgetBytes = 1u << 20;
// From this much on, posted messages are written at once; smaller ones wait for progress(), to share system calls.
constexpr size_t kEagerBytes = 32768;
}  // namespace

void SocketLink::AlignedDelete::operator()(std::byte* memory) const {
  std::free(memory);
}

SocketLink::SocketLink(LinkOptions options)
    : options_(std::move(options)),
      streams_(options_.stream_names.size()),
      obstacles_(options_.stream_names.size()),
      under_way_(options_.stream_names.size(), 0),
      missing_streams_(static_cast<int>(options_.stream_names.size())) {
  const size_t queue_bytes = static_cast<size_t>(shape().slots) * shape().slot_bytes;
  const auto channels = static_cast<size_t>(shape().channels);
  slots_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, 2 * channels * queue_bytes)));
  if (!slots_) {
    fail(makeStatus(Code::kSystemError,
                    "rank %d has no %zu bytes of memory for the slots of its link to rank %d", options_.rank,
                    2 * channels * queue_bytes, options_.peer));
    return;
  }
  for (size_t channel = 0; channel < channels; ++channel) {
    std::byte* const memory = slots_.get() + 2 * channel * queue_bytes;
    channels_.emplace_back(
        new Channel{SocketSender(*this, static_cast<int>(channel), memory),
                    SocketReceiver(*this, static_cast<int>(channel), memory + queue_bytes)});
  }
}

uint64_t SocketLink::memoryBytes() const {
  uint64_t bytes = sizeof *this +
                   uint64_t{2} * static_cast<uint64_t>(shape().channels) * shape().slots * shape().slot_bytes;
  for (const auto& stream : streams_) bytes += stream ? stream->memoryBytes() : 0;
  return bytes;
}

std::string SocketLink::describe() const {
  std::string text = "socket " + options_.stream_names.front();
  if (streams_.size() > 1) text += formatString(" and %zu more streams", streams_.size() - 1);
  if (established() || !status_.ok()) return text;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i] || obstacles_[i].empty()) continue;
    return text + formatString(" (%d of %zu streams missing; %s: %s)", missing_streams_, streams_.size(),
                               options_.stream_names[i].c_str(), obstacles_[i].c_str());
  }
  return text + formatString(" (%d of %zu streams missing: rank %d has not connected yet)", missing_streams_,
                             streams_.size(), options_.peer);
}

void SocketLink::attach(int stream, WatchedFd fd) {
  const auto index = static_cast<size_t>(stream);
  HORING_CHECK(!streams_[index]);
  // Per channel: all slots and one frame of credit; and a ready or a goodbye.
  const size_t frames = static_cast<size_t>(shape().channels) * (shape().slots + 1) + 2;
  streams_[index] = std::make_unique<SocketStream>(std::move(fd), static_cast<FrameSink&>(*this), frames);
  --missing_streams_;
  if (Status watched = streams_[index]->watch(); !watched.ok()) fail(watched);
}

void SocketLink::sendReady(int stream) {
  streams_[static_cast<size_t>(stream)]->enqueue({.bytes = 0, .channel = 0, .kind = FrameKind::kReady},
                                                 nullptr);
}

void SocketLink::progress(Effort effort) {
  if (!status_.ok() || departed_) return;
  const bool thorough = effort == Effort::kThorough;
  for (auto& stream : streams_)
    if (stream && stream->hasInput()) stream->receive(thorough ? SIZE_MAX : kReadBudgetBytes);
  if (credits_owed_) queueCredits(effort);
  bool ended = false;
  for (auto& stream : streams_) {
    if (!stream) continue;
    if (!stream->queueEmpty()) stream->flush();
    // A write that failed: what the peer said last is still to be read.
    if (thorough && stream->hasInput()) stream->receive(SIZE_MAX);
    ended = ended || stream->ended();
  }
  if (ended) judgeEndedStreams();
}

void SocketLink::judgeEndedStreams() {
  bool all_left = true;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (!streams_[i] || !streams_[i]->ended()) {
      all_left = false;
    } else if (!streams_[i]->saidGoodbye()) {
      return fail(makeStatus(
          Code::kRemoteError,
          "rank %d lost the connection to rank %d (socket %s): %s; the process on that rank has "
          "probably died: look at its output",
          options_.rank, options_.peer, options_.stream_names[i].c_str(), streams_[i]->whyEnded().c_str()));
    }
  }
  departed_ = all_left;
  for (size_t channel = 0; departed_ && channel < channels_.size(); ++channel)
    if (!channels_[channel]->sender.flushed()) failDeparted(static_cast<int>(channel));
}

void SocketLink::failDeparted(int channel) {
  fail(makeStatus(
      Code::kRemoteError,
      "rank %d left (it destroyed or aborted its communicator) while rank %d still needs it on channel %d "
      "(socket %s)",
      options_.peer, options_.rank, channel, options_.stream_names.front().c_str()));
}

void SocketLink::checkAlive(int64_t silence_ms) {
  for (auto& stream : streams_)
    if (stream) stream->checkAlive(silence_ms);
}

void SocketLink::fail(Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  for (auto& stream : streams_)
    if (stream) stream->abandon();
}

void SocketLink::sayGoodbye() {
  if (!status_.ok() || departed_ || !established()) return;
  progress(Effort::kThorough);
  for (auto& stream : streams_) {
    if (stream->ended() || !stream->queueEmpty()) continue;
    stream->enqueue({.bytes = 0, .channel = 0, .kind = FrameKind::kGoodbye}, nullptr);
    stream->flush();
  }
}

int SocketLink::unacknowledgedBytes() const {
  int bytes = 0;
  if (!status_.ok()) return 0;
  for (const auto& stream : streams_) bytes += stream ? stream->unacknowledgedBytes() : 0;
  return bytes;
}

size_t SocketLink::leastBusyStream() const {
  size_t best = turn_ % streams_.size();
  for (size_t i = 1; i < streams_.size(); ++i) {
    const size_t other = (turn_ + i) % streams_.size();
    if (under_way_[other] < under_way_[best]) best = other;
  }
  return best;
}

int SocketLink::sendMessage(const FrameHeader& header, const std::byte* payload) {
  size_t index = 0;
  if (streams_.size() > 1) {
    index = leastBusyStream();
    turn_ = index + 1;
  }
  under_way_[index] += header.bytes;
  // After an error nothing moves any more; the caller learns of it from status().
  if (!status_.ok() || departed_) {
    if (departed_) failDeparted(header.channel);
    return static_cast<int>(index);
  }
  SocketStream& stream = *streams_[index];
  stream.enqueue(header, payload);
  if (stream.queuedBytes() >= kEagerBytes) stream.flush();
  return static_cast<int>(index);
}

// Credits are worth a frame of their own when the peer may soon wait for them, or when there is nothing better to do;
// else they wait for a message of the same channel to carry them.
void SocketLink::queueCredits(Effort effort) {
  credits_owed_ = false;
  for (size_t channel = 0; channel < channels_.size(); ++channel) {
    SocketReceiver& receiver = channels_[channel]->receiver;
    const uint64_t owed = receiver.released() - receiver.creditSent();
    if (owed == 0) continue;
    if (effort == Effort::kNormal && owed * 2 < shape().slots) {
      credits_owed_ = true;
      continue;
    }
    if (!receiver.claimCreditFrame()) continue;
    streams_[channel % streams_.size()]->enqueue(
        {.bytes = 0, .channel = static_cast<uint16_t>(channel), .kind = FrameKind::kCredit}, nullptr);
  }
}

std::byte* SocketLink::broken(const FrameHeader& header, const char* why) {
  fail(makeStatus(
      Code::kRemoteError,
      "rank %d broke the protocol in what it sent to rank %d (socket %s): %s (kind %u, channel %u, %u bytes, "
      "message %llu, credit %llu); this is a bug of horing or memory that was overwritten",
      options_.peer, options_.rank, options_.stream_names.front().c_str(), why,
      static_cast<unsigned>(header.kind), header.channel, header.bytes,
      static_cast<unsigned long long>(header.sequence), static_cast<unsigned long long>(header.credit)));
  return nullptr;
}

std::byte* SocketLink::beginFrame(const FrameHeader& header) {
  if (header.channel >= channels_.size()) return broken(header, "no such channel");
  Channel& channel = *channels_[header.channel];
  if (!channel.sender.takeCredit(header.credit))
    return broken(header, "more messages acknowledged than were sent");
  if (header.kind == FrameKind::kData) {
    if (header.bytes > shape().slot_bytes) return broken(header, "a message larger than a slot");
    std::byte* const slot = channel.receiver.reserve(header.sequence);
    return slot ? slot : broken(header, "a message out of turn");
  }
  if (header.bytes != 0) return broken(header, "a payload where there is none");
  if (header.kind != FrameKind::kCredit && header.kind != FrameKind::kGoodbye)
    return broken(header, "unknown kind of frame");
  return slots_.get();
}

void SocketLink::endFrame(const FrameHeader& header) {
  if (header.kind == FrameKind::kData)
    channels_[header.channel]->receiver.arrived(header.sequence, header.bytes, header.tag);
}

uint64_t SocketLink::creditOf(uint16_t channel) {
  return channels_[channel]->receiver.released();
}

void SocketLink::frameSent(const FrameHeader& header) {
  Channel& channel = *channels_[header.channel];
  channel.receiver.noteCreditSent(header.credit);
  if (header.kind == FrameKind::kData) channel.sender.frameSent();
  if (header.kind == FrameKind::kCredit) channel.receiver.creditFrameSent();
  // Released meanwhile, between this frame's making and its leaving.
  if (channel.receiver.released() != channel.receiver.creditSent()) credits_owed_ = true;
}

}  // namespace horing::tcp
