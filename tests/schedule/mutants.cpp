#include "mutants.h"

namespace horing {

namespace {

class Mutator {
 public:
  explicit Mutator(const Schedule& schedule) : original_(schedule) {}

  std::vector<Mutant> all() {
    for (lane_ = 0; lane_ < original_.lanes.size(); ++lane_)
      for (block_ = 0; block_ < original_.lanes[lane_].blocks.size(); ++block_) {
        mutateBlock();
        for (step_ = 0; step_ < block(original_).body.size(); ++step_) {
          mutateStep();
          mutateSources();
          mutateTargets();
          mutateSignals();
          mutateWait();
        }
      }
    if (original_.scratch_queues > 0)
      add("has one scratch queue less", [](Schedule& s) { --s.scratch_queues; });
    return std::move(mutants_);
  }

 private:
  Block& block(Schedule& schedule) const { return schedule.lanes[lane_].blocks[block_]; }
  const Block& block(const Schedule& schedule) const { return schedule.lanes[lane_].blocks[block_]; }
  const Step& original() const { return block(original_).body[step_]; }

  void add(const std::string& fault, const std::function<void(Schedule&)>& change) {
    Mutant mutant{formatString("position %d, lane %zu, block %zu, step %zu: ", original_.position, lane_,
                               block_, step_) +
                      fault,
                  original_};
    change(mutant.schedule);
    mutants_.push_back(std::move(mutant));
  }
  void onStep(const std::string& fault, const std::function<void(Step&)>& change) {
    add(fault, [&](Schedule& schedule) { change(block(schedule).body[step_]); });
  }
  int32_t otherPeer(int32_t peer) const {
    do peer = (peer + 1) % original_.ranks;
    while (peer == original_.position);
    return peer;
  }

  void mutateBlock() {
    step_ = 0;
    add("repeats once more", [this](Schedule& s) { ++block(s).count; });
    add("repeats once less", [this](Schedule& s) { --block(s).count; });
    if (block(original_).count == 1) return;
    if (original_.grid.rows > 1) add("moves one row more", [this](Schedule& s) { ++block(s).row_stride; });
    if (original_.grid.columns > 1)
      add("moves one column more", [this](Schedule& s) { ++block(s).column_stride; });
  }

  void mutateStep() {
    add("is left out", [this](Schedule& s) {
      auto& body = block(s).body;
      body.erase(body.begin() + static_cast<std::ptrdiff_t>(step_));
    });
    add("happens twice", [this](Schedule& s) {
      auto& body = block(s).body;
      body.insert(body.begin() + static_cast<std::ptrdiff_t>(step_), original());
    });
    if (step_ + 1 < block(original_).body.size())
      add("changes places with the next",
          [this](Schedule& s) { std::swap(block(s).body[step_], block(s).body[step_ + 1]); });
    if (original_.grid.chunks() > 1)
      onStep("takes the next chunk",
             [this](Step& step) { step.chunk = (step.chunk + 1) % original_.grid.chunks(); });
    onStep("is wrong about completing", [](Step& step) { step.completes = !step.completes; });
    onStep("takes a chunk outside the grid", [this](Step& step) { step.chunk = original_.grid.chunks(); });
  }

  void mutateSources() {
    const std::vector<Source>& sources = original().sources;
    for (size_t i = 0; i < sources.size(); ++i) {
      const std::string name = formatString("source %zu ", i);
      onStep(name + "is left out",
             [i](Step& step) { step.sources.erase(step.sources.begin() + static_cast<std::ptrdiff_t>(i)); });
      onStep(name + "comes twice", [i](Step& step) { step.sources.push_back(step.sources[i]); });
      for (Source::Kind kind : {Source::Kind::kRecv, Source::Kind::kIn, Source::Kind::kOut,
                                Source::Kind::kScratch, Source::Kind::kPeerIn, Source::Kind::kSignal}) {
        if (kind == sources[i].kind) continue;
        const bool has_peer = kind == Source::Kind::kPeerIn || takesMessage({kind, 0});
        const int32_t index = has_peer ? otherPeer(original_.position) : 0;
        onStep(name + "is of another kind", [=](Step& step) { step.sources[i] = {kind, index}; });
      }
      if (takesMessage(sources[i]) || sources[i].kind == Source::Kind::kPeerIn) {
        if (original_.ranks > 2)
          onStep(name + "is another peer",
                 [=, this](Step& step) { step.sources[i].index = otherPeer(sources[i].index); });
        onStep(name + "is itself", [=, this](Step& step) { step.sources[i].index = original_.position; });
      }
      if (sources[i].kind == Source::Kind::kScratch)
        onStep(name + "is another queue", [i](Step& step) { ++step.sources[i].index; });
    }
  }

  void mutateSignals() {
    for (size_t i = 0; i < original().signal_to.size(); ++i) {
      onStep(formatString("signal %zu is left out", i), [i](Step& step) {
        step.signal_to.erase(step.signal_to.begin() + static_cast<std::ptrdiff_t>(i));
      });
      onStep(formatString("signal %zu goes out twice", i),
             [i](Step& step) { step.signal_to.push_back(step.signal_to[i]); });
      onStep(formatString("signal %zu goes to itself", i),
             [=, this](Step& step) { step.signal_to[i] = original_.position; });
      if (original_.ranks > 2)
        onStep(formatString("signal %zu goes to another peer", i),
               [=, this](Step& step) { step.signal_to[i] = otherPeer(step.signal_to[i]); });
    }
    if (original().signal_to.empty())
      onStep("signals", [this](Step& step) { step.signal_to = {otherPeer(original_.position)}; });
  }

  void mutateTargets() {
    const Step& step = original();
    for (Keep::Kind kind :
         {Keep::Kind::kNone, Keep::Kind::kOut, Keep::Kind::kEveryOut, Keep::Kind::kScratch}) {
      if (kind == step.keep.kind) continue;
      onStep(kind == Keep::Kind::kNone       ? "keeps nothing"
             : kind == Keep::Kind::kOut      ? "keeps in out"
             : kind == Keep::Kind::kEveryOut ? "keeps in out of all"
                                             : "keeps in scratch",
             [kind](Step& s) {
               s.keep = {kind, 0};
             });
    }
    if (step.keep.kind == Keep::Kind::kScratch)
      onStep("keeps in another queue", [](Step& s) { ++s.keep.index; });
    if (step.send_to == -1) {
      onStep("sends", [this](Step& s) { s.send_to = otherPeer(original_.position); });
    } else {
      onStep("does not send", [](Step& s) { s.send_to = -1; });
      onStep("sends to itself", [this](Step& s) { s.send_to = original_.position; });
      if (original_.ranks > 2)
        onStep("sends to another peer", [this](Step& s) { s.send_to = otherPeer(s.send_to); });
    }
  }

  // Whether the lane has waited for as much before, or the awaited step is of another chunk.
  const char* whatFor(const Wait& wait) const {
    for (StepCursor before(original_.lanes[lane_], original_.grid); !before.done(); before.next()) {
      if (before.block() == block_ && before.bodyIndex() == step_) break;
      if (before.step().wait.lane == wait.lane && before.waitStep() >= wait.step) return " again";
    }
    const Lane& other = original_.lanes[static_cast<size_t>(wait.lane)];
    for (StepCursor awaited(other, original_.grid); !awaited.done(); awaited.next())
      if (awaited.index() == wait.step)
        return awaited.chunk() == original().chunk ? "" : " for another chunk";
    return "";
  }

  void mutateWait() {
    const Wait& wait = original().wait;
    if (wait.lane == -1) return;
    const char* const what_for = whatFor(wait);
    onStep(formatString("drops the wait%s", what_for), [](Step& s) { s.wait = {}; });
    onStep(formatString("waits one step less%s", what_for), [](Step& s) { --s.wait.step; });
    if (block(original_).count > 1) onStep("waits with one stride less", [](Step& s) { --s.wait.stride; });
    for (int32_t lane = 0; lane <= static_cast<int32_t>(original_.lanes.size()); ++lane)
      if (lane != wait.lane)
        onStep(formatString("waits for lane %d%s", lane, what_for), [lane](Step& s) { s.wait.lane = lane; });
  }

  const Schedule& original_;
  size_t lane_ = 0, block_ = 0, step_ = 0;
  std::vector<Mutant> mutants_;
};

}  // namespace

std::vector<Mutant> mutantsOf(const Schedule& schedule) {
  return Mutator(schedule).all();
}

}  // namespace horing
