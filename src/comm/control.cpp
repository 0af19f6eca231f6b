#include "comm/control.h"

#include <sys/socket.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "comm/control_messages.h"
#include "comm/root_connection.h"
#include "comm/root_service.h"

namespace horing {

namespace {

// The rendezvous ends an exchange at the deadline and names who is missing; it gets this long to say so.
constexpr int64_t kVerdictMs = 2000;
constexpr int64_t kGoodbyeMs = 1000;
constexpr int kPollMs = 1000;

SharedMessage shared(const RankMessage& message) {
  return std::make_shared<const std::vector<std::byte>>(encodeMessage(message));
}

class JoinedControl final : public Control {
 public:
  JoinedControl(const JoinOptions& options, std::string where, std::unique_ptr<ControlChannel> channel)
      : options_(options), where_(std::move(where)), channel_(std::move(channel)) {
    channel_->allowMessageBytes(maxRootMessageBytes(std::clamp(options.ranks, 1, kMaxRanks)));
  }

  Status arrive(Deadline deadline);

  int rank() const override { return options_.rank; }
  int ranks() const override { return options_.ranks; }
  Result<std::vector<std::vector<std::byte>>> allGather(std::span<const std::byte> mine,
                                                        Deadline deadline) override;
  Status poll() override;
  const Status& status() const override { return status_; }
  int fd() const override { return root_closed_ || !status_.ok() ? -1 : channel_->fd(); }
  int failedRank() const override { return failed_rank_; }
  void announceError(const Status& error) override;
  void leave() override;
  std::string describeRank(int rank) const override;

 private:
  Status fail(Status status);
  Status judgeChannel(const Status& moved);
  Status readMessages();
  Status handle(RootMessage message);
  Status handleWelcome(WelcomeMessage& welcome);
  Status handleGathered(GatheredMessage& gathered);
  template <typename Predicate>
  Status waitUntil(Deadline deadline, const char* what, Predicate done);
  std::string rootName() const;

  JoinOptions options_;
  std::string where_;
  std::unique_ptr<ControlChannel> channel_;
  Status status_;
  int failed_rank_ = -1;
  bool announced_ = false;
  bool left_ = false;
  bool root_closed_ = false;

  std::optional<WelcomeMessage> welcome_;
  uint64_t exchange_ = 1;  // the next one
  std::optional<std::vector<std::vector<std::byte>>> gathered_;
};

std::string JoinedControl::rootName() const {
  if (!welcome_) return "the process that hosts the rendezvous at " + where_ + " (under a launcher rank 0)";
  const std::string process = welcome_->host.toString();
  return welcome_->host_rank >= 0
             ? formatString("rank %d's process (%s), which hosts the rendezvous,", welcome_->host_rank,
                            process.c_str())
             : formatString("the process (%s) that hosts the rendezvous", process.c_str());
}

std::string JoinedControl::describeRank(int rank) const {
  if (!welcome_ || rank < 0 || rank >= options_.ranks) return formatString("rank %d", rank);
  return formatString("rank %d (%s)", rank, welcome_->ranks[static_cast<size_t>(rank)].toString().c_str());
}

Status JoinedControl::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
  return status_;
}

// What a broken channel means, once its last messages have been read.
Status JoinedControl::judgeChannel(const Status& moved) {
  if (moved.ok() || root_closed_ || !status_.ok()) return status_;
  if (welcome_) failed_rank_ = welcome_->host_rank;
  if (channel_->closed())
    return fail(
        makeStatus(Code::kRemoteError, "%s is lost: it ended, or the network to it did", rootName().c_str()));
  return fail(makeStatus(Code::kRemoteError, "%s sent what cannot be trusted: %s", rootName().c_str(),
                         moved.message().c_str()));
}

Status JoinedControl::readMessages() {
  while (const std::optional<std::vector<std::byte>> bytes = channel_->receive()) {
    Result<RootMessage> message = decodeRootMessage(*bytes);
    if (!message.ok())
      return fail(
          makeStatus(Code::kRemoteError, "%s: %s", rootName().c_str(), message.status().message().c_str()));
    HORING_TRY(handle(message.take()));
  }
  return status_;
}

Status JoinedControl::handle(RootMessage message) {
  if (WelcomeMessage* welcome = std::get_if<WelcomeMessage>(&message)) return handleWelcome(*welcome);
  if (GatheredMessage* gathered = std::get_if<GatheredMessage>(&message)) return handleGathered(*gathered);
  if (const FailureMessage* failure = std::get_if<FailureMessage>(&message)) {
    if (status_.ok()) failed_rank_ = failure->rank < options_.ranks ? failure->rank : -1;
    return fail(Status(failure->code, failure->reason));
  }
  root_closed_ = true;
  return {};
}

Status JoinedControl::handleWelcome(WelcomeMessage& welcome) {
  if (welcome_ || welcome.ranks.size() != static_cast<size_t>(options_.ranks) ||
      welcome.host_rank >= options_.ranks)
    return fail(makeStatus(Code::kRemoteError, "%s sent a welcome for %zu ranks", rootName().c_str(),
                           welcome.ranks.size()));
  welcome_ = std::move(welcome);
  return {};
}

Status JoinedControl::handleGathered(GatheredMessage& gathered) {
  if (gathered_ || gathered.exchange + 1 != exchange_ ||
      gathered.parts.size() != static_cast<size_t>(options_.ranks))
    return fail(makeStatus(Code::kRemoteError, "%s sent exchange %llu of %zu parts", rootName().c_str(),
                           static_cast<unsigned long long>(gathered.exchange), gathered.parts.size()));
  gathered_ = std::move(gathered.parts);
  return {};
}

template <typename Predicate>
Status JoinedControl::waitUntil(Deadline deadline, const char* what, Predicate done) {
  const Patience patience{Deadline::after(*options_.clock, deadline.remainingMs() + kVerdictMs),
                          options_.abort};
  while (true) {
    const Status moved = waitAndProgress(*channel_, patience, kPollMs);
    HORING_TRY(readMessages());
    if (done()) return {};
    // Only now: what was waited for and the closing may arrive together.
    if (root_closed_)
      return fail(makeStatus(Code::kRemoteError, "%s closed it while rank %d waited for %s",
                             rootName().c_str(), options_.rank, what));
    HORING_TRY(judgeChannel(moved));
    if (patience.aborted())
      return fail(
          makeStatus(Code::kInvalidUsage, "rank %d was aborted while it waited for %s", options_.rank, what));
    if (patience.over())
      return fail(makeStatus(Code::kTimeout, "rank %d waited in vain for %s: %s does not answer",
                             options_.rank, what, rootName().c_str()));
  }
}

Status JoinedControl::arrive(Deadline deadline) {
  const auto timeout_ms = static_cast<uint32_t>(deadline.remainingMs());
  channel_->send(shared(HelloMessage{options_.rank, options_.ranks, timeout_ms, thisProcess()}));
  return waitUntil(deadline, "all ranks to arrive", [this] { return welcome_.has_value(); });
}

Result<std::vector<std::vector<std::byte>>> JoinedControl::allGather(std::span<const std::byte> mine,
                                                                     Deadline deadline) {
  HORING_TRY(poll());
  if (mine.size() > kMaxGatherBytes)
    return fail(makeStatus(Code::kInvalidArgument,
                           "rank %d gave %zu bytes to an exchange: at most %zu are possible", options_.rank,
                           mine.size(), kMaxGatherBytes));
  if (left_ || root_closed_)
    return fail(makeStatus(Code::kInvalidUsage, "rank %d began exchange %llu after %s", options_.rank,
                           static_cast<unsigned long long>(exchange_),
                           left_ ? "it had left" : "the rendezvous was closed"));
  channel_->send(shared(
      GatherMessage{exchange_, static_cast<uint32_t>(deadline.remainingMs()), {mine.begin(), mine.end()}}));
  ++exchange_;
  HORING_TRY(waitUntil(deadline, "an exchange with all ranks", [this] { return gathered_.has_value(); }));
  return std::exchange(gathered_, std::nullopt).value();
}

Status JoinedControl::poll() {
  if (!status_.ok() || root_closed_ || left_) return status_;
  const Status moved = channel_->progress();
  HORING_TRY(readMessages());
  return judgeChannel(moved);
}

void JoinedControl::announceError(const Status& error) {
  if (announced_ || left_ || error.ok()) return;
  announced_ = true;
  // What it learned from the others they know already.
  if (status_.ok()) {
    channel_->send(shared(AnnounceMessage{error.code(), error.message()}));
    [[maybe_unused]] const Status sent = channel_->flush();
  }
  if (status_.ok()) status_ = error;
}

void JoinedControl::leave() {
  if (left_) return;
  left_ = true;
  if (root_closed_ || channel_->closed()) return;
  channel_->send(shared(GoodbyeMessage{}));
  // The other end closes when it has read the goodbye; closing earlier could take the word back (TCP reset).
  const Patience patience{Deadline::after(*options_.clock, kGoodbyeMs), nullptr};
  while (!channel_->closed() && channel_->status().ok() && !patience.over()) {
    [[maybe_unused]] const Status moved = waitAndProgress(*channel_, patience, kPollMs);
  }
}

}  // namespace

Result<std::unique_ptr<Control>> Control::join(const JoinOptions& options) {
  HORING_CHECK(options.clock != nullptr);
  HORING_ASSIGN(const UniqueIdParts parts, decodeUniqueId(options.id));
  const Deadline deadline = Deadline::after(*options.clock, options.timeout_ms);
  Result<std::unique_ptr<ControlChannel>> channel =
      connectToRoot(parts, *options.clock, {deadline, options.abort});
  if (!channel.ok())
    return makeStatus(channel.status().code(), "rank %d: %s", options.rank,
                      channel.status().message().c_str());
  auto control = std::make_unique<JoinedControl>(options, parts.roots.front().toString(), channel.take());
  HORING_TRY(control->arrive(deadline));
  options.log.trace("control", "rank %d of %d has joined", options.rank, options.ranks);
  return std::unique_ptr<Control>(std::move(control));
}

}  // namespace horing
