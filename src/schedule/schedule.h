#pragma once
// A collective as data: what one rank does, in chunk numbers. No bytes, no pointers, no sizes, no transport.
//
// Words (src/README.md has them all): a *chunk* is the algorithm's unit of data. A *step* moves the value of
// one chunk. A *lane* is an ordered list of steps; the lanes of a schedule run concurrently. A *connection*
// is (peer, lane).
//
// Peers and chunks are numbered by *position*: the place of a rank in the order that the groups give, group
// by group, position = group * members + local index. The plan maps positions to ranks, so no schedule
// depends on how a launcher happened to number the ranks. For all-gather and reduce-scatter, chunk p is the
// block of the rank at position p; for all-to-all, chunk (s, d) of the n x n grid is what position s has for
// position d.
#include <algorithm>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "schedule/rails.h"
#include "schedule/shares.h"

namespace horing {

inline constexpr int kMaxLanes = 8;       // of one schedule
inline constexpr int kMaxSources = 1024;  // of one step

// One operand of a step's value.
//   kRecv:    the next slot from peer `index` on this lane's connection.
//   kIn:      the chunk in the caller's input (never written).
//   kOut:     the chunk in the caller's output.
//   kScratch: the oldest value of scratch queue `index`; the read frees it.
//   kPeerIn:  the chunk in the input of position `index`, whose memory this rank can read. The owner must have signalled that
//             it has entered the operation, and may not leave the operation before this rank signals that the read is done.
//   kSignal:  no value: the next signal from peer `index` on this lane's connection.
struct Source {
  enum class Kind : uint8_t { kRecv, kIn, kOut, kScratch, kPeerIn, kSignal };
  Kind kind = Kind::kIn;
  int32_t index = 0;
  auto operator<=>(const Source&) const = default;
};

// Whether the source receives a message from peer `index`.
constexpr bool takesMessage(const Source& source) {
  return source.kind == Source::Kind::kRecv || source.kind == Source::Kind::kSignal;
}
// Whether the operand is a caller's input, which an average scales.
constexpr bool readsInput(const Source& source) {
  return source.kind == Source::Kind::kIn || source.kind == Source::Kind::kPeerIn;
}

// Where a step stores its value, in addition to sending it.
//   kOut:      the chunk in the output.
//   kEveryOut: the chunk in the outputs of all positions, whose memory this rank can write; such a step sends nothing. As with kPeerIn, the
//              owners must have signalled that they have entered, and may not leave before this rank signals that the write is done.
//   kScratch:  the end of scratch queue `index`.
struct Keep {
  enum class Kind : uint8_t { kNone, kOut, kEveryOut, kScratch };
  Kind kind = Kind::kNone;
  int32_t index = 0;
  auto operator<=>(const Keep&) const = default;
};

// Whether the value is stored in this rank's output.
constexpr bool keepsOut(const Keep& keep) {
  return keep.kind == Keep::Kind::kOut || keep.kind == Keep::Kind::kEveryOut;
}

// The step must not start slice s before step `step` of lane `lane` has finished slice s. In iteration k of a block the step to wait for is
// step + k * stride.
struct Wait {
  int32_t lane = -1;  // -1: waits for nothing
  int32_t step = 0;
  int32_t stride = 0;
  auto operator<=>(const Wait&) const = default;
};

// One instruction: value = sources[0] (+) sources[1] (+) ... folded from the left in one pass, accumulated at no less than float32 and
// rounded to the data type once; then kept, and sent.
//
// Or, in a signal lane: a step without data. It waits for a signal from each of its sources (kSignal), then sends a signal to each of
// `signal_to`. A signal lane is not cut into slices: its steps run once. If it waits for a step of a data lane, it waits for all slices of
// that step; if a data lane waits for it, every slice does.
struct Step {
  int32_t chunk = 0;
  std::vector<Source> sources;
  Keep keep;
  int32_t send_to = -1;  // position, -1: not sent
  Wait wait;
  // The fold of this step is the last one of its chunk: its value covers all ranks. Averages of integers
  // divide here.
  bool completes = false;
  std::vector<int32_t> signal_to;  // positions

  bool isSignal() const {
    return !signal_to.empty() || (!sources.empty() && sources[0].kind == Source::Kind::kSignal);
  }
  auto operator<=>(const Step&) const = default;
};

// `body` repeated `count` times. Chunks form the schedule's grid, rows x columns, chunk = row * columns +
// column; from one iteration to the next every chunk of the body moves by (row_stride, column_stride), each
// modulo its extent.
struct Block {
  std::vector<Step> body;
  int32_t count = 1;
  int32_t row_stride = 0;
  int32_t column_stride = 0;
  auto operator<=>(const Block&) const = default;
};

struct Lane {
  std::vector<Block> blocks;
  int32_t stepCount() const;
  // Whether this is a signal lane; the verifier refuses a mixture.
  bool isSignals() const {
    for (const Block& block : blocks)
      if (block.count > 0 && !block.body.empty()) return block.body[0].isSignal();
    return false;
  }
  auto operator<=>(const Lane&) const = default;
};

struct Grid {
  int32_t rows = 1;
  int32_t columns = 1;
  int32_t chunks() const { return rows * columns; }
  auto operator<=>(const Grid&) const = default;
};

// A value: copied, compared, printed (schedule/text.h), proven (schedule/verify.h).
struct Schedule {
  std::string algorithm;
  Collective collective = Collective::kAllReduce;
  int32_t position = 0;
  int32_t ranks = 1;
  Grid grid;
  int32_t scratch_queues = 0;
  std::vector<Lane> lanes;
  int32_t root = 0;  // position; 0 if the collective has no root
  Rails rails{};     // if groups differ in size: the owners of chunks
  Shares shares{};   // if rows of a vector that is cut freely differ in size

  // Slices of a window, of which `usual` are wanted (plan_parameters.h). A row that is small, since its group's links are slow, must be
  // reduced while its group sends: so where rows differ in size a window is short, one slice if some row has nothing, else about as many
  // slices of all rows together as hide the latency.
  int32_t windowOf(int32_t usual) const {
    constexpr int32_t kSlicesOfRows = 16;
    if (!shares) return usual;
    return shares.anyIsNone() ? 1 : std::clamp(kSlicesOfRows / grid.rows, 1, usual);
  }
  auto operator<=>(const Schedule&) const = default;
};

// Chunk `chunk` moved by `iterations` times the block's stride.
int32_t advanceChunk(const Grid& grid, int32_t chunk, const Block& block, int32_t iterations);

// Walks the steps of a lane in order without unrolling its blocks. Cheap to copy, so that an engine can
// return to the start of the lane for the next window. The lane and the grid must outlive it.
class StepCursor {
 public:
  StepCursor() = default;
  StepCursor(const Lane& lane, const Grid& grid)
      : first_(lane.blocks.data()), block_(first_), end_(first_ + lane.blocks.size()), grid_(&grid) {
    skipEmpty();
  }

  bool done() const { return block_ == end_; }
  void next();
  // Number of the step in its lane.
  int32_t index() const { return index_; }
  const Step& step() const { return block_->body[body_]; }
  // The step's chunk and wait, moved to this iteration.
  int32_t chunk() const {
    const int32_t chunk = step().chunk;
    return iteration_ == 0 ? chunk : advanceChunk(*grid_, chunk, *block_, iteration_);
  }
  int32_t waitStep() const { return step().wait.step + iteration_ * step().wait.stride; }
  size_t block() const { return static_cast<size_t>(block_ - first_); }
  size_t bodyIndex() const { return body_; }
  // The step's index in the concatenated bodies of all blocks.
  size_t written() const { return before_body_ + body_; }

 private:
  void skipEmpty() {
    for (; !done() && (block_->count <= 0 || block_->body.empty()); ++block_)
      before_body_ += block_->body.size();
  }
  const Block* first_ = nullptr;
  const Block* block_ = nullptr;
  const Block* end_ = nullptr;
  const Grid* grid_ = nullptr;
  size_t before_body_ = 0;  // steps in the bodies of earlier blocks
  size_t body_ = 0;
  int32_t iteration_ = 0;
  int32_t index_ = 0;
};

inline void StepCursor::next() {
  ++index_;
  if (++body_ < block_->body.size()) return;
  if (++iteration_ < block_->count) {
    body_ = 0;
    return;
  }
  before_body_ += body_;
  body_ = 0;
  iteration_ = 0;
  ++block_;
  skipEmpty();
}

// Positions that this schedule sends data or signals to, or receives them from, on `lane`, each once, ascending.
std::vector<int32_t> sendPeers(const Lane& lane);
std::vector<int32_t> recvPeers(const Lane& lane);

}  // namespace horing
