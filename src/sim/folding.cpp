#include "sim/folding.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "schedule/postcondition.h"

namespace horing {

namespace {

// Whether one schedule is the image of another under the map.
class ImageCheck {
 public:
  ImageCheck(const Folding& folding, int32_t node, const Grid& grid)
      : folding_(folding), node_(node), grid_(grid) {}

  bool isImage(const Schedule& original, const Schedule& image) const {
    if (original.grid != image.grid || original.scratch_queues != image.scratch_queues ||
        original.lanes.size() != image.lanes.size())
      return false;
    for (size_t l = 0; l < original.lanes.size(); ++l)
      if (!isImage(original.lanes[l], image.lanes[l])) return false;
    return true;
  }

 private:
  // A rotation shifts all rows of the grid alike, so strides stay; otherwise compares step by step.
  bool isImage(const Lane& original, const Lane& image) const {
    if (folding_.kind() != Folding::Kind::kRotation) return isImageStepByStep(original, image);
    if (original.blocks.size() != image.blocks.size()) return false;
    for (size_t b = 0; b < original.blocks.size(); ++b)
      if (!isImage(original.blocks[b], image.blocks[b])) return false;
    return true;
  }

  bool isImage(const Block& original, const Block& image) const {
    if (original.body.size() != image.body.size() || original.count != image.count ||
        original.row_stride != image.row_stride || original.column_stride != image.column_stride)
      return false;
    for (size_t s = 0; s < original.body.size(); ++s) {
      const Step &from = original.body[s], &to = image.body[s];
      if (to.chunk != chunk(from.chunk) || to.wait != from.wait || !isImage(from, to)) return false;
    }
    return true;
  }

  bool isImageStepByStep(const Lane& original, const Lane& image) const {
    StepCursor from(original, grid_), to(image, grid_);
    for (; !from.done() && !to.done(); from.next(), to.next())
      if (to.chunk() != chunk(from.chunk()) || to.waitStep() != from.waitStep() ||
          to.step().wait.lane != from.step().wait.lane || !isImage(from.step(), to.step()))
        return false;
    return from.done() && to.done();
  }

  // Without chunk and wait. The fold order does not affect the time.
  bool isImage(const Step& original, const Step& image) const {
    if (image.keep != original.keep || image.completes != original.completes ||
        image.send_to != peer(original.send_to) || image.signal_to.size() != original.signal_to.size())
      return false;
    for (size_t i = 0; i < original.signal_to.size(); ++i)
      if (image.signal_to[i] != peer(original.signal_to[i])) return false;
    std::vector<Source> mapped, sources = image.sources;
    for (const Source& from : original.sources) mapped.push_back(source(from));
    std::sort(mapped.begin(), mapped.end());
    std::sort(sources.begin(), sources.end());
    return mapped == sources;
  }

  int32_t peer(int32_t position) const {
    return position < 0 || position >= folding_.ranks() ? position : folding_.image(position, node_);
  }
  Source source(const Source& original) const {
    const bool names_peer = takesMessage(original) || original.kind == Source::Kind::kPeerIn;
    return {original.kind, names_peer ? peer(original.index) : original.index};
  }
  // If there is a chunk for each rank, or for each pair of ranks, it is mapped with its ranks; other chunks are not mapped.
  int32_t chunk(int32_t number) const {
    const int64_t ranks = folding_.ranks();
    if (grid_.chunks() == ranks) return peer(number);
    if (grid_.chunks() == ranks * ranks)
      return peer(number / grid_.columns) * grid_.columns + peer(number % grid_.columns);
    return number;
  }

  const Folding& folding_;
  int32_t node_;
  Grid grid_;
};

}  // namespace

Result<Folding> findFolding(int32_t nodes, int32_t ranks_per_node, const ScheduleOf& schedule_of,
                            int32_t other_nodes) {
  const Folding none(Folding::Kind::kNone, nodes, ranks_per_node);
  std::vector<Folding> candidates = {{Folding::Kind::kRotation, nodes, ranks_per_node}};
  if (std::has_single_bit(static_cast<uint32_t>(nodes)))
    candidates.emplace_back(Folding::Kind::kMirror, nodes, ranks_per_node);
  if (nodes == 1) return none;
  std::vector<Schedule> representatives;
  const int64_t others = std::min(other_nodes, nodes - 1);
  for (int32_t i = 0; i < (others + 1) * ranks_per_node && !candidates.empty(); ++i) {
    // The last sampled node is the last node.
    const int64_t node = int64_t{i / ranks_per_node} * (nodes - 1) / std::max<int64_t>(others, 1);
    const auto position = static_cast<int32_t>(node * ranks_per_node + i % ranks_per_node);
    HORING_ASSIGN(Schedule schedule, schedule_of(position));
    if (position < ranks_per_node) {
      if (hasRoot(schedule.collective)) return none;
      representatives.push_back(std::move(schedule));
      continue;
    }
    const Schedule& original = representatives[static_cast<size_t>(position % ranks_per_node)];
    std::erase_if(candidates, [&](const Folding& folding) {
      return !ImageCheck(folding, none.nodeOf(position), schedule.grid).isImage(original, schedule);
    });
  }
  return candidates.empty() ? none : candidates.front();
}

}  // namespace horing
