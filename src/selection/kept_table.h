#pragma once
// Tables that a measurement led to, as files that later jobs of the same kind find by themselves: what HORING_SELECTION takes, after
// lines that say what for. They hold the choice and not the machine alone, for to predict it takes 100 ms for 8 ranks, and seconds for 1000.
#include <optional>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/status.h"
#include "selection/selection_table.h"

namespace horing {

// What a table was made for, in words of printable ASCII. A value.
struct KeptFor {
  std::string job;       // shape, binding, transports, hosts and settings: it names the file
  std::string versions;  // of what else it follows from: who finds others knows that the file is out of date
};

// In one folder (cacheFolder()); empty: there are none. A value.
class KeptTables {
 public:
  explicit KeptTables(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  // What is kept for all kinds of jobs, sorted; at most kMostListed.
  static constexpr size_t kMostListed = 1000;
  std::vector<std::string> paths() const;
  std::string pathFor(const KeptFor& what) const;
  // Whether files can be put there; makes the folder, but none above it, where it is missing.
  bool canKeep() const;
  // Nothing: none is kept. Errors: those of readWhole() and parseKept().
  Result<std::optional<SelectionTable>> find(const KeptFor& what) const;
  // `text`: a table. In place of what was kept. Errors: those of replaceWhole(); there is no folder.
  Status keep(const KeptFor& what, std::string_view text) const;

 private:
  std::string folder_;
};

std::string keptText(const KeptFor& what, std::string_view table);
// Hostile text. Errors say what is wrong with it: it is of another job, out of date, damaged (cut off, changed by hand), or no table.
Result<SelectionTable> parseKept(const KeptFor& what, std::string_view text);
// The line of such a text that says what it is for, for people; empty: it has none.
std::string keptForLine(std::string_view text);

}  // namespace horing
