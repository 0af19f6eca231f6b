#pragma once
// The interpreter: runs one call of a plan on host memory.
//
// The slice loop is the meaning of a schedule: a lane runs its steps in windows of W slices; for each window,
// for each step, for each slice of the window. Slice s of a step starts as soon as its inputs for slice s are
// there.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/host/call.h"
#include "engine/host/driven.h"
#include "engine/host/plan.h"
#include "schedule/layout.h"

namespace horing {

class HostOperation final : public Driven, public LaneSteps {
 public:
  // `rank_of_position` and `plan` must outlive the operation. One operation of a plan at a time.
  HostOperation(Plan& plan, const int32_t* rank_of_position);
  HostOperation(const HostOperation&) = delete;
  HostOperation& operator=(const HostOperation&) = delete;

  // `sequence`: the call's number, the same on every rank. Takes constant time if the call is like the previous one, otherwise time
  // proportional to the steps.
  void begin(const Call& call, uint64_t sequence);
  bool poll() override;
  bool done() const override;
  const Status& status() const override { return status_; }
  std::optional<uint64_t> sequence() const override { return sequence_; }
  std::string name() const override { return "collective #" + std::to_string(sequence_); }
  Obstacle obstacle() const override;
  PeerWaits waits() const override;
  const LaneSteps* laneSteps() const override { return this; }
  Pause pause() const override { return Pause::kUntilRung; }
  Covers covers() const override { return Covers::kNone; }
  bool tellsOthers() const override { return true; }
  // A round may read a megabyte from the memory of a rank that has failed and waits to get it back.
  uint32_t roundsPerLook() const override { return plan_.readsPeers() ? 8 : kRoundsPerLook; }
  uint64_t memoryBytes() const;
  // Whether lent memory may help the current call.
  bool movesInPlace() const { return in_place_ != InPlace::kNothing; }
  // Whether some received data lands in the output, if that is lent.
  bool lands() const { return in_place_ == InPlace::kLands; }
  // Bytes of the output that the current call writes on this rank.
  size_t outputEnd() const { return output_end_; }
  size_t laneCount() const override { return lanes_.size(); }
  int32_t laneStep(size_t lane) const override { return lanes_[lane].finished() ? -1 : lanes_[lane].index(); }

 private:
  // What a step does with a slice.
  enum class Mode : uint8_t {
    kSignal,     // moves no data: signals, or a block of which the peer may not know that it is empty
    kMove,       // one value, unchanged
    kFold,       // several values, or one that is scaled
    kMoveToAll,  // as kMove, into the outputs of all ranks
    kFoldToAll,
    kCopy,  // one value, by the call's copier, or by its reader from another process
  };
  // Where a step keeps the value; in the output of each rank, if it writes all outputs.
  enum class Keeps : uint8_t { kNowhere, kInQueue, kInOutput, kPastCaches };
  // Where a step writes the data it sends, see SendEnd::tryAcquire(); or it sends its signals.
  enum class Sends : uint8_t { kNothing, kToSlot, kToLanding, kSignals };
  // Which of the caller's buffers has the value that a step sends, and keeps it as long as the call runs.
  enum class Lasting : uint8_t { kNone, kKept, kInput, kOutput };
  // A step as a call runs it: everything is decided and looked up for all its slices, and blocks no longer repeat it, since the
  // time between two slices is short. Two cache lines for each step of this rank.
  struct alignas(64) CallStep {
    SendEnd send;
    std::span<const BoundSource> sources;
    int64_t slices = 0;      // of the chunk; the step skips later slices of its lane
    int32_t wait_lane = -1;  // -1: waits for nothing
    int32_t wait_step = 0;
    const BoundStep* bound = nullptr;
    size_t count = 0;         // elements of the chunk; 0 if no data moves
    size_t input_bytes = 0;   // where the chunk begins in the input
    size_t output_bytes = 0;  // and in the output
    Tag tag = 0;              // of its messages, without the call and the slice
    Mode mode = Mode::kMove;
    Keeps keeps = Keeps::kNowhere;
    Sends sends = Sends::kNothing;
    Lasting lasting = Lasting::kNone;
    uint32_t slice_elements = 1;
    Slicing slicing() const { return {slice_elements}; }
  };
  static_assert(sizeof(CallStep) == 128);
  // The slice of a step that is being tried.
  struct Slice {
    size_t offset = 0;  // bytes, in the chunk
    size_t count = 0;   // elements
    size_t bytes = 0;
    Tag tag = 0;
    std::byte* kept = nullptr;  // where it is kept on this rank; null: it is not
    SendEnd::Piece sent;        // none: it is not sent
  };
  // Where the value of a slice is stored: `near` destinations, then those that are written past the caches.
  struct Places {
    std::byte* at[2];
    size_t near;
    size_t all;
  };
  // The same in the outputs of all ranks. Both are parts of outputs_.
  struct AllPlaces {
    std::span<std::byte*const> near, past_caches;
  };
  // Messages that a step receives and that have a landing.
  struct Arrival {
    const CallStep* step;
    bool in_output;  // false: they arrive in slots
  };
  // The landings of one receiver in a lane, told in the order of the messages.
  struct Telling {
    std::vector<Arrival> arrivals;
    size_t next = 0;     // index of the next one to tell
    int64_t window = 0;  // in the window that begins with that slice
  };
  struct LaneState {
    std::vector<CallStep> steps;     // of the whole lane; see layOut()
    const CallStep* step = nullptr;  // the current one
    int64_t slices = 0;              // of the largest chunk among its steps
    int64_t window_begin = 0;
    int64_t window_end = 0;
    int64_t slice = 0;
    bool is_signals = false;
    std::vector<Telling> tellings;  // for each receiver with landings
    size_t tellings_open = 0;
    bool finished() const { return window_begin == slices; }
    int32_t index() const { return static_cast<int32_t>(step - steps.data()); }
  };
  // How the current call may use lent memory: values are sent from it, and may land in it.
  enum class InPlace : uint8_t { kNothing, kSends, kLands };
  // How many slots of its links the call uses: SharedSlotsSender::roam().
  enum class Roaming : uint8_t { kAsBefore, kFew, kAll };

  // The factor of a call's inputs.
  Factor factorOf(const Call& call) const;
  bool inputLasts() const;
  // Whether the steps are laid out for such a call.
  bool fits(const Call& call) const;
  // The parts of all steps that depend on the call's count, type and operation, and on its copier.
  void layOut();
  Roaming roaming() const;
  void layOutLane(size_t lane_number);
  Mode modeOf(const Step& from, int32_t chunk) const;
  void layOutSignal(CallStep& step) const;
  void layOutData(CallStep& step, const Step& from, int32_t chunk, bool is_large) const;
  Lasting lastingOf(const CallStep& step, const Step& from, int32_t chunk) const;
  void layOutArrivals(LaneState& lane, const CallStep& step, int32_t chunk);
  bool isLargeChunk(size_t count) const { return count * element_bytes_ >= plan_.settings().in_place_bytes; }
  // Whether messages of this call land if they are large enough.
  template <typename End>
  bool hasLandings(const End* landings) const;

  // What is in the way of a lane's next slice.
  struct SliceObstacle {
    enum class Kind : uint8_t { kNothing, kLane, kSignal, kData, kOtherData, kValue, kQueue, kRoom };
    Kind kind = Kind::kNothing;
    int32_t peer = -1;                    // the rank to blame; -1: none
    const BoundSource* source = nullptr;  // kOtherData: of the message
    explicit operator bool() const { return kind != Kind::kNothing; }
    PeerWait wait() const { return {.peer = peer, .for_room = kind == Kind::kRoom}; }
    std::string text(int32_t wait_lane) const;
  };

  bool advanceLane(LaneState& lane);
  void tellLandings(LaneState& lane);
  bool tellLanding(LandingReceiver& receiver, const Arrival& arrival, int64_t begin) const;
  // Runs the lane's next slice if its inputs are there, and advances the lane.
  bool trySlice(LaneState& lane);
  // These decide whether a slice can be moved: they find its operands and its room, or the obstacle. Of the operation they change only
  // operands_; a transport may look for messages and credits meanwhile.
  SliceObstacle prepare(const LaneState& lane, Slice& slice) const;
  bool waitIsOver(const LaneState& lane) const;
  Slice sliceOf(const LaneState& lane) const;
  SliceObstacle gatherOperands(const CallStep& step, const Slice& slice) const;
  SliceObstacle findRoom(const CallStep& step, Slice& slice) const;
  const std::byte* lastingValue(const CallStep& step, const std::byte* kept) const;
  SliceObstacle obstacleTo(const LaneState& lane) const;
  void move(const CallStep& step, const Slice& slice);
  void fold(const CallStep& step, const Slice& slice);
  // These three take a copy of the slice, so that trySlice() keeps its own in registers.
  void moveToAll(const CallStep& step, Slice slice);
  void foldToAll(const CallStep& step, Slice slice);
  bool copy(const CallStep& step, Slice slice);
  Places placesOf(const CallStep& step, const Slice& slice, std::byte* kept) const;
  AllPlaces placesOfAll(const CallStep& step, const Slice& slice, const std::byte* except);
  void foldTo(const CallStep& step, std::span<std::byte* const> places, size_t near, size_t count);
  void publishOutputs() const;
  void passOn(const CallStep& step, const Slice& slice);
  void post(const CallStep& step, const Slice& slice) const;
  void nextSlice(LaneState& lane);
  void rejectMessage(const LaneState& lane, const BoundSource& source, size_t bytes);
  // Identifies a message to the peer: equal at both ends exactly if they agree on the operation.
  Tag tagOf(const LaneState& lane) const { return digest_ ^ lane.step->tag ^ static_cast<Tag>(lane.slice); }

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
  bool pairs_know_sizes_ = false;  // of blocks: only the two ranks that exchange one
  Factor factor_;
  Tag layout_digest_ = 0;  // of the schedule and the inputs of layOut()
  Tag digest_ = 0;         // of the call
  Status status_;
  std::vector<LaneState> lanes_;
  size_t lanes_running_ = 0;
  // Of the slice that prepare() last looked at, which fills it although it is const; hence no vector.
  std::unique_ptr<const std::byte*[]> operands_;
  std::vector<std::byte*> outputs_;  // where that slice is to be stored, for all positions
  std::vector<bool> read_again_;     // [chunk]: a step of this rank reads it from the output
  std::vector<bool> kept_again_;     // [chunk]: another step of this rank keeps it in the output
  size_t input_end_ = 0;             // bytes of the input that steps read
  size_t output_end_ = 0;            // bytes of the output that steps write
  bool input_lasts_ = false;
  InPlace in_place_ = InPlace::kNothing;
  Roaming roaming_ = Roaming::kAsBefore;
  bool settled_ = true;  // Plan::settle() has succeeded, or the call does not need it
};

}  // namespace horing
