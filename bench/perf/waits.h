#pragma once
// The ranks that a rank waited for, read from the metrics files of the library (HORING_METRICS, docs/metrics.md).
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace horing::perf {

struct Wait {
  int peer = -1;  // -1: nobody
  double data_s = 0;
  double room_s = 0;

  double seconds() const { return data_s + room_s; }
};

// All of one file, longest first.
std::vector<Wait> waitsIn(std::string_view metrics);

// A line for each, by rank.
std::string waitsText(const std::vector<std::vector<Wait>>& by_rank);

// The folder of these files. A resource.
class MetricsFolder {
 public:
  // That of HORING_METRICS, or a new one, which is removed at the end, or by a later process if this one is killed. Errors: kSystemError, also
  // where no file can be made in the folder.
  static Result<MetricsFolder> open();
  MetricsFolder(MetricsFolder&& other) noexcept;
  ~MetricsFolder();

  const std::string& path() const { return path_; }
  // Of a rank of this process that has one communicator; empty if there is no file of it. The newest file counts: a killed job may have left
  // one of the same rank and process number, as containers count from 1.
  std::vector<Wait> waitsOf(int rank) const;

 private:
  MetricsFolder() = default;

  std::string path_;
  bool is_own_ = false;
  Fd lock_;  // of its own folder: it is in use
};

}  // namespace horing::perf
