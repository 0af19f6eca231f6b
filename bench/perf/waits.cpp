#include "perf/waits.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/number.h"

namespace horing::perf {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName = "horing_wait_seconds_total{";
constexpr std::string_view kFolder = "horing_perf_";
// Until a new folder is locked before another process takes it for one that is left.
constexpr int kMostAttempts = 10;

// What follows `before` in the line.
std::string_view after(std::string_view line, std::string_view before) {
  const size_t at = line.find(before);
  return at == std::string_view::npos ? std::string_view() : line.substr(at + before.size());
}

// Of a folder of this user; not valid, with errno, while another process holds it, or where there are no locks.
Fd lockFolder(const fs::path& path) {
  Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat is {};
  const bool is_ours = folder.valid() && ::fstat(folder.get(), &is) == 0 && is.st_uid == ::geteuid();
  return is_ours && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(folder) : Fd();
}

// Those of killed processes, whose locks are gone.
void removeLeftFolders(const fs::path& parent) {
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, failed))
    if (entry.path().filename().string().starts_with(kFolder))
      if (const Fd lock = lockFolder(entry.path()); lock.valid()) fs::remove_all(entry.path(), failed);
}

Status tryToWrite(const std::string& folder) {
  std::string name = folder + "/horing_perf_XXXXXX";
  const Fd file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.valid())
    return systemError(errno, "cannot write to %s, the folder of HORING_METRICS", folder.c_str());
  ::unlink(name.c_str());
  return {};
}

}  // namespace

std::vector<Wait> waitsIn(std::string_view metrics) {
  std::vector<Wait> waits;
  for (; !metrics.empty(); metrics = after(metrics, "\n")) {
    const std::string_view line = metrics.substr(0, metrics.find('\n'));
    if (!line.starts_with(kName)) continue;
    std::string_view peer_text = after(line, "peer=\""), seconds_text = after(line, "} ");
    const std::optional<int> peer = takeNumber<int>(peer_text);
    const std::optional<double> seconds = takeNumber<double>(seconds_text);
    if (!peer || !seconds) continue;
    auto found =
        std::find_if(waits.begin(), waits.end(), [&](const Wait& wait) { return wait.peer == *peer; });
    if (found == waits.end()) found = waits.insert(found, {*peer, 0, 0});
    (after(line, "for=\"").starts_with("room") ? found->room_s : found->data_s) = *seconds;
  }
  std::stable_sort(waits.begin(), waits.end(),
                   [](const Wait& a, const Wait& b) { return a.seconds() > b.seconds(); });
  return waits;
}

std::string waitsText(const std::vector<std::vector<Wait>>& by_rank) {
  if (std::ranges::all_of(by_rank, &std::vector<Wait>::empty))
    return "# No rank waited for another, or the metrics could not be written: then a warning above says "
           "why\n#\n";
  std::string text =
      "# For whom each rank waited most, in all calls: for data from it, and for room to send to it\n";
  text += formatString("# %5s  %5s  %10s  %10s\n", "rank", "for", "data", "room");
  text += formatString("# %5s  %5s  %10s  %10s\n", "", "rank", "(s)", "(s)");
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    for (const Wait& wait : by_rank[rank])
      text += formatString("# %5zu  %5d  %10.3f  %10.3f\n", rank, wait.peer, wait.data_s, wait.room_s);
  return text + "#\n";
}

Result<MetricsFolder> MetricsFolder::open() {
  MetricsFolder folder;
  if (const char* const given = std::getenv("HORING_METRICS"); given && *given) {
    folder.path_ = given;
    HORING_TRY(tryToWrite(folder.path_));
    return folder;
  }
  std::error_code failed;
  const fs::path parent = fs::temp_directory_path(failed);
  removeLeftFolders(parent);
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    std::string name = (parent / (std::string(kFolder) + "XXXXXX")).string();
    if (failed || !::mkdtemp(name.data()))
      return systemError(failed ? failed.value() : errno, "no folder for metrics: %s", name.c_str());
    folder.path_ = name;
    folder.lock_ = lockFolder(name);
    const bool is_taken = !folder.lock_.valid() && errno == EWOULDBLOCK;
    if (!is_taken && fs::exists(name, failed)) break;
  }
  folder.is_own_ = true;
  return folder;
}

MetricsFolder::MetricsFolder(MetricsFolder&& other) noexcept
    : path_(std::move(other.path_)),
      is_own_(std::exchange(other.is_own_, false)),
      lock_(std::move(other.lock_)) {}

MetricsFolder::~MetricsFolder() {
  std::error_code ignored;
  if (is_own_) fs::remove_all(path_, ignored);
}

std::vector<Wait> MetricsFolder::waitsOf(int rank) const {
  const std::string end = formatString("-rank%d-%d.prom", rank, static_cast<int>(getpid()));
  std::error_code failed;
  fs::path newest;
  fs::file_time_type newest_time;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, failed)) {
    if (!entry.path().filename().string().ends_with(end)) continue;
    const fs::file_time_type time = entry.last_write_time(failed);
    if (failed || (!newest.empty() && time <= newest_time)) continue;
    newest = entry.path();
    newest_time = time;
  }
  std::ifstream file(newest);
  return waitsIn(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace horing::perf
