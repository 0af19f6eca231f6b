#include "comm/tuning/kept.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/cache_folder.h"
#include "base/printable.h"

namespace horing {

namespace {

constexpr size_t kMostHosts = 8;
std::string cpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      return printable(line.substr(std::min(line.find(": "), line.size() - 2) + 2), 80);
  return "a CPU without a name";
}

// "node-#": the hosts of a cluster are numbered, and a job gets different hosts each time.
std::string withoutNumbers(const std::string& host) {
  std::string kind;
  for (const char letter : printable(host, 60)) {
    const bool is_digit = letter >= '0' && letter <= '9';
    if (!is_digit || kind.empty() || kind.back() != '#') kind += is_digit ? '#' : letter;
  }
  return kind;
}

// Links of different speeds make a different machine. A rank cannot see the speed of horing-run's emulated links elsewhere, so it is read
// from the environment.
std::string emulatedLinks() {
  const char* const rates = std::getenv("HORING_RUN_RATES_MBIT");  // set if the rates differ
  const char* const rate = rates ? rates : std::getenv("HORING_RUN_RATE_MBIT");
  const char* const names = std::getenv("HORING_RUN_INTERFACES");
  if (!rate || !names) return "";
  return formatString("; links %s of %s Mbit/s", printable(names, 80).c_str(), printable(rate, 20).c_str());
}

template <typename Words>
std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

}  // namespace

// The time of a collective depends on all of this, and hardly on which hosts of a cluster a job gets.
KeptFor keptFor(const Communicator& communicator) {
  const Membership& membership = communicator.membership();
  const Placement& placement = membership.placement();
  std::set<std::string> hosts, transports;
  size_t least_cpus = SIZE_MAX, most_cpus = 0;
  for (int rank = 0; rank < membership.ranks(); ++rank) {
    const HostIdentity& identity = placement.identityOf(rank);
    if (hosts.size() < kMostHosts) hosts.insert(withoutNumbers(identity.host_name));
    least_cpus = std::min(least_cpus, identity.cpus.size());
    most_cpus = std::max(most_cpus, identity.cpus.size());
    if (rank != membership.rank()) transports.insert(communicator.reach().transportTo(rank));
  }
  int32_t least_cores = INT32_MAX;
  const auto kernels = placement.kernels();
  for (const auto& [boot_id, load] : kernels) least_cores = std::min(least_cores, load.cores);
  const std::string& rail = placement.railOf(membership.rank());
  const GroupMap& map = placement.map();
  const Config& c = membership.options().config;
  const auto number = [](int64_t value) { return static_cast<long long>(value); };
  return {
      keptShapeText(placement.shape(), map.sizes()) +
          formatString(
              "by %s, on %zu hosts like %s (%s%s%s); %d cores, a rank may use %zu to %zu; slots %lld %lld "
              "%lld of %lld bytes%s",
              joined(transports).c_str(), kernels.size(), joined(hosts).c_str(), cpuModel().c_str(),
              rail.empty() ? "" : ", ", printable(rail, 80).c_str(), least_cores, least_cpus, most_cpus,
              number(c.window), number(c.slots), number(c.socket_slots), number(c.slice_bytes),
              emulatedLinks().c_str()),
      keptVersions()};
}

void keepUnlessKnown(const Communicator& communicator, const std::string& table) {
  const Membership& membership = communicator.membership();
  // Nothing is written unless the user asked for it.
  const Config& config = membership.options().config;
  if (config.cache_dir.empty() || config.cache_dir == kNoCache || config.selection != kSelectionAuto) return;
  const KeptTables kept(config.cache_dir);
  const KeptFor what = keptFor(communicator);
  const Result<std::optional<SelectionTable>> known = kept.find(what);
  if (known.ok() && known.value()) return;
  const Status status = kept.keep(what, table);
  const Log& log = membership.log();
  if (status.ok()) {
    log.info("init", "later jobs like this one choose by %s", kept.pathFor(what).c_str());
  } else {
    log.warn("init", "the measurements are not kept (HORING_CACHE_DIR=off: none are): %s",
             status.message().c_str());
  }
}

KeptTable findKept(const Communicator& communicator, bool measures) {
  const Membership& membership = communicator.membership();
  const KeptTables kept(cacheFolder(membership.options().config.cache_dir));
  const KeptFor what = keptFor(communicator);
  const std::string path = kept.pathFor(what);
  const Result<std::optional<SelectionTable>> found = kept.find(what);
  const Log& log = membership.log();
  if (found.ok() && found.value()) {
    log.info("init", "the measurements select algorithms: %s", path.c_str());
    return {found.value()->text(), path};
  }
  const std::string why = found.ok() ? "no measurement is kept for " + what.job
                                     : path + " cannot serve: " + found.status().message();
  if (measures) {
    const bool is_kept = !membership.options().config.cache_dir.empty();
    log.info("init", "%s: measured now, %s (HORING_CALIBRATE=0: never)", why.c_str(),
             is_kept ? "once" : "and kept nowhere (HORING_CACHE_DIR=DIR: there)");
  } else if (found.ok()) {
    log.info("init", "the built-in table chooses: %s (horing-tune keeps one, started as this job is)",
             why.c_str());
  } else {
    log.warn("init", "the built-in table chooses, for %s; let horing-tune measure again, or remove it",
             why.c_str());
  }
  return {};
}

}  // namespace horing
