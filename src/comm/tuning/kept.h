#pragma once
// Stores the table that was measured for a job, and finds it again for later jobs that are like it.
#include <string>

#include "comm/communicator.h"
#include "selection/kept_table.h"

namespace horing {

// Describes the jobs that are like this one. Its versions are the versions of this machine and library.
KeptFor keptFor(const Communicator& communicator);

// Rank 0 only. A quickly measured table does not replace one that horing-tune measured.
void keepUnlessKnown(const Communicator& communicator, const std::string& table);

// A table, and where it was found. Both are empty if no table is stored; the log says why.
struct KeptTable {
  std::string text;
  std::string path;
};
// Rank 0 only. `measures`: whether the job measures now if no table is stored.
KeptTable findKept(const Communicator& communicator, bool measures);

}  // namespace horing
