#pragma once
// The interpreter: runs one call of a plan on host memory. Poll-driven and resumable; it never blocks,
// allocates, locks or looks at a clock between begin() and done().
//
// The slice loop is the meaning of a schedule: a lane runs its steps in windows of W slices; for each window,
// for each step, for each slice of the window. Slice s of a step starts as soon as its inputs for slice s are
// there.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/host/plan.h"
#include "schedule/layout.h"

namespace horing {

// What the caller of a collective gave, already checked.
struct Call {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  size_t count = 0;  // elements, see Layout::make
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  uint64_t sequence = 0;  // of the communicator; the same on every rank
};

class HostOperation {
 public:
  // `rank_of_position` and `plan` must outlive the operation. One operation of a plan at a time.
  HostOperation(Plan& plan, const int32_t* rank_of_position);
  HostOperation(const HostOperation&) = delete;
  HostOperation& operator=(const HostOperation&) = delete;

  void begin(const Call& call);
  // Does what can be done now. True if anything was.
  bool poll();
  // True when the output is complete and the peers need nothing more from this rank.
  bool done() const;
  // Set when a peer's message belongs to another operation; the operation will not complete then.
  const Status& status() const { return status_; }
  // "lane 1 step 3 slice 17: waits for a message from rank 5"; for deadlines and reports.
  std::string describeProgress() const;

 private:
  struct LaneState {
    StepCursor cursor;
    const BoundStep* bound = nullptr;
    int64_t window_begin = 0;
    int64_t window_end = 0;
    int64_t slice = 0;
    bool finished = false;
    // Of the current step:
    int32_t chunk = 0;
    size_t chunk_count = 0;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };

  bool advanceLane(size_t lane_number);
  bool trySlice(LaneState& lane);
  bool waitIsOver(const LaneState& lane) const;
  bool gatherOperands(const LaneState& lane, size_t byte_offset, size_t bytes);
  void compute(const LaneState& lane, std::byte* kept, std::byte* sent, size_t count);
  void release(const BoundStep& bound);
  void enterStep(LaneState& lane, size_t lane_number);
  void nextSlice(LaneState& lane, size_t lane_number);
  void rejectMessage(const LaneState& lane, const BoundSource& source, const Message& message, size_t bytes);
  Tag tagOf(const LaneState& lane) const;
  std::string obstacle(const LaneState& lane) const;

  Plan& plan_;
  const int32_t* rank_of_position_;
  Call call_;
  Layout layout_;
  Slicing slicing_;
  FoldFunction fold_ = nullptr;
  size_t element_bytes_ = 1;
  bool scales_ = false;
  Tag digest_ = 0;
  Status status_;
  std::vector<LaneState> lanes_;
  std::vector<const std::byte*> operands_;  // of the slice being tried
  std::unique_ptr<bool[]> operand_is_input_;
};

// Identifies a call to its peers: equal on all ranks exactly if they agree on what is being done.
Tag digestOf(const Call& call, const Schedule& schedule);

}  // namespace horing
