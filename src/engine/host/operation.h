#pragma once
// The interpreter: runs one call of a plan on host memory.
//
// The slice loop is the meaning of a schedule: a lane runs its steps in windows of W slices; for each window,
// for each step, for each slice of the window. Slice s of a step starts as soon as its inputs for slice s are
// there.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/host/call.h"
#include "engine/host/driven.h"
#include "engine/host/plan.h"
#include "schedule/layout.h"

namespace horing {

class HostOperation final : public Driven {
 public:
  // `rank_of_position` and `plan` must outlive the operation. One operation of a plan at a time.
  HostOperation(Plan& plan, const int32_t* rank_of_position);
  HostOperation(const HostOperation&) = delete;
  HostOperation& operator=(const HostOperation&) = delete;

  // `sequence`: the call's number, the same on every rank. Takes constant time if the call does what the one before did, else the time of
  // a look at every step.
  void begin(const Call& call, uint64_t sequence);
  bool poll() override;
  bool done() const override;
  const Status& status() const override { return status_; }
  Obstacle obstacle() const override;
  Status overdue(int64_t timeout_ms) const override;
  // A round may read a megabyte of the memory of a rank that gave up, and waits to have it back.
  uint32_t roundsPerLook() const override { return plan_.readsPeers() ? 8 : Driven::roundsPerLook(); }
  uint64_t memoryBytes() const;
  // Whether lent memory may be of use to the call that has begun.
  bool movesInPlace() const { return has_large_chunks_; }
  // Whether some of what it receives lands in the output, if that is lent.
  bool lands() const { return has_landings_; }
  // Bytes of the output that the call that has begun keeps something in, on this rank.
  size_t outputEnd() const { return output_end_; }
  size_t laneCount() const override { return lanes_.size(); }
  int32_t laneStep(size_t lane) const override { return lanes_[lane].finished ? -1 : lanes_[lane].index(); }

 private:
  // Which of the caller's memory has the value that a step sends, and will have it as long as the call runs.
  enum class Lasting : uint8_t { kNone, kKept, kInput, kOutput };
  // A step as a call runs it, everything looked up and no longer repeated by a block: between two slices there is no time
  // for that. A hundred bytes for each step of this rank.
  struct CallStep {
    const BoundStep* bound = nullptr;
    std::span<const BoundSource> sources;
    ScratchQueue* keep_queue = nullptr;
    Sender* sender = nullptr;
    size_t count = 0;         // elements of the chunk
    size_t input_bytes = 0;   // where the chunk begins in the input
    size_t output_bytes = 0;  // and in the output
    Tag tag = 0;              // of its messages, but for the call and the slice
    int32_t wait_lane = -1;   // -1: waits for nothing
    int32_t wait_step = 0;
    bool keeps_out = false;  // in the output
    bool completes = false;
    bool is_empty = false;    // and yet exchanged, so that a peer that thinks otherwise hears of it
    bool only_moves = false;  // one value, nothing to fold or to scale
    bool streams = false;     // what it keeps goes past the caches
    Lasting lasting = Lasting::kNone;
    bool has_landing = false;    // what it sends; see Sender::tryAcquireLanding()
    bool tells_landing = false;  // of what it receives
    bool lands = false;          // where it keeps it
  };
  struct LaneState {
    std::vector<CallStep> steps;     // of the whole lane; see layOut()
    const CallStep* step = nullptr;  // the current one
    int64_t slices = 0;              // of the largest chunk among its steps
    int64_t window_begin = 0;
    int64_t window_end = 0;
    int64_t slice = 0;
    bool finished = false;
    bool is_signals = false;
    bool tells_landings = false;     // some step does
    const CallStep* told = nullptr;  // the next step whose landing is to be told,
    int64_t told_window = 0;         // for the window that begins with that slice
    int32_t index() const { return static_cast<int32_t>(step - steps.data()); }
  };

  // By what the inputs of a call are multiplied.
  Factor factorOf(const Call& call) const;
  bool inputLasts() const;
  // What depends on the call's count, type and operation, for all steps.
  void layOut(const CallSpec& spec);
  void layOutLane(size_t lane_number);
  void layOutLandings(CallStep& step, int32_t chunk) const;
  // Whether messages of this call do that are large enough.
  template <typename End>
  bool hasLandings(const End* end) const;
  Lasting lastingOf(const CallStep& step, const Step& from, int32_t chunk) const;

  bool advanceLane(LaneState& lane);
  void tellLandings(LaneState& lane);
  bool tellLanding(const CallStep& step, int64_t begin, int64_t end);
  // Runs the lane's next slice if its inputs are there, and moves on to the one after it.
  bool trySlice(LaneState& lane);
  bool tryWithoutData(LaneState& lane);
  bool waitIsOver(const LaneState& lane) const;
  bool gatherOperands(const LaneState& lane, size_t byte_offset, size_t bytes, Tag tag);
  void release(const CallStep& step);
  static std::byte* acquire(const CallStep& step, size_t bytes) {
    return step.has_landing ? step.sender->tryAcquireLanding()
                            : step.sender->tryAcquireFor(static_cast<uint32_t>(bytes));
  }
  const std::byte* lastingValue(const CallStep& step, const std::byte* kept) const;
  bool copy(const CallStep& step, std::byte* kept, std::byte* sent, size_t bytes);
  void compute(const CallStep& step, std::byte* kept, std::byte* sent, size_t count, bool read_at_once);
  void computeForAll(const CallStep& step, size_t output_offset, size_t count);
  void publishOutputs() const;
  void computeAndStream(const CallStep& step, std::byte* kept, std::byte* sent, size_t count, bool sends_far);
  void fold(const CallStep& step, std::byte* first, std::byte* second, size_t count);
  void foldTo(const CallStep& step, std::span<std::byte* const> places, int streams_from, size_t count);
  void nextSlice(LaneState& lane);
  void rejectMessage(const LaneState& lane, const BoundSource& source, const Message& message, size_t bytes);
  // Identifies a message to the peer: equal at both ends exactly if they agree on what is being done.
  Tag tagOf(const LaneState& lane) const { return digest_ ^ lane.step->tag ^ static_cast<Tag>(lane.slice); }
  // What keeps a lane from its next slice, and the rank that it is about; -1: none.
  struct LaneObstacle {
    std::string text;
    int32_t peer = -1;
  };
  LaneObstacle obstacleOf(const LaneState& lane) const;

  Plan& plan_;
  const int32_t* rank_of_position_;
  Call call_;
  uint64_t sequence_ = 0;
  Layout layout_;
  Slicing slicing_;
  int64_t turn_slices_ = 1;
  FoldFunction fold_ = nullptr;
  size_t element_bytes_ = 1;
  bool scales_ = false;
  bool pairs_know_sizes_ = false;  // of blocks: only those that exchange one
  Factor factor_;
  Tag layout_digest_ = 0;  // of the schedule and what layOut() saw
  Tag digest_ = 0;         // of the call
  Status status_;
  std::vector<LaneState> lanes_;
  size_t lanes_running_ = 0;
  std::vector<const std::byte*> operands_;  // of the slice being tried
  std::vector<std::byte*> outputs_;         // of all positions, where that slice is to be stored
  std::vector<bool> read_again_;            // [chunk]: of the output, by a step of this rank
  std::vector<bool> kept_again_;            // [chunk]: in the output, by another step of this rank
  size_t input_end_ = 0;                    // bytes of the input that steps read
  size_t output_end_ = 0;                   // bytes of the output that they keep
  bool input_lasts_ = false;
  bool has_large_chunks_ = false;
  bool has_landings_ = false;
  bool is_tiny_ = false;  // does not care for roaming
  bool roams_ = false;    // Sender::roam()
  bool settled_ = true;
};

}  // namespace horing
