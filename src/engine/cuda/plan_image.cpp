#include "engine/cuda/plan_image.h"

#include <algorithm>

#include "base/check.h"
#include "engine/host/plan.h"

namespace horing::cuda {

namespace {

class ImageMaker {
 public:
  explicit ImageMaker(const Schedule& schedule) : schedule_(schedule) {}

  PlanImage make() && {
    for (size_t lane = 0; lane < schedule_.lanes.size(); ++lane) addLane(lane);
    return std::move(image_);
  }

 private:
  void addLane(size_t number) {
    const Lane& lane = schedule_.lanes[number];
    const auto first = static_cast<int32_t>(image_.steps.size());
    for (StepCursor cursor(lane, schedule_.grid); !cursor.done(); cursor.next()) addStep(number, cursor);
    const auto end = static_cast<int32_t>(image_.steps.size());
    image_.lanes.push_back({first, end - first, lane.isSignals()});
  }

  void addStep(size_t lane, const StepCursor& cursor) {
    const Step& from = cursor.step();
    ImageStep step;
    step.chunk = cursor.chunk();
    step.first_source = static_cast<int32_t>(image_.sources.size());
    step.source_count = static_cast<int32_t>(from.sources.size());
    for (const Source& source : from.sources)
      image_.sources.push_back({source.kind, sourceIndex(lane, source)});
    HORING_CHECK(from.keep.kind != Keep::Kind::kEveryOut);  // only the host's engine has it
    step.keeps_out = keepsOut(from.keep);
    if (from.keep.kind == Keep::Kind::kScratch)
      step.keep_port = port({PortName::Kind::kScratchSend, -1, 0, from.keep.index});
    if (from.send_to >= 0) step.send_port = sendPort(lane, from.send_to);
    step.wait_lane = from.wait.lane;
    step.wait_step = cursor.waitStep();
    step.completes = from.completes;
    step.first_signal = static_cast<int32_t>(image_.signals.size());
    step.signal_count = static_cast<int32_t>(from.signal_to.size());
    for (const int32_t peer : from.signal_to) image_.signals.push_back(sendPort(lane, peer));
    image_.steps.push_back(step);
  }

  int32_t sourceIndex(size_t lane, const Source& source) {
    if (takesMessage(source))
      return port(
          {PortName::Kind::kReceive, source.index, channelOf(schedule_, lane, source.index, recvPeers), -1});
    if (source.kind == Source::Kind::kScratch)
      return port({PortName::Kind::kScratchReceive, -1, 0, source.index});
    return source.index;
  }
  int32_t sendPort(size_t lane, int32_t position) {
    return port({PortName::Kind::kSend, position, channelOf(schedule_, lane, position, sendPeers), -1});
  }

  int32_t port(const PortName& name) {
    const auto found = std::find(image_.ports.begin(), image_.ports.end(), name);
    const auto number = static_cast<int32_t>(found - image_.ports.begin());
    if (found == image_.ports.end()) image_.ports.push_back(name);
    return number;
  }

  const Schedule& schedule_;
  PlanImage image_;
};

}  // namespace

PlanImage PlanImage::make(const Schedule& schedule) {
  return ImageMaker(schedule).make();
}

}  // namespace horing::cuda
