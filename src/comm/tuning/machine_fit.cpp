#include "comm/tuning/machine_fit.h"

#include <algorithm>
#include <cmath>

namespace horing {

namespace {

// Rounds away the digits that are noise, for readability.
double rounded(double value) {
  if (value <= 0 || !std::isfinite(value)) return 0;
  const double unit = std::pow(10, std::floor(std::log10(value)) - 3);
  return std::round(value / unit) * unit;
}

double gbytesPerSecond(double bytes, double us) {
  return us > 0 ? bytes / us / 1000 : 0;
}

double microsecondsAt(double bytes, double gbytes_per_s) {
  return gbytes_per_s > 0 ? bytes / gbytes_per_s / 1000 : 0;
}

// The part of a reading that its bytes took. If noise made the reading without bytes nearly as long, at least half of the reading.
double bytesTime(double with_us, double without_us) {
  return std::max(with_us - without_us, with_us / 2);
}

// The smallest part of an exchange's time that its steps are taken to need, however noise distorted a burst.
constexpr double kLeastStep = 0.05;
// The time of a core that one exchange of a burst takes; the whole time of the exchange if no burst was measured.
double stepTime(double small_us, double burst_us) {
  if (burst_us <= 0) return small_us;
  return std::max((burst_us - small_us) / (kBurst - 1), kLeastStep * small_us);
}

// A pair that is slower than the median by this factor has a slower link.
constexpr double kUnequal = 1.5;
// Pairs that run at once share a line if they are slower than one pair alone by this factor.
constexpr double kSharedLine = 1.5;

// A burst is noise unless a rested link sends its first message faster than the next ones by this part of their time.
constexpr double kLeastBurst = 0.1;
// What a link passes at once if it has rested.
double burstBytes(const MachineReadings& readings) {
  const double next_us = (readings.far_rested_more_us - readings.far_rested_us) / (kRestedAtOnce - 1);
  const double first_us = std::max(readings.far_rested_us - readings.far_small_us, 0.0);
  const double saved_us = next_us - first_us;
  if (next_us <= 0 || saved_us < kLeastBurst * next_us) return 0;
  return saved_us / next_us * kRestedBytes;
}

// Ranks of a node that send at once and are slower share a line, whose rate they show better than one of them alone.
void fitOwnerOfNic(const MachineReadings& readings, double burst_bytes, MachineModel& machine) {
  machine.nic = Owner::kRank;
  if (readings.sharing <= 1 || readings.far_shared_us <= kSharedLine * readings.far_large_us) return;
  machine.nic = Owner::kNode;
  const double bytes = static_cast<double>(readings.large_bytes) * readings.sharing;
  const double all_us = bytesTime(readings.far_shared_us, readings.far_small_us);
  machine.between.gbytes_per_s =
      std::max(machine.between.gbytes_per_s, rounded(gbytesPerSecond(bytes - burst_bytes, all_us)));
}

}  // namespace

TimeOfPairs timeOfPairs(std::vector<PairTime> pairs) {
  std::sort(pairs.begin(), pairs.end(), [](const PairTime& a, const PairTime& b) { return a.us < b.us; });
  const double median_us = pairs[(pairs.size() - 1) / 2].us;
  const PairTime& slowest = pairs.back();
  if (slowest.us <= kUnequal * median_us) return {median_us, median_us, {}};
  return {slowest.us, median_us,
          formatString("ranks %d and %d take %.1f us, the median of %zu pairs is %.1f us", slowest.first,
                       slowest.second, slowest.us, pairs.size(), median_us)};
}

// In a burst a core spends only the necessary time on an exchange; the rest of the time of a single exchange is latency. If there are more
// ranks than cores, the cores are busy all through the readings of crowds, so an exchange costs cores / ranks of its time: its steps, and
// one turn, because each rank waits once. Between groups an exchange costs more in a crowd than in a burst, whose messages share system
// calls, but hardly more than the whole time of two ranks alone. If there are enough cores, neither cost can be told from latency, and it
// need not be.
MachineModel fitMachine(const MachineReadings& readings) {
  MachineModel machine;
  machine.nodes = readings.groups;
  machine.ranks_per_node = readings.members;
  const auto bytes = static_cast<double>(readings.large_bytes);
  const auto near_bytes = static_cast<double>(readings.near_bytes);
  machine.cores = readings.cores;
  machine.cores_of = readings.cores_of;
  const bool is_crowded = sharesCores(machine);
  const int32_t of_cores = readings.cores_of == Owner::kMachine ? machine.ranks() : readings.members;
  const double part = is_crowded ? readings.cores / of_cores : 0;

  const double near_step_us = stepTime(readings.near_small_us, readings.near_burst_us);
  const double near_crowd_us =
      is_crowded && readings.near_crowd_us > 0 ? readings.near_crowd_us * part : near_step_us;
  const double near_us = std::min({readings.near_small_us, near_step_us, near_crowd_us});
  const double turn_us = near_crowd_us - near_us;
  machine.turn_us = rounded(turn_us);
  machine.step_us = rounded(near_us / 2);
  machine.inside.latency_us = rounded(readings.near_small_us - near_us);
  machine.fold_gbytes_per_s = rounded(readings.fold_gbytes_per_s);
  // Two copies, into the slot and out of it; a copy moves two thirds of the bytes that a fold moves. The remaining time of a message is the
  // way between cores.
  const double near_bytes_us = bytesTime(readings.near_large_us, readings.near_small_us);
  const double copies_us =
      std::min(near_bytes_us, microsecondsAt(2 * near_bytes, 1.5 * readings.fold_gbytes_per_s));
  machine.copy_gbytes_per_s = rounded(gbytesPerSecond(2 * near_bytes, copies_us));
  machine.inside.cpu_gbytes_per_s = rounded(gbytesPerSecond(2 * near_bytes, near_bytes_us - copies_us));
  // Two ranks on one core do their work one after the other.
  machine.same_core_cpu_gbytes_per_s = machine.inside.cpu_gbytes_per_s;
  if (readings.same_core_large_us > 0) {
    const double bytes_us = bytesTime(readings.same_core_large_us, readings.same_core_small_us) / 2;
    machine.same_core_cpu_gbytes_per_s = rounded(gbytesPerSecond(2 * near_bytes, bytes_us - copies_us));
  }
  machine.wake_us = rounded(readings.wake_us);
  machine.patience_us = readings.patience_us;
  machine.links = readings.groups == 1    ? Links::kInside
                  : readings.members == 1 ? Links::kBetween
                                          : Links::kBoth;
  if (readings.groups == 1) return machine;

  const double far_most_us = std::max(near_us, readings.far_small_us);
  const double far_step_us =
      std::clamp(stepTime(readings.far_small_us, readings.far_burst_us), near_us, far_most_us);
  const double far_us = is_crowded && readings.far_crowd_us > 0
                            ? std::clamp(readings.far_crowd_us * part - turn_us, far_step_us, far_most_us)
                            : far_step_us;
  machine.between.message_us = rounded((far_step_us - near_us) / 2);
  machine.between.start_us = rounded((far_us - far_step_us) / 2);
  machine.between.latency_us = rounded(readings.far_small_us - far_us);
  const double line_us = bytesTime(readings.far_large_us, readings.far_small_us);
  const double burst_bytes = burstBytes(readings);
  machine.between.burst_bytes = rounded(burst_bytes);
  machine.between.gbytes_per_s = rounded(gbytesPerSecond(bytes - burst_bytes, line_us));
  machine.between.cpu_gbytes_per_s = rounded(gbytesPerSecond(
      2 * bytes, bytesTime(readings.far_handling_us, microsecondsAt(2 * bytes, machine.copy_gbytes_per_s))));
  fitOwnerOfNic(readings, burst_bytes, machine);
  return machine;
}

std::string describeReadings(const MachineReadings& readings) {
  std::string text =
      "# measured between pairs of ranks; an exchange sends a message and takes one at once:\n";
  const auto line = [&](const char* what, double us) {
    if (us > 0) text += formatString("#   %-62s %10.2f us\n", what, us);
  };
  const std::string large = formatString("%zu KiB", readings.large_bytes >> 10);
  line("in a group, 8 bytes", readings.near_small_us);
  line(formatString("in a group, %zu KiB", readings.near_bytes >> 10).c_str(), readings.near_large_us);
  line("in a group, on one core, 8 bytes", readings.same_core_small_us);
  line(formatString("in a group, on one core, %zu KiB", readings.near_bytes >> 10).c_str(),
       readings.same_core_large_us);
  line(formatString("in a group, 8 bytes, %d exchanges at once", kBurst).c_str(), readings.near_burst_us);
  line("in a group, 8 bytes, all ranks at once", readings.near_crowd_us);
  line("between groups, 8 bytes", readings.far_small_us);
  line(("between groups, " + large).c_str(), readings.far_large_us);
  line(formatString("between groups, 8 bytes, %d exchanges at once", kBurst).c_str(), readings.far_burst_us);
  line(formatString("between groups, %zu KiB, after a rest", kRestedBytes >> 10).c_str(),
       readings.far_rested_us);
  line(formatString("between groups, %zu KiB, %d exchanges at once after a rest", kRestedBytes >> 10,
                    kRestedAtOnce)
           .c_str(),
       readings.far_rested_more_us);
  line(("between groups, " + large + ", of a core").c_str(), readings.far_handling_us);
  line("between groups, 8 bytes, all ranks at once", readings.far_crowd_us);
  line(formatString("between groups, %s, %d pairs at once", large.c_str(), readings.sharing).c_str(),
       readings.far_shared_us);
  line("waking a rank that had blocked", readings.wake_us);
  for (size_t at = 0; at < readings.unequal.size();) {
    const size_t end = readings.unequal.find('\n', at);
    text += "# links differ, and the slowest counts: " + readings.unequal.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return text;
}

}  // namespace horing
