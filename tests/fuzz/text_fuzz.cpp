#include <sys/socket.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/config.h"
#include "comm/gpu/offer.h"
#include "comm/membership/host_identity.h"
#include "control/host_addresses.h"
#include "control/unique_id.h"
#include "launch/launch_variables.h"
#include "schedule/text.h"
#include "schedule/verify.h"
#include "targets.h"
#include "transport/socket/interfaces.h"

namespace horing::fuzz {

namespace {

// The checksum that the library computes, so that inputs get past it.
void mend(UniqueId& id) {
  uint32_t sum = 2166136261u;
  for (size_t at = 0; at < kUniqueIdBytes - 5; ++at)
    sum = (sum ^ static_cast<uint32_t>(id.bytes[at])) * 16777619u;
  for (size_t byte = 0; byte < 4; ++byte)
    id.bytes[kUniqueIdBytes - 5 + byte] = static_cast<std::byte>(sum >> (8 * byte));
  id.bytes.back() = std::byte{0};
}

void read(const UniqueId& id) {
  const Result<UniqueIdParts> parts = decodeUniqueId(id);
  const Result<UniqueId> hex = uniqueIdFromHex(uniqueIdToHex(id));
  HORING_CHECK(hex.ok() && hex.value() == id);
  if (!parts.ok()) return;
  HORING_CHECK(!parts.value().roots.empty());
  for (const Endpoint& root : parts.value().roots) {
    HORING_CHECK(root.port != 0);
    HORING_CHECK(root.address.family != Address::Family::kIpv4 ||
                 toEndpoint(*toSockAddr(root).get()).address == root.address.withoutScope());
  }
  const Result<UniqueId> again = encodeUniqueId(parts.value());
  HORING_CHECK(again.ok() && again.value() == id);
}

// What can be proven or refused within a moment.
bool isSmall(const std::vector<Schedule>& schedules) {
  constexpr int32_t kMostSteps = 500;
  int64_t steps = 0;
  for (const Schedule& schedule : schedules) {
    if (schedule.grid.rows > 64 || schedule.grid.columns > 64 || schedule.scratch_queues > 64) return false;
    for (const Lane& lane : schedule.lanes)
      for (const Block& block : lane.blocks)
        steps += static_cast<int64_t>(block.body.size()) * std::max(block.count, 0);
  }
  return steps <= kMostSteps && schedules.size() <= 16;
}

}  // namespace

void uniqueId(Bytes bytes) {
  [[maybe_unused]] const Result<UniqueId> from_text = uniqueIdFromHex(textOf(bytes));
  if (from_text.ok()) read(from_text.value());
  UniqueId id;
  std::copy_n(bytes.begin(), std::min(bytes.size(), kUniqueIdBytes), id.bytes.begin());
  read(id);
  mend(id);
  read(id);
}

void scheduleText(Bytes bytes) {
  const Result<std::vector<Schedule>> parsed = parseSchedules(textOf(bytes));
  if (!parsed.ok()) return;
  std::string text;
  for (const Schedule& schedule : parsed.value()) text += formatSchedule(schedule);
  if (!isSmall(parsed.value())) return;
  const bool right = verifyValues(parsed.value(), InPlace::kNo).ok();
  [[maybe_unused]] const Status in_place = verifyValues(parsed.value(), InPlace::kYes);
  if (!right) return;
  const Result<std::vector<Schedule>> again = parseSchedules(text);
  HORING_CHECK(again.ok() && again.value() == parsed.value());
  for (const int32_t window : {1, 3}) {
    PlanParameters parameters;
    parameters.slices = 3 * window;
    parameters.window = {window};
    parameters.slots = parameters.scratch_slices = window + 1;
    [[maybe_unused]] const Status progress = verifyProgress(parsed.value(), parameters);
  }
}

// Lines NAME=value, and each value as every kind of text that a user writes.
void environment(Bytes bytes) {
  Input in(bytes);
  std::map<std::string, std::string> values;
  for (int lines = 0; !in.empty() && lines < 100; ++lines) {
    const std::string line = in.line();
    const size_t equals = line.find('=');
    // An environment's texts end at the first NUL.
    if (equals != std::string::npos) values[line.substr(0, equals)] = line.substr(equals + 1).c_str();
  }
  const auto lookup = [&](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
  [[maybe_unused]] const Result<Config> config = Config::fromLookup(lookup);
  if (config.ok()) [[maybe_unused]]
    const LogLevel level = config.value().logLevel();
  for (const LaunchNames& names : {LaunchNames{"RANK", "WORLD_SIZE", "LOCAL_RANK"}}) {
    const auto numbers = readLaunchNumbers(lookup, names);
    if (numbers.ok() && numbers.value()) HORING_CHECK_LT(numbers.value()->rank, numbers.value()->ranks);
  }
  for (const auto& [name, value] : values) {
    const Result<std::string> host = firstSlurmHost(value);
    if (host.ok()) HORING_CHECK_LE(host.value().size(), size_t{255});
    [[maybe_unused]] const Result<HostPort> where = parseHostPort(value, name.c_str());
    const auto selection = tcp::InterfaceSelection::parse(value);
    if (selection.ok()) [[maybe_unused]]
      const bool lists = selection.value().lists(name);
  }
}

void hostIdentity(Bytes bytes) {
  HostIdentity identity, again;
  if (!decodeFields(bytes, identity)) return;
  HORING_CHECK(!identity.nodeLabel().empty() && !identity.groupLabel().empty());
  HORING_CHECK(!identity.describe().empty());
  HORING_CHECK(decodeFields(encodeFields(identity), again) && again == identity);
}

void gpuOffer(Bytes bytes) {
  const Result<GpuOffer> offer = decodeGpuOffer(bytes, 1);
  if (!offer.ok()) return;
  const Result<GpuOffer> again = decodeGpuOffer(encodeFields(offer.value()), 1);
  HORING_CHECK(again.ok() && again.value() == offer.value());
  GpuOffer other;
  other.resident_blocks = other.most_blocks = 8;
  const Result<GpuTerms> terms = termsOf({other, offer.value()});
  HORING_CHECK(!terms.ok() || (terms.value().resident_blocks <= 8 && terms.value().most_blocks <= 8));
}

}  // namespace horing::fuzz
