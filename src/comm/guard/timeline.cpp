#include "comm/guard/timeline.h"

#include <time.h>

#include <algorithm>

#include "comm/guard/message_tracks.h"
#include "comm/guard/timeline_events.h"
#include "control/control_messages.h"
#include "control/flight_file.h"
#include "engine/host/driven.h"

namespace horing {

namespace {

constexpr uint16_t kCalls = 0;
constexpr uint16_t kSleep = 1;
constexpr uint16_t kFirstLane = 2;
constexpr uint16_t kKernels = UINT16_MAX;

int64_t wallNs() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

Timeline::Timeline(const Clock& clock, int rank)
    : clock_(clock), rank_(rank), to_wall_ns_(wallNs() - clock.nowNs()), spans_(kMaxSpans) {}

void Timeline::add(const Span& span) {
  const std::lock_guard lock(mutex_);
  spans_[added_++ % kMaxSpans] = span;
}

void Timeline::call(const FlightRecord& record) {
  add({record.begun_ns, record.ended_ns, record.sequence, 0, kCalls,
       static_cast<uint16_t>(record.collective)});
}

void Timeline::launch(const FlightRecord& record) {
  const int64_t begun_ns = std::max(record.begun_ns, launches_ended_ns_);
  launches_ended_ns_ = record.ended_ns;
  add({begun_ns, record.ended_ns, record.sequence, 0, kKernels, static_cast<uint16_t>(record.collective)});
}

void Timeline::slept(int64_t begun_ns) {
  add({begun_ns, clock_.nowNs(), 0, 0, kSleep, 0});
}

void Timeline::lanesBegin(const LaneSteps* operation) {
  lanes_.assign(operation ? operation->laneCount() : 0, {});
  most_lanes_ = std::max(most_lanes_, lanes_.size());
  const int64_t now_ns = clock_.nowNs();
  for (size_t lane = 0; lane < lanes_.size(); ++lane) lanes_[lane] = {operation->laneStep(lane), now_ns};
}

void Timeline::lanesWentOn(const LaneSteps* operation) {
  const int64_t now_ns = clock_.nowNs();
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    LanePlace& place = lanes_[lane];
    const int32_t step = operation->laneStep(lane);
    if (step == place.step) continue;
    add({place.since_ns, now_ns, 0, place.step, static_cast<uint16_t>(kFirstLane + lane), 0});
    place = {step, now_ns};
  }
}

std::string Timeline::spanJson(const Span& span) const {
  std::string name = span.track == kSleep ? "asleep" : formatString("step %d", span.step);
  if (span.track == kCalls || span.track == kKernels)
    name =
        formatString("%s %s#%llu", collectiveName(static_cast<Collective>(span.collective)),
                     span.track == kKernels ? "launch " : "", static_cast<unsigned long long>(span.sequence));
  return formatString(",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"dur\":%s}",
                      name.c_str(), rank_, span.track, microsecondsText(span.begun_ns + to_wall_ns_).c_str(),
                      microsecondsText(span.ended_ns - span.begun_ns).c_str());
}

std::string Timeline::toJson(const MessageRecorder& of_host, const MessageRecorder& of_kernels) const {
  std::string text = formatString(
      "[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d (%s)\"}}", rank_,
      rank_, jsonEscaped(thisProcess().toString()).c_str());
  text += trackNameEvent(rank_, kCalls, "calls") + trackNameEvent(rank_, kSleep, "sleep");
  for (size_t lane = 0; lane < most_lanes_; ++lane)
    text += trackNameEvent(rank_, kFirstLane + lane, formatString("lane %zu", lane));
  if (launches_ended_ns_ != 0) text += trackNameEvent(rank_, kKernels, "kernels");
  const size_t kept = std::min(added_, kMaxSpans);
  for (size_t i = added_ - kept; i < added_; ++i) text += spanJson(spans_[i % kMaxSpans]);
  text += MessageTracks{rank_, to_wall_ns_, clock_.nowNs()}.toJson(of_host, of_kernels);
  return text + "\n]\n";
}

}  // namespace horing
