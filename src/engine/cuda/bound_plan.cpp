#include "engine/cuda/bound_plan.h"

#include <algorithm>

namespace horing::cuda {

namespace {

// Slices only help with messages; otherwise they cost barriers. Each further slice of a step costs a block as much time as some 100 KiB of
// data (H200, `interpreter` in bench/cuda/README.md), so slices are as large as slots, except in trees.
Slicing slicingFor(Collective collective, size_t largest, size_t element_bytes,
                   const BoundPlanSettings& settings, bool has_messages) {
  constexpr size_t kSmallestSliceOfTree = 32 << 10;
  if (!has_messages) return {std::max(largest, size_t{1})};
  if (collective != Collective::kBroadcast && collective != Collective::kReduce)
    return Slicing::fixed(element_bytes, settings.slot_bytes);
  return Slicing::choose(collective, largest, element_bytes, settings.slot_bytes, settings.window,
                         kSmallestSliceOfTree);
}

// Elements of a block, at the most; those of a vector that is cut freely begin at multiples of 64 bytes.
size_t largestBlock(Collective collective, size_t count, size_t blocks, size_t element_bytes) {
  if (!isCutAtWill(collective)) return count;
  const size_t alignment = 64 / element_bytes;
  return std::min(quotientUp(quotientUp(count, blocks), alignment) * alignment, count);
}

template <class T>
Result<T*> place(Memory& memory, const std::vector<T>& items) {
  return place(memory, std::span<const T>(items));
}

// An array with `most` entries for each lane.
template <class T>
std::vector<T> sideBySide(const std::vector<ImageLane>& lanes, std::vector<T> ImageLane::*items,
                          int32_t most) {
  std::vector<T> all(lanes.size() * static_cast<size_t>(most));
  for (size_t lane = 0; lane < lanes.size(); ++lane)
    std::copy((lanes[lane].*items).begin(), (lanes[lane].*items).end(),
              all.begin() + static_cast<ptrdiff_t>(lane) * most);
  return all;
}

template <class T>
int32_t mostOfALane(const std::vector<ImageLane>& lanes, std::vector<T> ImageLane::*items) {
  size_t most = 0;
  for (const ImageLane& lane : lanes) most = std::max(most, (lane.*items).size());
  return static_cast<int32_t>(most);
}

}  // namespace

Result<std::unique_ptr<BoundPlan>> BoundPlan::make(Schedule schedule, const BoundPlanSettings& settings,
                                                   std::span<const int32_t> rank_of_position,
                                                   std::span<const int32_t> block_of_position,
                                                   uint32_t* abort, Memory& memory, PortSource& ports) {
  const PlanImage image = PlanImage::make(schedule, rank_of_position, block_of_position);
  if (image.reaches_peers && (!settings.in_one_launch || schedule.ranks > kMaxCallsOfLaunch))
    return makeStatus(Code::kInvalidArgument,
                      "kernels can reach the buffers only of ranks that one launch serves, %d at most",
                      kMaxCallsOfLaunch);
  if (const int32_t most = mostOfALane(image.lanes, &ImageLane::ports); most > kMaxPortsOfLane)
    return makeStatus(Code::kInvalidUsage,
                      "a lane has %d queues, and a block keeps %d at most: too many peers", most,
                      kMaxPortsOfLane);
  std::unique_ptr<BoundPlan> plan(new BoundPlan(std::move(schedule), settings, memory));
  HORING_ASSIGN(plan->view_.rank_of_position, place(memory, rank_of_position));
  plan->has_own_order_ = !block_of_position.empty();
  plan->view_.abort = abort;
  HORING_TRY(plan->upload(image, ports));
  return plan;
}

// The sizes of the arrays that make() and upload() place.
BoundPlan::Needs BoundPlan::needsOf(const PlanImage& image, int32_t parts, int32_t ranks) {
  const auto most = [&](auto items) { return static_cast<size_t>(mostOfALane(image.lanes, items)); };
  const size_t lanes = image.lanes.size(), blocks = lanes * static_cast<size_t>(parts);
  const size_t sizes[] = {static_cast<size_t>(ranks) * sizeof(int32_t),
                          lanes * sizeof(int32_t),
                          lanes * most(&ImageLane::steps) * sizeof(ImageStep),
                          lanes * most(&ImageLane::sources) * sizeof(ImageSource),
                          blocks * sizeof(LaneRecord),
                          sizeof(Failure),
                          blocks * most(&ImageLane::ports) * sizeof(Port*)};
  Needs needs{0, blocks};
  for (const size_t size : sizes) needs.bytes += Memory::roomOf(std::max<size_t>(size, 1));
  return needs;
}

Status BoundPlan::upload(const PlanImage& image, PortSource& ports) {
  view_.lane_count = static_cast<int32_t>(image.lanes.size());
  view_.parts = settings_.parts;
  view_.ranks = schedule_.ranks;
  reaches_peers_ = image.reaches_peers;
  blocks_ = image.blocks;
  widest_part_ = image.widest_part;
  view_.window = settings_.window;
  view_.timeout_ns = settings_.timeout_ns;
  view_.hosts_carry = settings_.hosts_carry;
  view_.most_steps = mostOfALane(image.lanes, &ImageLane::steps);
  view_.most_sources = mostOfALane(image.lanes, &ImageLane::sources);
  std::vector<int32_t> step_counts;
  for (const ImageLane& lane : image.lanes) step_counts.push_back(static_cast<int32_t>(lane.steps.size()));
  HORING_ASSIGN(view_.step_counts, place(memory_, step_counts));
  HORING_ASSIGN(view_.steps, place(memory_, sideBySide(image.lanes, &ImageLane::steps, view_.most_steps)));
  HORING_ASSIGN(view_.sources,
                place(memory_, sideBySide(image.lanes, &ImageLane::sources, view_.most_sources)));
  const size_t records = image.lanes.size() * static_cast<size_t>(settings_.parts);
  HORING_ASSIGN(view_.records, place(memory_, std::vector<LaneRecord>(records)));
  HORING_ASSIGN(view_.failure, place(memory_, std::vector<Failure>(1)));
  HORING_ASSIGN(view_.activity, ports.activity(records));
  return uploadPorts(image, ports);
}

Status BoundPlan::uploadPorts(const PlanImage& image, PortSource& ports) {
  view_.most_ports = mostOfALane(image.lanes, &ImageLane::ports);
  const auto most = static_cast<size_t>(view_.most_ports);
  std::vector<Port*> all;
  for (int32_t part = 0; part < settings_.parts; ++part)
    for (const ImageLane& lane : image.lanes) {
      for (const PortName& name : lane.ports) {
        HORING_ASSIGN(all.emplace_back(), ports.port(name, part));
      }
      all.resize(all.size() + most - lane.ports.size());
    }
  HORING_ASSIGN(view_.ports, place(memory_, all));
  for (const ImageLane& lane : image.lanes) ports_of_lanes_.push_back(lane.ports);
  return {};
}

Result<LaneCall> BoundPlan::prepare(const Call& call) const {
  if (call.uneven || (call.block_of_position && !has_own_order_))
    return makeStatus(Code::kInvalidArgument,
                      "kernels have no tables for blocks of different sizes, or in this order");
  if (reaches_peers_ && call.op == RedOp::kPreMulSum)
    return makeStatus(Code::kInvalidArgument,
                      "each rank has a factor of its own, and one rank folds all inputs");
  LaneCall ready;
  const size_t element_bytes = dataTypeBytes(call.type);
  ready.plan = view_;
  ready.input = call.input;
  ready.output = call.output;
  const Collective collective = schedule_.collective;
  const size_t block = largestBlock(collective, call.count, blocks_, element_bytes);
  const size_t chunk = BlockPart::most(block, widest_part_);
  const PartCut cut{settings_.parts, settings_.smallest_part_bytes / element_bytes};
  ready.used_parts = cut.used(chunk);
  ready.sizes = {block, isCutAtWill(collective) ? call.count : SIZE_MAX, cut.sizeOf(chunk),
                 call.block_of_position ? 1 : 0, schedule_.rails ? ChunkSizes::inverse(ready.used_parts) : 0};
  const size_t largest = std::min(ready.sizes.part, chunk);
  ready.slicing = slicingFor(collective, largest, element_bytes, settings_, view_.most_ports > 0);
  ready.slices = static_cast<int32_t>(ready.slicing.slicesOf(largest));
  ready.element_bytes = static_cast<uint32_t>(element_bytes);
  ready.scale.factor = call.op == RedOp::kAvg ? Factor{.number = 1.0 / schedule_.ranks} : call.factor;
  // The kernel reads the factor: the host may not be able to, and replays of a graph must see the current value.
  if (call.op == RedOp::kPreMulSum) ready.scale.factor_at = call.factor_at;
  ready.scale.ranks = schedule_.ranks;
  ready.digest = digestOf(call, schedule_);
  return ready;
}

Activity BoundPlan::runs(int32_t part) const {
  if (!view_.activity || part >= view_.parts || view_.lane_count == 0) return {};
  Activity runs{0, UINT64_MAX};
  for (int32_t lane = 0; lane < view_.lane_count; ++lane) {
    const Activity& block = view_.activity[part * view_.lane_count + lane];
    runs.begun = std::max(runs.begun, loadAcquire(&block.begun));
    runs.ended = std::min(runs.ended, loadAcquire(&block.ended));
  }
  return runs;
}

Status BoundPlan::outcome(Failure* where) const {
  Failure failure;
  HORING_TRY(memory_.read(&failure, view_.failure, sizeof failure));
  const auto kind = static_cast<Failure::Kind>(failure.kind);
  if (kind == Failure::Kind::kNone) return {};
  if (where) *where = failure;
  const std::string place = formatString("lane %d part %d step %d slice %d", failure.lane, failure.part,
                                         failure.step, failure.slice);
  const PortName* const port =
      failure.port < 0
          ? nullptr
          : &ports_of_lanes_[static_cast<size_t>(failure.lane)][static_cast<size_t>(failure.port)];
  const std::string about = !port              ? "another lane"
                            : port->queue >= 0 ? formatString("scratch queue %d", port->queue)
                                               : formatString("the rank at position %d", port->position);
  if (kind == Failure::Kind::kAborted)
    return makeStatus(Code::kRemoteError, "the kernel was ended while %s waited for %s", place.c_str(),
                      about.c_str());
  if (kind == Failure::Kind::kOverdue)
    return makeStatus(
        Code::kTimeout,
        "%s waited %llu ms for %s, which did not come (HORING_TIMEOUT_MS): a rank that is waited for "
        "is stopped, or never made this call",
        place.c_str(), static_cast<unsigned long long>(failure.timeout_ns / 1'000'000), about.c_str());
  return makeStatus(
      Code::kInvalidUsage,
      "%s got a message of another operation from %s: every rank must call the same collectives "
      "in the same order with the same arguments, and run with the same HORING_ settings",
      place.c_str(), about.c_str());
}

}  // namespace horing::cuda
