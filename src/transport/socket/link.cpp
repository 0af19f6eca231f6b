#include "transport/socket/link.h"

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "base/clock.h"
#include "transport/socket/tuning.h"

namespace horing::tcp {

namespace {
constexpr size_t kAlignment = 64;
// The most that one stream reads before the next stream's turn, so that the caller sees the data while it is in the cache.
constexpr size_t kReadBudgetBytes = 1u << 20;
// From this size on, posted messages are written at once; smaller ones wait for progress(), to share system calls.
constexpr size_t kEagerBytes = 32768;
// Messages from this size on are worth looking at the streams' paces, and how often that is done.
constexpr uint32_t kPacedBytes = 16384;
constexpr int64_t kLookEveryNs = 1'000'000;
// Paces that differ by less count as equal: then streams take turns.
constexpr double kUnequal = 1.25;
}  // namespace

void SocketLink::AlignedDelete::operator()(std::byte* memory) const {
  std::free(memory);
}

SocketLink::SocketLink(LinkOptions options)
    : options_(std::move(options)),
      streams_(options_.stream_names.size()),
      used_streams_(std::min(options_.wanted, options_.stream_names.size())),
      missing_streams_(used_streams_) {
  for (size_t i = used_streams_; i < streams_.size(); ++i) streams_[i].state = StreamState::kReserve;
  const size_t queue_bytes = slotsBytes();
  const auto channels = static_cast<size_t>(shape().channels);
  slots_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, 2 * channels * queue_bytes)));
  if (!slots_) {
    fail(makeStatus(Code::kSystemError,
                    "rank %d cannot allocate %zu bytes for the slots of its link to rank %d", options_.rank,
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
  uint64_t bytes = sizeof *this;
  // The caller's own slots are not touched.
  for (const auto& channel : channels_)
    bytes +=
        (uint64_t{channel->sender.hasOwnSlots()} + uint64_t{channel->receiver.hasOwnSlots()}) * slotsBytes();
  for (const Stream& stream : streams_) bytes += stream.tcp ? stream.tcp->memoryBytes() : 0;
  return bytes;
}

std::string SocketLink::describe() const {
  std::string text = "socket " + options_.stream_names.front();
  const bool is_one = used_streams_ == 1;
  if (!is_one) text += formatString(" and %zu more streams", used_streams_ - 1);
  if (complete() || !status_.ok()) return text;
  if (!is_one) text += formatString(", %zu of %zu missing", missing_streams_, used_streams_);
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].tcp || streams_[i].obstacle.empty() || !wants(i)) continue;
    return text + (is_one ? "" : ", " + streamName(i)) + ": " + streams_[i].obstacle;
  }
  return text + formatString(": rank %d has not connected yet", options_.peer);
}

void SocketLink::attach(size_t number, WatchedFd fd, uint32_t attempt) {
  Stream& stream = streams_[number];
  if (stream.state == StreamState::kReserve) used_streams_ = streams_.size();
  if (stream.tcp) drop(number);
  stream.attempt = attempt;
  // The most frames that can be queued: per channel all slots and one credit; for each other stream the report that it is given up;
  // a ready, a state and a goodbye.
  const size_t frames = static_cast<size_t>(shape().channels) * (shape().slots + 1) + streams_.size() + 3;
  stream.tcp = std::make_unique<SocketStream>(std::move(fd), static_cast<FrameSink&>(*this), number, frames);
  stream.pace.reset();
  enter(stream, StreamState::kAttached);
  if (Status watched = stream.tcp->watch(); !watched.ok()) return fail(watched);
  if (options_.rank > options_.peer)
    stream.tcp->enqueue({.bytes = 0, .channel = 0, .kind = FrameKind::kReady}, nullptr);
  stream.mine = states();
  const auto state = std::as_bytes(std::span(stream.mine));
  stream.tcp->enqueue({.bytes = static_cast<uint32_t>(state.size()), .channel = 0, .kind = FrameKind::kState},
                      state.data());
}

void SocketLink::enter(Stream& stream, StreamState next) {
  HORING_CHECK(mayFollow(stream.state, next));
  if (stream.state == StreamState::kMissing) --missing_streams_;
  if (next == StreamState::kMissing) ++missing_streams_;
  stream.state = next;
  established_ = established_ || complete();
}

std::vector<ChannelState> SocketLink::states() const {
  std::vector<ChannelState> out;
  for (const auto& channel : channels_) out.push_back(channel->receiver.state());
  return out;
}

bool SocketLink::hasAnotherWay(size_t stream) const {
  for (size_t i = 0; i < streams_.size(); ++i)
    if (i != stream && isOpen(i) && !streams_[i].tcp->ended()) return true;
  return false;
}

bool SocketLink::answersElsewhere(size_t stream, int64_t within_ms) const {
  for (size_t i = 0; i < streams_.size(); ++i)
    if (i != stream && isOpen(i) && streams_[i].tcp->silentMs() < within_ms) return true;
  return false;
}

// Messages wait for the peer's state.
void SocketLink::giveUp(size_t number) {
  Stream& stream = streams_[number];
  if (isGivenUp(number)) return;
  if (stream.tcp) drop(number);
  enter(stream, StreamState::kGivenUp);
  stream.told.resize(streams_.size());
  for (size_t carrier = 0; carrier < streams_.size(); ++carrier)
    if (isOpen(carrier)) tellGivenUp(number, carrier);
}

// Sent on every stream, since a stream that breaks might lose it, and again on a stream that reopens. A second one changes nothing.
void SocketLink::tellGivenUp(size_t number, size_t carrier) {
  std::vector<ChannelState>& state = streams_[number].told[carrier];
  state = states();
  const auto bytes = std::as_bytes(std::span(state));
  streams_[carrier].tcp->enqueue({.bytes = static_cast<uint32_t>(bytes.size()),
                                  .channel = 0,
                                  .kind = FrameKind::kGivenUp,
                                  .tag = number},
                                 bytes.data());
}

// Discards the state of a broken connection: a partial message does not count, and bytes that the kernel had taken may be lost.
void SocketLink::drop(size_t number) {
  Stream& stream = streams_[number];
  if (const FrameHeader* half = stream.tcp->incompleteFrame(); half && half->kind == FrameKind::kData)
    channels_[half->channel]->receiver.cancel(half->sequence);
  for (size_t i = 0; i < stream.tcp->queuedFrames(); ++i) {
    const FrameHeader& unsent = stream.tcp->queuedFrame(i);
    if (unsent.kind == FrameKind::kCredit) channels_[unsent.channel]->receiver.creditFrameSent();
  }
  for (auto& channel : channels_) {
    channel->sender.streamBroke(number);
    channel->receiver.creditsLost();
  }
  credits_owed_ = true;
  stream.tcp->breakOff();
  stream.tcp.reset();
  stream.said_goodbye = false;
  enter(stream, StreamState::kMissing);
}

void SocketLink::progress(Effort effort) {
  if (!status_.ok() || departed_) return;
  const bool thorough = effort == Effort::kThorough;
  for (Stream& stream : streams_)
    if (stream.tcp && stream.tcp->hasInput()) stream.tcp->receive(thorough ? SIZE_MAX : kReadBudgetBytes);
  if (credits_owed_) queueCredits(effort);
  bool ended = false;
  for (Stream& stream : streams_) {
    if (!stream.tcp) continue;
    if (!stream.tcp->queueEmpty()) stream.tcp->flush();
    // After a failed write, what the peer sent last must still be read.
    if (thorough && stream.tcp->hasInput()) stream.tcp->receive(SIZE_MAX);
    ended = ended || stream.tcp->ended();
  }
  if (ended) judgeEndedStreams();
}

// A goodbye does not get through while the kernel's buffers are full of data that this rank has not read, and the peer does not
// wait for ever. So if the peer's death would be reported, the end of all streams without a goodbye is no failure either until
// something is needed. The end of one stream alone was caused by the network.
bool SocketLink::deathsAreTold() const {
  return options_.deaths_are_told && options_.deaths_are_told();
}

bool SocketLink::hasLeft(const Stream& stream) const {
  if (!stream.tcp) return false;
  const auto ended = [](const Stream& each) { return !each.isWanted() || (each.tcp && each.tcp->ended()); };
  return stream.tcp->saidGoodbye() || (stream.tcp->closedByPeer() && deathsAreTold() &&
                                       std::all_of(streams_.begin(), streams_.end(), ended));
}

void SocketLink::judgeEndedStreams() {
  if (!status_.ok()) return;
  bool all_left = true;
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (!stream.isWanted()) continue;
    all_left = all_left && hasLeft(stream);
    if (!stream.tcp || !stream.tcp->ended() || hasLeft(stream)) continue;
    if (stream.tcp->closedByPeer() && !deathsAreTold())
      return fail(
          makeStatus(Code::kRemoteError,
                     "rank %d lost the connection to rank %d (socket %s): %s; the process on that rank has "
                     "probably died: look at its output",
                     options_.rank, options_.peer, streamName(i).c_str(), stream.tcp->whyEnded().c_str()));
    stream.why_broken = stream.tcp->whyEnded();
    stream.obstacle = stream.why_broken;
    drop(i);
  }
  for (const Stream& stream : streams_)
    if (stream.isWanted()) all_left = all_left && stream.tcp->ended();
  departed_ = all_left;
  for (size_t channel = 0; departed_ && channel < channels_.size(); ++channel)
    if (!channels_[channel]->sender.flushed()) failDeparted(static_cast<int>(channel));
}

void SocketLink::failDeparted(int channel) {
  const bool said_goodbye = std::all_of(streams_.begin(), streams_.end(), [](const Stream& stream) {
    return !stream.isWanted() || (stream.tcp && stream.tcp->saidGoodbye());
  });
  fail(makeStatus(Code::kRemoteError, "rank %d %s while rank %d still needs it on channel %d (socket %s)",
                  options_.peer,
                  said_goodbye ? "left (it destroyed or aborted its communicator)"
                               : "ended the connection without a goodbye (it has died, or left)",
                  options_.rank, channel, options_.stream_names.front().c_str()));
}

void SocketLink::checkAlive(int64_t silence_ms, int64_t path_silence_ms) {
  constexpr int kPathProbes = 2;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (!streams_[i].tcp) continue;
    const bool is_path = answersElsewhere(i, kAnsweringMs);
    streams_[i].tcp->checkAlive({is_path ? path_silence_ms : silence_ms, is_path ? kPathProbes : kKeepCount});
  }
}

void SocketLink::fail(Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  for (Stream& stream : streams_)
    if (stream.tcp) stream.tcp->abandon();
}

bool SocketLink::flushed() const {
  for (const auto& channel : channels_)
    if (!channel->sender.flushed() || !channel->receiver.flushed()) return false;
  return true;
}

bool SocketLink::leave() {
  if (!status_.ok() || departed_ || !established()) return true;
  // Without a goodbye the peer would take the end of the stream for the death of this process.
  if (!complete()) return false;
  bool arrived = true;
  for (Stream& stream : streams_) {
    if (!stream.tcp) continue;
    // Messages to send again are queued when the stream opens.
    const bool nothing_left = stream.tcp->queueEmpty() && (stream.isOpen() || flushed());
    if (!stream.said_goodbye && !stream.tcp->ended() && nothing_left) {
      stream.tcp->enqueue({.bytes = 0, .channel = 0, .kind = FrameKind::kGoodbye}, nullptr);
      stream.tcp->flush();
      stream.said_goodbye = true;
    }
    arrived =
        arrived && (stream.said_goodbye || stream.tcp->ended()) && stream.tcp->unacknowledgedBytes() == 0;
  }
  return arrived;
}

// While a stream is missing, the others take its messages.
size_t SocketLink::leastBusyStream() const {
  const auto grade = [&](size_t stream) { return isOpen(stream) ? 2 : wants(stream) ? 1 : 0; };
  size_t best = turn_ % used_streams_;
  for (size_t i = 1; i < used_streams_; ++i) {
    const size_t other = (turn_ + i) % used_streams_;
    const bool better = streams_[other].under_way < streams_[best].under_way;
    if (grade(other) == grade(best) ? better : grade(other) > grade(best)) best = other;
  }
  return best;
}

size_t SocketLink::chooseStream(uint32_t bytes) {
  const size_t index = used_streams_ > 1 ? bestStream(bytes) : 0;
  streams_[index].under_way += bytes;
  return index;
}

size_t SocketLink::bestStream(uint32_t bytes) {
  const bool looks = bytes >= kPacedBytes || paces_differ_;
  const int64_t now_ns = looks ? SteadyClock().nowNs() : 0;
  if (looks) lookAtPaces(now_ns);
  const size_t index = paces_differ_ ? firstToFinish(bytes, now_ns) : leastBusyStream();
  turn_ = index + 1;
  streams_[index].pace.posted(bytes);
  return index;
}

// A stream that is given up counts no more; while one is missing, streams take turns.
void SocketLink::lookAtPaces(int64_t now_ns) {
  bool all_known = true;
  double fastest = 0, slowest = 0;
  for (size_t i = 0; i < used_streams_; ++i) {
    if (!wants(i)) continue;
    StreamPace& pace = streams_[i].pace;
    if (isOpen(i) && now_ns - pace.lookedAtNs() >= kLookEveryNs) {
      const SocketStream& tcp = *streams_[i].tcp;
      pace.look(tcp.queuedBytes(), tcp.counts(), now_ns);
    }
    all_known = all_known && isOpen(i) && pace.nsPerByte() > 0;
    fastest = fastest > 0 ? std::min(fastest, pace.nsPerByte()) : pace.nsPerByte();
    slowest = std::max(slowest, pace.nsPerByte());
  }
  paces_differ_ = all_known && slowest > kUnequal * fastest;
}

size_t SocketLink::firstToFinish(uint32_t bytes, int64_t now_ns) const {
  size_t best = used_streams_;
  double best_ns = 0;
  for (size_t i = 0; i < used_streams_; ++i) {
    if (!wants(i)) continue;
    const double ns = streams_[i].pace.finishesInNs(bytes, now_ns);
    if (best < used_streams_ && ns >= best_ns) continue;
    best = i;
    best_ns = ns;
  }
  return best;
}

void SocketLink::sendMessage(size_t number, const FrameHeader& header, const std::byte* payload) {
  // After an error nothing moves; the caller learns of it from status().
  if (!status_.ok()) return;
  if (departed_) return failDeparted(header.channel);
  // Otherwise it is queued when the stream opens.
  if (!isOpen(number)) return;
  SocketStream& stream = *streams_[number].tcp;
  stream.enqueue(header, payload);
  if (stream.queuedBytes() >= kEagerBytes) stream.flush();
}

SocketStream* SocketLink::creditStream(size_t channel) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    const size_t stream = (channel + i) % streams_.size();
    if (isOpen(stream)) return streams_[stream].tcp.get();
  }
  return nullptr;
}

bool SocketLink::withdraw(const Region& region) {
  bool moved = false;
  for (const auto& channel : channels_) {
    moved |= channel->sender.withdraw(region);
    moved |= channel->receiver.withdraw(region);
  }
  return moved;
}

// A program may have protected its memory to see accesses by its own code, which the kernel's would not show: copy by code from now
// on.
bool SocketLink::leaveLentMemory() {
  bool moved = false;
  options_.lent->forEach([&](const Region& region) { moved |= withdraw(region); });
  return moved;
}

void SocketLink::payloadMoved(size_t number, const FrameHeader& header, const std::byte* payload) {
  if (SocketStream* const stream = streams_[number].tcp.get()) stream->payloadMoved(header, payload);
}

void SocketLink::restComesTo(int channel, uint64_t sequence, std::byte* payload) {
  for (Stream& stream : streams_) {
    const FrameHeader* const half = stream.tcp ? stream.tcp->incompleteFrame() : nullptr;
    if (half && half->kind == FrameKind::kData && half->channel == channel && half->sequence == sequence)
      stream.tcp->restComesTo(payload);
  }
}

void SocketLink::failLanding(const FrameHeader& message) {
  broken(message, "a message that overwrites another");
}

// A frame for credits alone is sent only when the peer may soon wait for them, or when this rank is idle; otherwise they wait for a
// message of the same channel.
void SocketLink::queueCredits(Effort effort) {
  credits_owed_ = false;
  for (size_t channel = 0; channel < channels_.size(); ++channel) {
    SocketReceiver& receiver = channels_[channel]->receiver;
    const uint64_t owed = receiver.released() - receiver.creditSent();
    if (owed == 0) continue;
    SocketStream* const stream = creditStream(channel);
    if (!stream || (effort == Effort::kNormal && owed * 2 < shape().slots)) {
      credits_owed_ = true;
      continue;
    }
    if (!receiver.claimCreditFrame()) continue;
    stream->enqueue({.bytes = 0, .channel = static_cast<uint16_t>(channel), .kind = FrameKind::kCredit},
                    nullptr);
  }
}

std::byte* SocketLink::broken(const FrameHeader& header, const char* why) {
  fail(makeStatus(
      Code::kRemoteError,
      "rank %d violated the protocol in a message to rank %d (socket %s): %s (kind %u, channel %u, %u bytes, "
      "message %llu, credit %llu); this is a bug of horing or memory that was overwritten",
      options_.peer, options_.rank, options_.stream_names.front().c_str(), why,
      static_cast<unsigned>(header.kind), header.channel, header.bytes,
      static_cast<unsigned long long>(header.sequence), static_cast<unsigned long long>(header.credit)));
  return nullptr;
}

std::byte* SocketLink::beginFrame(size_t number, const FrameHeader& header) {
  if (header.channel >= channels_.size()) return broken(header, "no such channel");
  Stream& stream = streams_[number];
  if (header.kind == FrameKind::kState) return beginState(stream, header);
  if (!stream.isOpen()) return broken(header, "a frame before the peer's state");
  Channel& channel = *channels_[header.channel];
  if (!channel.sender.takeCredit(header.credit))
    return broken(header, "more messages acknowledged than were sent");
  if (header.kind == FrameKind::kGivenUp) return beginGivenUp(number, header);
  if (header.kind == FrameKind::kData) {
    if (header.bytes > shape().slot_bytes) return broken(header, "a message larger than a slot");
    std::byte* const place = channel.receiver.reserve(header);
    return place ? place : broken(header, "a message out of order");
  }
  if (header.bytes != 0) return broken(header, "a payload in a frame that has none");
  if (header.kind != FrameKind::kCredit && header.kind != FrameKind::kGoodbye)
    return broken(header, "unknown kind of frame");
  return slots_.get();
}

std::byte* SocketLink::beginState(Stream& stream, const FrameHeader& header) {
  if (stream.isOpen()) return broken(header, "a second state of the stream");
  if (header.bytes != channels_.size() * sizeof(ChannelState))
    return broken(header, "a state of another number of channels");
  stream.theirs.resize(channels_.size());
  return std::as_writable_bytes(std::span(stream.theirs)).data();
}

std::byte* SocketLink::beginGivenUp(size_t carrier, const FrameHeader& header) {
  if (header.tag >= streams_.size() || header.tag == carrier || isGivenUp(carrier))
    return broken(header, "it gives up a stream that does not exist");
  if (header.bytes != channels_.size() * sizeof(ChannelState))
    return broken(header, "a state of another number of channels");
  Stream& by = streams_[carrier];
  by.theirs.resize(channels_.size());
  return std::as_writable_bytes(std::span(by.theirs)).data();
}

void SocketLink::endGivenUp(size_t carrier, const FrameHeader& header) {
  giveUp(header.tag);
  for (size_t channel = 0; channel < channels_.size(); ++channel) {
    if (channels_[channel]->sender.streamGivenUp(header.tag, streams_[carrier].theirs[channel])) continue;
    broken(header, "a state with messages that were not sent");
    return;
  }
}

void SocketLink::endState(size_t number, const FrameHeader& header) {
  for (size_t channel = 0; channel < channels_.size(); ++channel) {
    if (channels_[channel]->sender.streamBegan(number, streams_[number].theirs[channel])) continue;
    broken(header, "a state with messages that were not sent");
    return;
  }
  enter(streams_[number], StreamState::kOpen);
  for (size_t stream = 0; stream < streams_.size(); ++stream)
    if (isGivenUp(stream)) tellGivenUp(stream, number);
}

void SocketLink::endFrame(size_t stream, const FrameHeader& header) {
  if (header.kind == FrameKind::kData) channels_[header.channel]->receiver.arrived(header.sequence);
  if (header.kind == FrameKind::kState) endState(stream, header);
  if (header.kind == FrameKind::kGivenUp) endGivenUp(stream, header);
}

uint64_t SocketLink::creditOf(uint16_t channel) {
  return channels_[channel]->receiver.released();
}

void SocketLink::frameSent(size_t number, const FrameHeader& header) {
  if (header.kind == FrameKind::kReady) return;
  if (header.kind == FrameKind::kState) {
    for (size_t channel = 0; channel < channels_.size(); ++channel)
      channels_[channel]->receiver.noteCreditSent(streams_[number].mine[channel].released);
    return;
  }
  Channel& channel = *channels_[header.channel];
  channel.receiver.noteCreditSent(header.credit);
  if (header.kind == FrameKind::kData) channel.sender.frameSent(header.sequence);
  if (header.kind == FrameKind::kCredit) channel.receiver.creditFrameSent();
  // A credit may have been released between queueing and sending this frame.
  if (channel.receiver.released() != channel.receiver.creditSent()) credits_owed_ = true;
}

}  // namespace horing::tcp
