#include "engine/cuda/plan_image.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "engine/host/plan.h"
#include "schedule/layout.h"

namespace horing::cuda {

namespace {

// A block runs fewer steps as fast in sequence, since a crew of a few warps moves less at once. Estimated, not measured.
constexpr int32_t kWorthCrews = 3;

// Determines which steps of a lane run concurrently, and which need a barrier before.
class LaneOrder {
 public:
  explicit LaneOrder(ImageLane& lane) : lane_(lane) {}

  void set() {
    for (size_t step = 0; step < lane_.steps.size();) {
      const size_t count = findConcurrent(step);
      findBarrier(step, count);
      step += count;
    }
  }

 private:
  // Marks as many concurrent steps from `first` on as possible; returns their number, at least one.
  size_t findConcurrent(size_t first) {
    size_t last = first + 1;
    while (last < lane_.steps.size() && last - first < kMaxConcurrentSteps && isApart(first, last)) ++last;
    const size_t count = last - first;
    if (count < kWorthCrews) return 1;
    step(first).concurrent_steps = static_cast<int32_t>(count);
    // In sequence, later steps need not repeat the first step's wait; concurrent steps must each wait.
    for (size_t s = first + 1; s < last; ++s) {
      step(s).wait_lane = step(first).wait_lane;
      step(s).wait_step = step(first).wait_step;
      step(s).wait_step_count = step(first).wait_step_count;
    }
    return count;
  }

  // Crews use other threads than the whole block, and end with a barrier.
  void findBarrier(size_t first, size_t count) {
    constexpr int32_t kLast = -1;  // otherwise the number of the source
    if (count > 1) {
      step(first).needs_barrier = !user_of_port_.empty();
      user_of_port_.clear();
      return;
    }
    std::map<int32_t, int32_t> users;
    const ImageStep& own = step(first);
    for (int32_t s = 0; s < own.source_count; ++s)
      if (const int32_t port = portOf(sourceOf(own, s)); port >= 0) users[port] = s;
    for (const int32_t port : {own.keep_port, own.send_port})
      if (port >= 0) users[port] = kLast;
    for (const auto& [port, user] : users)
      if (const auto before = user_of_port_.find(port); before != user_of_port_.end())
        step(first).needs_barrier |= before->second != user;
    if (own.needs_barrier) user_of_port_.clear();
    for (const auto& [port, user] : users) user_of_port_[port] = user;
  }

  // Whether step `next` may run concurrently with all of [first, next).
  bool isApart(size_t first, size_t next) {
    if (!isCopy(step(first)) || !isCopy(step(next)) || step(next).wait_lane >= 0) return false;
    for (size_t s = first; s < next; ++s)
      if (touchSame(step(s), step(next))) return false;
    return true;
  }

  // A copy to the output, to a peer or to both, which a crew can do; no other lane waits for it.
  bool isCopy(const ImageStep& step) const {
    return step.source_count == 1 && sourceOf(step, 0).kind != Source::Kind::kPeerIn &&
           !step.keeps_every_out && step.keep_port < 0 && !step.is_awaited;
  }

  // Input and output may be one buffer, in which a chunk has one place (Contract::aliases()).
  bool touchSame(const ImageStep& a, const ImageStep& b) const {
    if (a.chunk == b.chunk && (a.keeps_out || b.keeps_out)) return true;
    const auto uses = [&](int32_t port) {
      return port >= 0 && (port == a.send_port || port == portOf(sourceOf(a, 0)));
    };
    return uses(b.send_port) || uses(portOf(sourceOf(b, 0)));
  }
  static int32_t portOf(const ImageSource& source) { return source.takesPort() ? source.index : -1; }
  const ImageSource& sourceOf(const ImageStep& step, int32_t s) const {
    return lane_.sources[static_cast<size_t>(step.first_source + s)];
  }
  ImageStep& step(size_t number) { return lane_.steps[number]; }

  ImageLane& lane_;
  std::map<int32_t, int32_t> user_of_port_;  // since the last barrier
};

class ImageMaker {
 public:
  ImageMaker(const Schedule& schedule, std::span<const int32_t> rank_of_position,
             std::span<const int32_t> block_of_position)
      : schedule_(schedule),
        blocks_(blocksOf(schedule)),
        orders_{inParts(rank_of_position),
                inParts(block_of_position.empty() ? rank_of_position : block_of_position)} {
    int32_t kept = 0;
    for (const Lane& lane : schedule.lanes) kept_lanes_.push_back(lane.isSignals() ? -1 : kept++);
  }

  PlanImage make() && {
    for (size_t lane = 0; lane < schedule_.lanes.size(); ++lane)
      if (kept_lanes_[lane] >= 0) addLane(lane);
    for (ImageLane& lane : image_.lanes)
      for (ImageStep& step : lane.steps) joinLanes(step);
    for (ImageLane& lane : image_.lanes) LaneOrder(lane).set();
    image_.blocks = blocks_;
    if (const Rails& rails = schedule_.rails)
      image_.widest_part = isCutAtWill(schedule_.collective) ? rails.largestPartOfRow(BlockPart::kWhole, 1)
                                                             : rails.largestPartOfBlock(BlockPart::kWhole, 1);
    return std::move(image_);
  }

 private:
  static size_t blocksOf(const Schedule& schedule) {
    if (!isCutAtWill(schedule.collective)) return 1;
    return static_cast<size_t>(schedule.rails ? schedule.grid.rows : schedule.grid.chunks());
  }

  // A layout with blocks of kWhole elements.
  Layout inParts(std::span<const int32_t> block_of_position) const {
    const Extent extent{.count = blocks_ * BlockPart::kWhole};
    return Layout::make(schedule_, extent, block_of_position.data(), 1);
  }

  void joinLanes(ImageStep& step) {
    if (step.wait_lane < 0) return;
    ImageLane& other = image_.lanes[static_cast<size_t>(step.wait_lane)];
    step.wait_step_count = static_cast<int32_t>(other.steps.size());
    HORING_CHECK_LT(step.wait_step, step.wait_step_count);
    other.steps[static_cast<size_t>(step.wait_step)].is_awaited = true;
  }

  void addLane(size_t number) {
    image_.lanes.emplace_back();
    for (StepCursor cursor(schedule_.lanes[number], schedule_.grid); !cursor.done(); cursor.next())
      addStep(number, cursor);
  }

  void addStep(size_t lane, const StepCursor& cursor) {
    const Step& from = cursor.step();
    ImageStep step;
    step.chunk = cursor.chunk();
    for (size_t order = 0; order < ImageStep::kOrders; ++order) {
      const Layout::Place place = orders_[order].placeOf(step.chunk);
      step.input_block[order] = static_cast<int32_t>(place.input / BlockPart::kWhole);
      step.output_block[order] = static_cast<int32_t>(place.output / BlockPart::kWhole);
      const size_t begin = place.input % BlockPart::kWhole;
      step.of_block = {static_cast<uint16_t>(begin), static_cast<uint16_t>(begin + place.count)};
    }
    step.first_source = static_cast<int32_t>(own().sources.size());
    step.source_count = static_cast<int32_t>(from.sources.size());
    for (const Source& source : from.sources) {
      own().sources.push_back({source.kind, sourceIndex(lane, source)});
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
    own().steps.push_back(step);
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
    std::vector<PortName>& ports = own().ports;
    const auto found = std::find(ports.begin(), ports.end(), name);
    const auto number = static_cast<int32_t>(found - ports.begin());
    if (found == ports.end()) {
      // Each connection and scratch queue end belongs to one lane.
      for (const ImageLane& lane : image_.lanes)
        HORING_CHECK(std::find(lane.ports.begin(), lane.ports.end(), name) == lane.ports.end());
      ports.push_back(name);
    }
    return number;
  }
  // The current lane.
  ImageLane& own() { return image_.lanes.back(); }

  const Schedule& schedule_;
  const size_t blocks_;
  const Layout orders_[ImageStep::kOrders];
  std::vector<int32_t> kept_lanes_;  // the number of each lane in the image; -1: none
  PlanImage image_;
};

}  // namespace

PlanImage PlanImage::make(const Schedule& schedule, std::span<const int32_t> rank_of_position,
                          std::span<const int32_t> block_of_position) {
  return ImageMaker(schedule, rank_of_position, block_of_position).make();
}

}  // namespace horing::cuda
