#pragma once
// What was measured for jobs like this one is kept for later ones, and found again.
#include <string>

#include "comm/communicator.h"
#include "selection/kept_table.h"

namespace horing {

// Jobs like this one. Its versions are those of this machine and library.
KeptFor keptFor(const Communicator& communicator);

// Of rank 0. What was measured in a hurry does not take the place of what horing-tune measured.
void keepUnlessKnown(const Communicator& communicator, const std::string& table);

// A table, and where it was found; both empty: nothing is kept, and the log says why.
struct KeptTable {
  std::string text;
  std::string path;
};
// Of rank 0. `measures`: whether it is measured now where nothing is kept.
KeptTable findKept(const Communicator& communicator, bool measures);

}  // namespace horing
