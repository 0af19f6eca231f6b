#include "comm/call_log.h"

#include <algorithm>

#include "base/status.h"

namespace horing {

namespace {

bool hasRoot(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

std::string countText(uint64_t count) {
  if (!(count & kCountsDiffer)) return std::to_string(count);
  if (count == kCountsDiffer) return "several";
  return formatString("several (sizes %08llx)", static_cast<unsigned long long>(count & 0xffffffff));
}

}  // namespace

uint64_t agreementDigest(const FlightRecord& record) {
  uint64_t digest = 0x686f72696e67;  // FNV-1a's way over four numbers
  const auto add = [&digest](uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) digest = (digest ^ (value >> (8 * byte) & 0xff)) * 0x100000001b3;
  };
  add(static_cast<uint64_t>(record.collective));
  add(record.count);
  add(static_cast<uint64_t>(record.type));
  add(isReduction(record.collective) ? static_cast<uint64_t>(record.op) : 0);
  add(hasRoot(record.collective) ? static_cast<uint64_t>(record.root) : 0);
  return digest | 1;
}

std::string argumentsText(const FlightRecord& record) {
  const std::string count = countText(record.count);
  std::string text = formatString("%s x %s", count.c_str(), dataTypeName(record.type));
  if (isReduction(record.collective)) text += formatString(", %s", redOpName(record.op));
  if (hasRoot(record.collective)) text += formatString(", root %d", record.root);
  return text;
}

void CallLog::waits(uint64_t sequence, Obstacle obstacle) {
  if (obstacle.ranks.size() > kMaxWaitedFor) obstacle.ranks.resize(kMaxWaitedFor);
  const std::lock_guard lock(mutex_);
  waiting_sequence_ = sequence;
  obstacle_ = std::move(obstacle);
}

CallReport CallLog::report(uint64_t sequence) const {
  CallReport report;
  report.sequence = sequence;
  report.begun = recorder_.begun();
  report.ended = recorder_.ended();
  if (const std::optional<FlightRecord> record = recorder_.find(sequence)) {
    report.digest = agreementDigest(*record);
    report.name = collectiveName(record->collective);
    report.arguments = argumentsText(*record);
  }
  const std::lock_guard lock(mutex_);
  if (waiting_sequence_ == sequence && report.begun > sequence && report.ended <= sequence) {
    report.waits_for = obstacle_.ranks;
    report.obstacle = obstacle_.text;
  }
  return report;
}

}  // namespace horing
