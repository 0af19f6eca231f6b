// What follows from a communicator's measurement is kept for later ones, and found again.
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/cache_folder.h"
#include "base/printable.h"
#include "comm/communicator.h"
#include "selection/kept_table.h"

namespace horing {

namespace {

// What is predicted for one machine by a library with another number may differ: to be raised when the simulator, or what is measured
// for it, changes.
constexpr int kModelVersion = 5;
constexpr size_t kMostHosts = 8;
// Rank 0's word instead of a table, which it cannot be.
constexpr const char* kMeasureFirst = "measure";
// That measure themselves: to predict for more takes rank 0 longer than users expect of a start.
constexpr int kMostMeasuredRanks = 256;

std::string cpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      return printable(line.substr(std::min(line.find(": "), line.size() - 2) + 2), 80);
  return "a CPU without a name";
}

std::string kernelRelease() {
  utsname names{};
  return ::uname(&names) == 0 ? printable(names.release, 60) : "";
}

// "node-#": the hosts of a cluster are numbered, and a job gets others of them each time.
std::string withoutNumbers(const std::string& host) {
  std::string kind;
  for (const char letter : printable(host, 60)) {
    const bool is_digit = letter >= '0' && letter <= '9';
    if (!is_digit || kind.empty() || kind.back() != '#') kind += is_digit ? '#' : letter;
  }
  return kind;
}

template <typename Words>
std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

}  // namespace

// What a collective takes depends on all of this, and hardly on which of a cluster's hosts a job gets.
KeptFor Communicator::keptFor() const {
  std::set<std::string> hosts, transports;
  size_t least_cpus = SIZE_MAX, most_cpus = 0;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const HostIdentity& identity = job_->identityOf(rank);
    if (hosts.size() < kMostHosts) hosts.insert(withoutNumbers(identity.host_name));
    least_cpus = std::min(least_cpus, identity.cpus.size());
    most_cpus = std::max(most_cpus, identity.cpus.size());
    const int choice = rank == options_.rank ? -1 : connector_->choiceFor(rank);
    if (choice >= 0) transports.insert(connector_->transports()[static_cast<size_t>(choice)]->name());
  }
  int32_t least_cores = INT32_MAX;
  const auto kernels = job_->kernels();
  for (const auto& [boot_id, load] : kernels) least_cores = std::min(least_cores, load.cores);
  const std::string& rail = job_->railOf(options_.rank);
  const GroupMap& map = job_->map();
  const Config& c = options_.config;
  const auto number = [](int64_t value) { return static_cast<long long>(value); };
  return {
      formatString(
          "%d groups of %d to %d ranks by %s, on %zu hosts like %s (%s%s%s); %d cores, a rank may use "
          "%zu to %zu, ranks per core %s; slots %lld %lld %lld of %lld bytes",
          map.groups(), map.smallestGroup(), map.largestGroup(), joined(transports).c_str(), kernels.size(),
          joined(hosts).c_str(), cpuModel().c_str(), rail.empty() ? "" : ", ", printable(rail, 80).c_str(),
          least_cores, least_cpus, most_cpus, ranksPerCoreText(job_->shape().ranks_per_core),
          number(c.window), number(c.slots), number(c.socket_slots), number(c.slice_bytes)),
      formatString("model %d, table %016llx, kernel %s", kModelVersion,
                   static_cast<unsigned long long>(SelectionTable::builtIn().digest()),
                   kernelRelease().c_str())};
}

// What was measured in a hurry is not to take the place of what horing-tune measured.
void Communicator::keepFirst(const std::string& text) const {
  const KeptTables kept(cacheFolder(options_.config.cache_dir));
  if (kept.folder().empty() || options_.config.selection != kSelectionAuto) return;
  const KeptFor what = keptFor();
  const Result<std::optional<SelectionTable>> known = kept.find(what);
  if (known.ok() && known.value()) return;
  const Status status = kept.keep(what, text);
  if (status.ok()) {
    log_.info("init", "later jobs like this one choose by %s", kept.pathFor(what).c_str());
  } else {
    log_.warn("init", "what was measured is not kept (HORING_CACHE_DIR=off: nothing is): %s",
              status.message().c_str());
  }
}

// Inside a node the built-in table is better than predictions (selection/README.md), so that there is nothing to measure for.
bool Communicator::measuresItself() const {
  return first_measures_ && job_->map().groups() > 1 && options_.ranks <= kMostMeasuredRanks;
}

// Rank 0's: a table, kMeasureFirst, or nothing where the built-in table chooses.
std::string Communicator::findKept() {
  const KeptTables kept(cacheFolder(options_.config.cache_dir));
  const KeptFor what = keptFor();
  const std::string path = kept.pathFor(what);
  const Result<std::optional<SelectionTable>> found = kept.find(what);
  if (found.ok() && found.value()) {
    log_.info("init", "what was measured chooses: %s", path.c_str());
    table_from_ = path;
    return found.value()->text();
  }
  const std::string why = found.ok() ? "nothing was measured for " + what.job
                                     : path + " cannot serve: " + found.status().message();
  if (measuresItself()) {
    log_.info("init", "measured now, once (HORING_CALIBRATE=0: never): %s", why.c_str());
    return kMeasureFirst;
  }
  if (found.ok()) {
    log_.info("init", "the built-in table chooses: %s (horing-tune does, started as this job is)",
              why.c_str());
  } else {
    log_.warn("init", "the built-in table chooses, for %s; let horing-tune measure again, or remove it",
              why.c_str());
  }
  return "";
}

// Rank 0 looks, and every rank reads what it found. Whatever is wrong with that, the built-in table chooses.
Status Communicator::selectByKept() {
  HORING_ASSIGN(const std::string first, textOfFirst(options_.rank == 0 ? findKept() : ""));
  if (first != kMeasureFirst) return chooseByText(first);
  HORING_TRY(learnMachine());
  return selectByModel();
}

}  // namespace horing
