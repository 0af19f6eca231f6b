#include "engine/cuda/plan_image.h"

#include <algorithm>

#include "base/check.h"
#include "engine/host/plan.h"

namespace horing::cuda {

namespace {

// Fewer steps a block does as fast one after the other: a crew of a few warps moves less of a slice at once. A guess.
constexpr int32_t kWorthCrews = 3;

class ImageMaker {
 public:
  explicit ImageMaker(const Schedule& schedule) : schedule_(schedule) {
    int32_t kept = 0;
    for (const Lane& lane : schedule.lanes) kept_lanes_.push_back(lane.isSignals() ? -1 : kept++);
  }

  PlanImage make() && {
    for (size_t lane = 0; lane < schedule_.lanes.size(); ++lane)
      if (kept_lanes_[lane] >= 0) addLane(lane);
    for (ImageStep& step : image_.steps) joinLanes(step);
    for (const ImageLane& lane : image_.lanes)
      for (int32_t step = lane.first_step; step < lane.first_step + lane.step_count;)
        step += findConcurrent(step, lane.first_step + lane.step_count);
    return std::move(image_);
  }

 private:
  void joinLanes(ImageStep& step) {
    if (step.wait_lane < 0) return;
    const ImageLane& other = image_.lanes[static_cast<size_t>(step.wait_lane)];
    step.wait_step_count = other.step_count;
    HORING_CHECK_LT(step.wait_step, other.step_count);
    image_.steps[static_cast<size_t>(other.first_step + step.wait_step)].is_awaited = true;
  }

  // Lets as many steps as it can run at once, from `first` on; says how many these are, one or more.
  int32_t findConcurrent(int32_t first, int32_t end) {
    int32_t last = first + 1;
    while (last < end && last - first < kMaxConcurrentSteps && isApart(first, last)) ++last;
    const int32_t count = last - first;
    if (count < kWorthCrews) return 1;
    step(first).concurrent_steps = count;
    // What the first has waited for, those behind it need not wait for again; but side by side each has to.
    for (int32_t s = first + 1; s < last; ++s) {
      step(s).wait_lane = step(first).wait_lane;
      step(s).wait_step = step(first).wait_step;
      step(s).wait_step_count = step(first).wait_step_count;
    }
    return count;
  }

  // Whether step `next` may run at once with all of [first, next).
  bool isApart(int32_t first, int32_t next) {
    if (!isCopy(step(first)) || !isCopy(step(next)) || step(next).wait_lane >= 0) return false;
    for (int32_t s = first; s < next; ++s)
      if (touchSame(step(s), step(next))) return false;
    return true;
  }

  // From one place to the output, to a peer or to both, which a crew does as well as a block; and no other lane looks at it.
  bool isCopy(const ImageStep& step) const {
    return step.source_count == 1 && sourceOf(step).kind != Source::Kind::kPeerIn && !step.keeps_every_out &&
           step.keep_port < 0 && !step.is_awaited;
  }

  // Input and output may be one buffer: then a chunk has one place in it (Contract::aliases()).
  bool touchSame(const ImageStep& a, const ImageStep& b) const {
    if (a.chunk == b.chunk && (a.keeps_out || b.keeps_out)) return true;
    const auto uses = [&](int32_t port) {
      return port >= 0 && (port == a.send_port || port == portOf(sourceOf(a)));
    };
    return uses(b.send_port) || uses(portOf(sourceOf(b)));
  }
  static int32_t portOf(const ImageSource& source) { return source.takesPort() ? source.index : -1; }
  const ImageSource& sourceOf(const ImageStep& step) const {
    return image_.sources[static_cast<size_t>(step.first_source)];
  }
  ImageStep& step(int32_t number) { return image_.steps[static_cast<size_t>(number)]; }

  void addLane(size_t number) {
    const Lane& lane = schedule_.lanes[number];
    const auto first = static_cast<int32_t>(image_.steps.size());
    first_port_ = static_cast<int32_t>(image_.ports.size());
    for (StepCursor cursor(lane, schedule_.grid); !cursor.done(); cursor.next()) addStep(number, cursor);
    const auto end = static_cast<int32_t>(image_.steps.size());
    const auto end_port = static_cast<int32_t>(image_.ports.size());
    image_.lanes.push_back({first, end - first, first_port_, end_port - first_port_,
                            static_cast<int32_t>(image_.sources.size())});
  }

  void addStep(size_t lane, const StepCursor& cursor) {
    const Step& from = cursor.step();
    ImageStep step;
    step.chunk = cursor.chunk();
    step.first_source = static_cast<int32_t>(image_.sources.size());
    step.source_count = static_cast<int32_t>(from.sources.size());
    for (const Source& source : from.sources) {
      image_.sources.push_back({source.kind, sourceIndex(lane, source)});
      image_.reaches_peers |= source.kind == Source::Kind::kPeerIn;
    }
    step.keeps_out = from.keep.kind == Keep::Kind::kOut;
    step.keeps_every_out = from.keep.kind == Keep::Kind::kEveryOut;
    image_.reaches_peers |= step.keeps_every_out;
    if (from.keep.kind == Keep::Kind::kScratch)
      step.keep_port = port({PortName::Kind::kScratchSend, -1, 0, from.keep.index});
    if (from.send_to >= 0) step.send_port = sendPort(lane, from.send_to);
    if (from.wait.lane >= 0) step.wait_lane = kept_lanes_[static_cast<size_t>(from.wait.lane)];
    step.wait_step = cursor.waitStep();
    step.completes = from.completes;
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
    HORING_CHECK_LE(first_port_, number);  // connections and ends of scratch queues have one lane each
    return number;
  }

  const Schedule& schedule_;
  int32_t first_port_ = 0;           // of the lane at hand
  std::vector<int32_t> kept_lanes_;  // the number of each in the image; -1: it has none
  PlanImage image_;
};

}  // namespace

PlanImage PlanImage::make(const Schedule& schedule) {
  return ImageMaker(schedule).make();
}

}  // namespace horing::cuda
