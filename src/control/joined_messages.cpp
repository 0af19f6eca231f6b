// What a rank does with the messages of the rendezvous.
#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "control/joined_control.h"

namespace horing {

Status JoinedControl::handle(RootMessage message) {
  Status handled;
  std::visit(
      Overloaded{
          [&](WelcomeMessage& welcome) { handled = handleWelcome(welcome); },
          [&](GatheredMessage& gathered) { handled = handleGathered(gathered); },
          [&](const FailureMessage& failure) { handleFailure(failure); },
          [&](const ClosingMessage&) {
            note(ConnectionEvent::kClosing);
            has_news_.store(true, std::memory_order_release);
          },
          [&](const BeatEchoMessage& echo) {
            if (!journal_.acknowledge(echo.received))
              handled = fail(makeStatus(Code::kRemoteError, "%s acknowledged more messages than rank %d sent",
                                        rootName().c_str(), options_.rank));
          },
          [&](const CallInquiry& inquiry) { answer(inquiry); },
          [&](const ReturnedMessage& returned) { handled = handleReturned(returned); },
          [&](const StateInquiry& inquiry) { answer(inquiry); },
          [&](const PongMessage& pong) { answered_ = pong.number; },
          [&](const JobAnswer& answer) { answerVisitors(answer.lines); },
      },
      message);
  return handled;
}

void JoinedControl::handleFailure(const FailureMessage& failure) {
  if (failureIsUnknown()) announcement_ = Announcement::kNeedless;
  if (status_.ok()) failed_rank_ = failure.rank < options_.ranks ? failure.rank : -1;
  [[maybe_unused]] const Status failed = fail(Status(failure.code, failure.reason));
}

Status JoinedControl::handleWelcome(WelcomeMessage& welcome) {
  if (welcome_ || welcome.ranks.size() != static_cast<size_t>(options_.ranks) ||
      welcome.host_rank >= options_.ranks)
    return fail(makeStatus(Code::kRemoteError, "%s sent a welcome for %zu ranks", rootName().c_str(),
                           welcome.ranks.size()));
  welcome_ = std::move(welcome);
  return_to_ = peerEndpoint(channel_->fd());
  return_to_.port = welcome_->return_port;
  return {};
}

Status JoinedControl::handleReturned(const ReturnedMessage& returned) {
  if (!nextState(state_, ConnectionEvent::kTakenBack) || returned.received > journal_.sent())
    return fail(makeStatus(Code::kRemoteError, "%s answered rank %d's return with a wrong count of messages",
                           rootName().c_str(), options_.rank));
  if (!journal_.resend(returned.received, *channel_))
    return fail(makeStatus(
        Code::kRemoteError,
        "rank %d queued more than %zu messages while its connection to the rendezvous was broken, and "
        "cannot repeat all of them",
        options_.rank, kMaxJournal));
  note(ConnectionEvent::kTakenBack);
  if (answered_ < asked_) send(PingMessage{asked_});  // pings are not in the journal
  options_.log.info("control", "rank %d has returned to the rendezvous", options_.rank);
  // If the connection has broken again, progress() sees that next; it is not an error of the rendezvous.
  [[maybe_unused]] const Status flushed = channel_->flush();
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

void JoinedControl::answer(const CallInquiry& inquiry) {
  serves_until_ns_ = INT64_MAX;
  CallReport report;
  report.sequence = inquiry.sequence;
  if (calls_) report = (inquiry.sequence < kFirstLaunch ? calls_ : launches_)->report(inquiry.sequence);
  report.round = inquiry.round;
  send(report);
}

void JoinedControl::answer(const StateInquiry& inquiry) {
  serves_until_ns_ = INT64_MAX;
  RankState state;
  if (calls_) state = calls_->state(options_.clock->nowNs());
  state.round = inquiry.round;
  send(state);
}

}  // namespace horing
