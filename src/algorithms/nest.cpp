// Nested levels, each with its own pattern, all running concurrently. Every level is a lane; the lanes wait for each other slice by slice,
// which hides the fast traffic of the inner levels behind the slow traffic of the outer level.
//
// A rank has an index at each level; its line at a level is the set of ranks that differ from it in that index only. Chunks have indices
// like ranks; at level l a rank has the chunks that agree with it in the indices from l on.
//   all-gather:      the outermost lane gathers the chunks of its line. As soon as a chunk has arrived, the next lane
//                    gathers it with the chunks that arrived at the other members of its line, and so on inwards.
//   reduce-scatter:  the mirrored time reversal: the innermost lane reduces row after row, in the order in which the
//                    next lane outwards needs them, which folds them over its own line.
//   all-reduce:      one after the other; partials live in the output.
//   reduce:          a reduce-scatter whose results go to the root: by a tree along the outermost line, then inside the root's part.
// If the innermost level is ordered, an earlier lane hands it this rank's inputs, rounded as if they had been sent. If the outermost level
// doubles, it all-reduces the rank's own chunk, reduced over all inner levels, in one step. Cost: each level receives what its pattern
// does, over rows that hold one chunk for each member of its line and come once for each chunk of the levels outside.
#include "algorithms/nest.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "algorithms/doubling.h"

namespace horing {

namespace {

struct Arrival {
  int32_t chunk = 0;
  Wait moment;  // a step of another lane
};
// Chunks that arrive in sequence, `count` times, each time one part of the outermost level further back.
struct Batch {
  int32_t count = 1;
  std::vector<Arrival> arrivals;
};

// Joins two neighbours if together they are one batch.
bool join(Batch& first, const Batch& second, int32_t chunk_after_first) {
  if (first.arrivals.size() != 1 || second.arrivals.size() != 1) return false;
  Wait& a = first.arrivals[0].moment;
  const Wait& b = second.arrivals[0].moment;
  const int32_t stride = first.count == 1 ? b.step - a.step : a.stride;
  if (second.arrivals[0].chunk != chunk_after_first || a.lane != b.lane ||
      b.step != a.step + first.count * stride || (second.count > 1 && b.stride != stride))
    return false;
  a.stride = stride;
  first.count += second.count;
  return true;
}

class Nest {
 public:
  Nest(std::span<const Level> levels, int32_t position) : own_(position) {
    if (!levels.empty() && levels[0].pattern == Pattern::kDoubling) {
      int32_t part = 1;
      for (const Level& inner : levels.subspan(1)) part *= inner.size;
      if (levels[0].size > 1) whole_.emplace(Pattern::kDoubling, levels[0].size, part, position);
      own_ = position % part;
      levels = levels.subspan(1);
    }
    int32_t stride = 1;
    for (size_t l = levels.size(); l-- > 0; stride *= levels[l].size) {
      if (levels[l].size == 1) continue;
      const auto at = [](auto& list) { return list.begin(); };
      lines_.insert(at(lines_), Line(levels[l].pattern, levels[l].size, stride, position));
      moves_.insert(at(moves_), reduceMoves(levels[l].pattern, levels[l].size));
      sizes_.insert(at(sizes_), levels[l].size);
    }
    const int32_t rows = levels.size() > 1 ? levels[0].size : 1;
    schedule_.grid = {rows, stride / rows};
    part_ = sizes_.empty() ? 1 : stride / sizes_[0];
    previous_part_ = rows > 1 ? Stride{-1, 0} : Stride{0, -part_};
  }

  Schedule build(Collective collective, int32_t root) {
    if (whole_) {
      reduceWhole();
    } else if (lines_.empty()) {
      copyOwn(collective);
    } else if (collective == Collective::kAllGather) {
      gather(kInput, {});
    } else {
      if (collective == Collective::kReduce) result_ = newScratchQueue();
      const Wait reduced = reduce(collective);
      if (collective == Collective::kAllReduce) gather(kOutput, reduced);
      if (collective == Collective::kReduce) sendToRoot(root);
    }
    return std::move(schedule_);
  }

 private:
  void copyOwn(Collective collective) {
    LaneBuilder lane;
    StepBuilder step = lane.at(0).read(kInput).keep(kOutput);
    if (collective != Collective::kAllGather) step.complete();
    add(lane);
  }

  void add(const LaneBuilder& lane) { schedule_.lanes.push_back(lane.build()); }
  Place newScratchQueue() { return scratchQueue(schedule_.scratch_queues++); }
  int32_t nextLane() const { return static_cast<int32_t>(schedule_.lanes.size()); }
  int32_t partsBack(int32_t chunk, int32_t parts) const {
    const int32_t chunks = schedule_.grid.chunks();
    return ((chunk - parts * part_) % chunks + chunks) % chunks;
  }

  // Reduces this rank's chunk of the inner levels over the outermost level as a whole.
  void reduceWhole() {
    const bool is_flat = lines_.empty();
    const Wait share = is_flat ? Wait() : reduce(Collective::kAllReduce);
    LaneBuilder lane;
    reduceByDoubling(lane, *whole_, own_, is_flat ? kInput : kOutput, share);
    add(lane);
    if (!is_flat) gather(kOutput, {nextLane() - 1, schedule_.lanes.back().stepCount() - 1});
  }

  // This rank's chunk is in `from` once `after` holds.
  void gather(Place from, Wait after) {
    std::vector<Batch> arrived = gatherOutermost(from, after);
    for (size_t level = 1; level < lines_.size(); ++level) arrived = gatherInside(level, arrived);
  }

  std::vector<Batch> gatherOutermost(Place from, Wait after) {
    LaneBuilder lane;
    std::vector<Batch> arrived;
    int32_t steps = 0;
    for (size_t m = moves_[0].size(); m-- > 0;) {
      const Move& move = moves_[0][m];
      BlockBuilder block = lane.repeat(move.count, previous_part_);
      // Backwards in time, so the last of the repeated moves comes first.
      const int32_t first = move.chunk - (move.count - 1);
      gatherMove(block, 0, {first, move.from, move.to}, {own_, after}, from);
      const bool known = first == 0 && after.lane >= 0;
      const Arrival arrival{lines_[0].chunk(own_, -first),
                            known ? after : Wait{nextLane(), steps, block.size()}};
      steps += block.size() * move.count;
      Batch batch{move.count, {arrival}};
      if (arrived.empty() ||
          !join(arrived.back(), batch, partsBack(arrived.back().arrivals[0].chunk, arrived.back().count)))
        arrived.push_back(batch);
    }
    add(lane);
    return arrived;
  }

  // Gathers the arrived chunks over the line of this level, too; returns all chunks that this rank has then.
  std::vector<Batch> gatherInside(size_t level, const std::vector<Batch>& arrived) {
    LaneBuilder lane;
    std::vector<Batch> now;
    int32_t steps = 0;
    for (const Batch& batch : arrived) {
      BlockBuilder block = lane.repeat(batch.count, previous_part_);
      Batch& mine = now.emplace_back(Batch{batch.count, {}});
      for (const Arrival& arrival : batch.arrivals)
        forEachMoveBackwards(level, [&](const Move& move) {
          mine.arrivals.push_back(
              {lines_[level].chunk(arrival.chunk, -move.chunk), {nextLane(), steps + block.size()}});
          gatherMove(block, level, move, arrival, kOutput);
        });
      for (Arrival& arrival : mine.arrivals) arrival.moment.stride = block.size();
      steps += block.size() * batch.count;
    }
    add(lane);
    return now;
  }

  // A move of a reduction mirrored and reversed in time: receives the chunk from its destination, and sends it to its origins. `own` is the
  // row's own chunk.
  void gatherMove(BlockBuilder& block, size_t level, const Move& move, const Arrival& own, Place from) const {
    const Line& line = lines_[level];
    const int32_t chunk = line.chunk(own.chunk, -move.chunk);
    StepBuilder step = block.at(chunk);
    if (move.chunk == 0) {
      step.read(from).after(own.moment.lane, own.moment.step, own.moment.stride);
    } else {
      step.recv(line.peer(-move.to));
    }
    const bool is_kept = move.chunk == 0 && from.kind == Source::Kind::kOut;
    if (!is_kept) step.keep(kOutput);
    for (size_t child = move.from.size(); child-- > 0;) {
      const int32_t peer = line.peer(-move.from[child]);
      if (child + 1 == move.from.size()) {
        step.send(peer);
      } else {
        block.at(chunk).read(move.chunk == 0 ? from : kOutput).send(peer);
      }
    }
  }

  template <typename Visit>
  void forEachMove(size_t level, const Visit& visit) const {
    for (const Move& move : moves_[level])
      for (int32_t i = 0; i < move.count; ++i) visit(Move{move.chunk - i, move.from, move.to});
  }
  template <typename Visit>
  void forEachMoveBackwards(size_t level, const Visit& visit) const {
    for (size_t m = moves_[level].size(); m-- > 0;)
      for (int32_t i = moves_[level][m].count; i-- > 0;)
        visit(Move{moves_[level][m].chunk - i, moves_[level][m].from, moves_[level][m].to});
  }

  // Returns the wait for the completion of this rank's chunk.
  Wait reduce(Collective collective) {
    for (size_t level = 1; level < lines_.size(); ++level)
      partials_.push_back(collective == Collective::kAllReduce ? kOutput : newScratchQueue());
    partials_.push_back(kInput);
    if (lines_.back().isOrdered()) roundOwnInputs();
    for (size_t level = lines_.size(); level-- > 1;) reduceInside(level);
    reduceOutermost();
    return {nextLane() - 1, sizes_[0] - 1, 0};
  }

  // In the order in which the innermost lane folds them.
  void roundOwnInputs() {
    own_inputs_ = newScratchQueue();
    const size_t innermost = lines_.size() - 1;
    LaneBuilder lane;
    if (innermost == 0) lane.at(own_).read(kInput).keep(own_inputs_);
    for (const Batch& batch : innermost > 0 ? rowsWanted() : std::vector<Batch>()) {
      BlockBuilder block = lane.repeat(batch.count, previous_part_);
      for (const int32_t chunk : ownChunks(innermost, batch)) block.at(chunk).read(kInput).keep(own_inputs_);
    }
    add(lane);
  }

  // By a binomial tree along the outermost line, then inside the root's part: were all parts to send there at once, the queue of its link
  // would overflow.
  void sendToRoot(int32_t root) {
    const int32_t parts = schedule_.grid.rows, members = schedule_.grid.columns;
    const int32_t member = own_ % members, first = root / members * members;
    const int32_t distance = (own_ / members - root / members + parts) % parts;
    const int32_t to_parent = distance & -distance;
    // A position of the part at this distance from the root's, and the number of its chunk.
    const auto at = [&](int32_t part, int32_t local) {
      return (first + part * members) % (parts * members) + local;
    };
    LaneBuilder lane;
    BlockBuilder steps = lane.once();
    const int32_t below = distance == 0 ? parts : std::min(to_parent, parts - distance);
    for (int32_t part = 0; part < below; ++part) {
      StepBuilder step = steps.at(at(distance + part, member));
      if (part == 0) {
        step.read(result_);
      } else {
        step.recv(at(distance + static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(part))), member));
      }
      if (own_ == root) {
        step.keep(kOutput);
      } else {
        step.send(distance == 0 ? root : at(distance - to_parent, member));
      }
      for (int32_t other = 1; own_ == root && other < members; ++other) {
        const int32_t local = (member + other) % members;
        steps.at(at(part, local)).recv(at(0, local)).keep(kOutput);
      }
    }
    add(lane);
  }

  // The rows in the order in which the outermost lane needs them, as batches.
  std::vector<Batch> rowsWanted() const {
    std::vector<Batch> rows;
    for (const Move& move : moves_[0]) {
      const int32_t chunk = lines_[0].chunk(own_, move.chunk);
      if (!rows.empty() && partsBack(rows.back().arrivals[0].chunk, rows.back().count) == chunk) {
        rows.back().count += move.count;
      } else {
        rows.push_back({move.count, {{chunk, {}}}});
      }
    }
    return rows;
  }

  // This rank's chunks in the first row of the batch.
  std::vector<int32_t> ownChunks(size_t level, const Batch& batch) const {
    std::vector<int32_t> own = {batch.arrivals[0].chunk};
    for (size_t outer = 1; outer < level; ++outer) own = chunksOfLine(outer, own);
    return own;
  }

  // Every move is one step, so step s of a lane handles the s-th chunk that it hands outwards, or to its line.
  void reduceInside(size_t level) {
    LaneBuilder lane;
    int32_t steps = 0;
    for (const Batch& batch : rowsWanted()) {
      const std::vector<int32_t> own = ownChunks(level, batch);
      BlockBuilder block = lane.repeat(batch.count, previous_part_);
      const int32_t body = static_cast<int32_t>(own.size()) * sizes_[level];
      for (const int32_t chunk : own)
        forEachMove(level, [&](const Move& move) {
          reduceMove(block, level, move, chunk, {steps + block.size(), body});
        });
      steps += body * batch.count;
    }
    add(lane);
  }

  void reduceOutermost() {
    LaneBuilder lane;
    int32_t steps = 0;
    for (const Move& move : moves_[0]) {
      BlockBuilder block = lane.repeat(move.count, previous_part_);
      reduceMove(block, 0, move, own_, {steps, 1});
      steps += move.count;
    }
    add(lane);
  }

  // For each row, the chunks of the line in the order of the moves.
  std::vector<int32_t> chunksOfLine(size_t level, const std::vector<int32_t>& rows) const {
    std::vector<int32_t> chunks;
    for (const int32_t row : rows)
      forEachMove(level, [&](const Move& move) { chunks.push_back(lines_[level].chunk(row, move.chunk)); });
    return chunks;
  }

  struct StepPlace {
    int32_t step;    // step of the lane
    int32_t stride;  // steps of one iteration of its block
  };

  void reduceMove(BlockBuilder& block, size_t level, const Move& move, int32_t own, StepPlace at) const {
    const Line& line = lines_[level];
    const Place share = partials_[level];
    StepBuilder step = block.at(line.chunk(own, move.chunk));
    if (share.kind == Source::Kind::kOut)
      step.after(nextLane() - 1, (at.step + 1) * sizes_[level + 1] - 1, at.stride * sizes_[level + 1]);
    if (line.isOrdered() && move.chunk == 0) {
      for (int32_t member = 0; member < line.size(); ++member)
        member == line.me() ? step.fold(share.kind == Source::Kind::kIn ? own_inputs_ : share)
                            : step.recv(line.peer(member - line.me()));
    } else {
      for (const int32_t child : move.from) step.recv(line.peer(child));
      step.fold(share);
    }
    if (move.chunk != 0) {
      step.send(line.peer(move.to));
    } else if (level == 0) {
      step.keep(result_);
      if (!whole_) step.complete();
    } else {
      step.keep(partials_[level - 1]);
    }
  }

  int32_t own_;                // chunk
  std::optional<Line> whole_;  // the outermost level's line, if it exchanges whole chunks
  // The lines of the levels with more than one part, outermost first.
  std::vector<Line> lines_;
  std::vector<std::vector<Move>> moves_;
  std::vector<int32_t> sizes_;
  // The source of each level's own share: the result of the next inner level, or the input.
  std::vector<Place> partials_;
  Place own_inputs_ = kInput;  // the inputs that the innermost level folds
  Place result_ = kOutput;
  int32_t part_ = 1;      // chunks of one part of the outermost
  Stride previous_part_;  // the same chunk of the part before
  Schedule schedule_;
};

}  // namespace

Schedule buildNest(Collective collective, std::span<const Level> levels, int32_t position, int32_t root) {
  return Nest(levels, position).build(collective, root);
}

}  // namespace horing
