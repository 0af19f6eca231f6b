// Member y of group r owns some pieces of its group's part (schedule/rails.h). So a rank's schedule for groups of different sizes is the
// schedule for groups that are all as large as its own, with three changes:
//
//   chunks   chunk (r, y) becomes the pieces (r, p) that member y of its own group owns;
//   peers    inside the group unchanged; in another group the rank that owns the piece;
//   order    two messages of one step may not go to the same rank, or connections would need more slots than a window has.
//            Between groups, pieces that two ranks both own take turns: a lane is run once for each turn (Rails::turns()).
//            Inside a group, rows are: first the first piece of every member, then the second ones, ...; each handed
//            from lane to lane through a scratch queue of its own.
//
// With groups of one size each member owns one piece, and nothing changes. Order of slices for the proof of progress (README.md): (window,
// turn, row, inner before outer when reducing and after it when gathering; then outer by piece, inner by place among the member's pieces
// and hop; slice).
#include "algorithms/spread.h"

#include <algorithm>
#include <span>

namespace horing {

namespace {

class Spread {
 public:
  Spread(const Schedule& even, const Rails& rails, int32_t position)
      : even_(even), rails_(rails), group_(rails.groupOf(position)), members_(rails.sizeOf(group_)) {
    pieces_.resize(static_cast<size_t>(rails.turns()) * static_cast<size_t>(members_));
    for (int32_t member = 0; member < members_; ++member) {
      const Rails::Range range = rails.piecesOf(group_, member);
      for (int32_t piece = range.begin; piece < range.end; ++piece)
        pieces_[pieceIndex(piece % rails.turns(), member)].push_back(piece);
    }
    for (const std::vector<int32_t>& pieces : pieces_)
      most_ = std::max(most_, static_cast<int32_t>(pieces.size()));
  }

  Schedule make(Collective collective) {
    schedule_.rails = rails_;
    schedule_.grid = {even_.grid.rows, rails_.pieces()};
    schedule_.scratch_queues = even_.scratch_queues * most_;
    // A rank alone in its group has nothing to reduce inside it, but keeps an empty lane: lane numbers are the same on all ranks.
    if (members_ == 1 && collective != Collective::kAllGather) schedule_.lanes.emplace_back();
    lanes_before_ = static_cast<int32_t>(schedule_.lanes.size());
    for (const Lane& lane : even_.lanes) addLane(lane);
    return std::move(schedule_);
  }

 private:
  // The new steps of a lane's steps.
  struct Moments {
    struct Block {
      int32_t first_step = 0;       // in the even lane
      size_t first_written = 0;     // of its bodies' steps
      int32_t body = 0;             // steps
      std::vector<int32_t> bodies;  // by turn: steps of the new body
    };
    std::vector<Block> blocks;
    std::vector<int32_t> step;  // [(written * turns + turn) * most + place]: in its first iteration
  };
  // A piece for which a step is made.
  struct Piece {
    int32_t number = 0;
    int32_t turn = 0;
    int32_t place = 0;  // among the pieces of its member in that turn
  };

  size_t pieceIndex(int32_t turn, int32_t member) const {
    return static_cast<size_t>(turn) * static_cast<size_t>(members_) + static_cast<size_t>(member);
  }

  int32_t rowOf(const Step& step) const { return step.chunk / even_.grid.columns; }
  bool isInside(int32_t peer) const { return peer / members_ == even_.position / members_; }
  int32_t peerOf(int32_t peer, int32_t piece) const {
    const int32_t group = peer / members_;
    return isInside(peer) ? rails_.firstOf(group_) + peer % members_ : rails_.bearer(group, piece);
  }
  size_t momentIndex(size_t written, const Piece& piece) const {
    return (written * static_cast<size_t>(rails_.turns()) + static_cast<size_t>(piece.turn)) *
               static_cast<size_t>(most_) +
           static_cast<size_t>(piece.place);
  }

  void addLane(const Lane& lane) {
    Moments& moments = moments_.emplace_back();
    int32_t steps = 0;
    size_t written = 0;
    for (const Block& block : lane.blocks) {
      moments.blocks.push_back({steps, written, static_cast<int32_t>(block.body.size()), {}});
      steps += static_cast<int32_t>(block.body.size()) * block.count;
      written += block.body.size();
    }
    moments.step.resize(momentIndex(written, {}));
    Lane made;
    int32_t made_steps = 0;
    for (int32_t turn = 0; turn < rails_.turns(); ++turn)
      for (size_t b = 0; b < lane.blocks.size(); ++b) {
        Block block =
            spreadBlock(lane.blocks[b], moments, moments.blocks[b].first_written, {turn, made_steps});
        moments.blocks[b].bodies.push_back(static_cast<int32_t>(block.body.size()));
        made_steps += static_cast<int32_t>(block.body.size()) * block.count;
        if (!block.body.empty()) made.blocks.push_back(std::move(block));
      }
    schedule_.lanes.push_back(std::move(made));
  }

  struct At {
    int32_t turn;
    int32_t step;  // of the new lane
  };
  Block spreadBlock(const Block& block, Moments& moments, size_t written, At at) {
    Block made{{}, block.count, block.row_stride, 0};  // repetitions advance by rows
    const std::span<const Step> body = block.body;
    for (size_t begin = 0, end = 0; begin < body.size(); begin = end) {
      while (end < body.size() && rowOf(body[end]) == rowOf(body[begin])) ++end;
      for (int32_t place = 0; place < most_; ++place)
        for (size_t s = begin; s < end; ++s) {
          const std::vector<int32_t>& pieces =
              pieces_[pieceIndex(at.turn, body[s].chunk % even_.grid.columns)];
          if (static_cast<size_t>(place) >= pieces.size()) continue;
          const Piece piece{pieces[static_cast<size_t>(place)], at.turn, place};
          moments.step[momentIndex(written + s, piece)] = at.step + static_cast<int32_t>(made.body.size());
          made.body.push_back(spreadStep(body[s], block.count, piece));
        }
    }
    return made;
  }

  Step spreadStep(const Step& even, int32_t count, const Piece& piece) const {
    Step step = even;
    step.chunk = rowOf(even) * rails_.pieces() + piece.number;
    for (Source& source : step.sources) {
      if (source.kind == Source::Kind::kRecv) source.index = peerOf(source.index, piece.number);
      if (source.kind == Source::Kind::kScratch) source.index = source.index * most_ + piece.place;
    }
    if (step.keep.kind == Keep::Kind::kScratch) step.keep.index = step.keep.index * most_ + piece.place;
    if (step.send_to >= 0) step.send_to = peerOf(step.send_to, piece.number);
    if (even.wait.lane < 0) return step;
    const Moments& moments = moments_[static_cast<size_t>(even.wait.lane)];
    step.wait = {even.wait.lane + lanes_before_, momentOf(moments, even.wait.step, piece), 0};
    if (count > 1)
      step.wait.stride = momentOf(moments, even.wait.step + even.wait.stride, piece) - step.wait.step;
    return step;
  }

  // The new step for step `even` of a lane and a piece.
  int32_t momentOf(const Moments& moments, int32_t even, const Piece& piece) const {
    const auto next =
        std::upper_bound(moments.blocks.begin(), moments.blocks.end(), even,
                         [](int32_t step, const Moments::Block& block) { return step < block.first_step; });
    const Moments::Block& block = *(next - 1);
    const int32_t iteration = (even - block.first_step) / block.body;
    const size_t written = block.first_written + static_cast<size_t>((even - block.first_step) % block.body);
    return moments.step[momentIndex(written, piece)] +
           iteration * block.bodies[static_cast<size_t>(piece.turn)];
  }

  const Schedule& even_;
  const Rails& rails_;
  int32_t group_, members_;
  std::vector<std::vector<int32_t>> pieces_;  // the pieces of a member of this group in a turn: pieceIndex()
  int32_t most_ = 1;                          // the largest number of them
  int32_t lanes_before_ = 0;
  std::vector<Moments> moments_;  // of the even lanes
  Schedule schedule_;
};

}  // namespace

Schedule spreadOverRails(const Schedule& even, const Rails& rails, int32_t position) {
  return Spread(even, rails, position).make(even.collective);
}

}  // namespace horing
