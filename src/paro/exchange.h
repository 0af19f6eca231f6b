#pragma once
// Blocks of ranks' groups, moved between groups of different sizes by messages: each rank exchanges with the ranks of other groups whose
// blocks overlap its own. Groups of 4 and 3, and what goes between them:
//
//   |   0   |   1   |   2   |   3   |     0 with 4, 1 with 4 and 5,
//   |    4     |    5     |    6    |     2 with 5 and 6, 3 with 6
//
// So a rank carries its block, a part of its group's traffic as large as its part of the vector.
#include <cstddef>
#include <vector>

#include "base/status.h"
#include "horing/horing.h"
#include "paro/backend.h"
#include "paro/grid.h"

namespace horing::paro {

// One call of a move that crosses rails, for this rank.
class Exchange {
 public:
  // For an all-reduce every rank is made the owner of a part of its block: the ranks whose blocks overlap share the overlap equally. For the
  // others a rank owns its block among all ranks.
  Exchange(const Grid& grid, const Move& move, const Padded& vector);

  // This rank's block, in which everything is in place.
  struct Data {
    std::byte* block;
    horingDataType_t type;
  };
  // Elements that scatter() receives.
  size_t received() const;
  // Sends each owner this rank's values of its part, and receives those of other ranks into `scratch`.
  Status scatter(const Data& data, std::byte* scratch, horingStream_t stream) const;
  // Adds up what scatter() received, in the order of groups after the own. `average`: of all ranks, where every value is the average of a
  // group.
  Status fold(Backend& backend, const Data& data, const std::byte* scratch, bool average) const;
  // Sends the own part to the ranks in whose blocks it is, and receives the parts of others.
  Status gather(const Data& data, horingStream_t stream) const;

 private:
  struct Message {
    int peer;
    Range range;  // of the vector
  };
  std::vector<Range> ownedBy(int rank) const;
  std::byte* at(const Data& data, const Range& range) const;
  // Receives in place, unless there is scratch.
  Status send(const std::vector<Message>& sent, const std::vector<Message>& received, const Data& data,
              std::byte* scratch, horingStream_t stream) const;

  const Grid& grid_;
  const bool is_all_reduce_;
  const Padded vector_;
  const Range block_;            // of this rank
  std::vector<size_t> cuts_;     // where blocks of any group begin or end
  std::vector<Range> own_;       // this rank's parts
  std::vector<Message> to_own_;  // what ranks of other groups have of them
  std::vector<Message> others_;  // parts of ranks of other groups in this rank's block
};

}  // namespace horing::paro
