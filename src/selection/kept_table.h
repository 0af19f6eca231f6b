#pragma once
// Selection tables from measurements, cached in files for later jobs of the same kind: the format of HORING_SELECTION after header lines
// that identify the jobs. They hold the selection and not only the machine model, since a prediction takes 100 ms for 8 ranks, and seconds
// for 1000.
#include <optional>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/status.h"
#include "selection/selection_table.h"

namespace horing {

// The jobs that a table was made for, as printable ASCII. A value.
struct KeptFor {
  std::string job;  // shape, binding, transports, hosts and settings: it names the file
  std::string
      versions;  // versions of everything else that it depends on: a file with other versions is out of date
};

// How `job` begins. `sizes`: of the groups, in any order.
std::string keptShapeText(const JobShape& shape, std::vector<int32_t> sizes);
// `versions` of this library on this machine.
std::string keptVersions();

// The tables in one folder (cacheFolder()); empty: none. A value.
class KeptTables {
 public:
  explicit KeptTables(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  // The tables for all kinds of jobs, sorted; at most kMostListed.
  static constexpr size_t kMostListed = 1000;
  std::vector<std::string> paths() const;
  std::string pathFor(const KeptFor& what) const;
  // Whether files can be written; makes the folder if it is missing, but not its parents.
  bool canKeep() const;
  // Nothing: no table. Errors: as for readWhole() and parseKept().
  Result<std::optional<SelectionTable>> find(const KeptFor& what) const;
  struct Found {
    std::string path;
    std::string job;               // KeptFor::job, as a terminal may show it
    Result<SelectionTable> table;  // errors: as for parseKept()
  };
  // The tables for jobs of this shape with groups of these sizes, whatever else they say of the jobs; the latest first.
  std::vector<Found> forShape(const JobShape& shape, const std::vector<int32_t>& sizes) const;
  // Stores a table, replacing the old one. Errors: as for replaceWhole(); no folder.
  Status keep(const KeptFor& what, std::string_view text) const;

 private:
  std::string folder_;
};

std::string keptText(const KeptFor& what, std::string_view table);
// Parses untrusted text. Errors name the fault: for another job, out of date, damaged (truncated, edited), or no table.
Result<SelectionTable> parseKept(const KeptFor& what, std::string_view text);
// The header line that describes the jobs, for logs; empty: none.
std::string keptForLine(std::string_view text);

}  // namespace horing
