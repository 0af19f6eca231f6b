#include "base/flight_recorder.h"

#include <algorithm>

namespace horing {

namespace {

uint64_t packed(const FlightRecord& r) {
  return static_cast<uint64_t>(r.collective) | static_cast<uint64_t>(r.type) << 8 |
         static_cast<uint64_t>(r.op) << 16 | static_cast<uint64_t>(r.outcome) << 24 |
         static_cast<uint64_t>(static_cast<uint32_t>(r.root)) << 32;
}

void unpack(uint64_t word, FlightRecord& r) {
  r.collective = static_cast<Collective>(word & 0xff);
  r.type = static_cast<DataType>(word >> 8 & 0xff);
  r.op = static_cast<RedOp>(word >> 16 & 0xff);
  r.outcome = static_cast<Outcome>(word >> 24 & 0xff);
  r.root = static_cast<int32_t>(word >> 32);
}

}  // namespace

const char* outcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kRunning:
      return "running";
    case Outcome::kDone:
      return "done";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kWithdrawn:
      return "withdrawn";
  }
  return "unknown";
}

void FlightRecorder::begin(const FlightRecord& record) {
  at(record.sequence)
      .write(std::array{record.sequence, record.count, static_cast<uint64_t>(record.begun_ns),
                        static_cast<uint64_t>(record.ended_ns), packed(record),
                        reinterpret_cast<uint64_t>(record.algorithm)});
  begun_.store(record.sequence + 1, std::memory_order_release);
}

void FlightRecorder::end(uint64_t sequence, int64_t now_ns, Outcome outcome) {
  Entry& entry = at(sequence);
  // No other thread writes to this operation, but a later operation may have reused its entry.
  if (sequence >= begun() || entry.own(0) != sequence) return;
  FlightRecord record;
  unpack(entry.own(4), record);
  if (record.outcome != Outcome::kWithdrawn) record.outcome = outcome;
  entry.write<3>(std::array{static_cast<uint64_t>(now_ns), packed(record)});
  if (outcome == Outcome::kDone) ended_.store(sequence + 1, std::memory_order_release);
  if (record.outcome != Outcome::kDone) return;
  record.count = entry.own(1);
  record.begun_ns = static_cast<int64_t>(entry.own(2));
  record.ended_ns = now_ns;
  addUp(record);
}

void FlightRecorder::addUp(const FlightRecord& record) {
  const auto add = [](auto& sum, auto value) {
    sum.store(sum.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  };
  Sums& sums = sums_[static_cast<size_t>(record.collective)];
  add(sums.calls, uint64_t{1});
  if (!(record.count & kCountsDiffer)) add(sums.bytes, record.count * dataTypeBytes(record.type));
  add(sums.inside_ns, record.ended_ns - record.begun_ns);
}

CallTotals FlightRecorder::totals(Collective collective) const {
  const Sums& sums = sums_[static_cast<size_t>(collective)];
  return {sums.calls.load(std::memory_order_relaxed), sums.bytes.load(std::memory_order_relaxed),
          sums.inside_ns.load(std::memory_order_relaxed)};
}

std::optional<FlightRecord> FlightRecorder::find(uint64_t sequence) const {
  if (sequence >= begun()) return std::nullopt;
  const std::optional<Entry::Words> words = at(sequence).read();
  if (!words || (*words)[0] != sequence) return std::nullopt;  // a later operation reused the entry
  FlightRecord record;
  record.sequence = (*words)[0];
  record.count = (*words)[1];
  record.begun_ns = static_cast<int64_t>((*words)[2]);
  record.ended_ns = static_cast<int64_t>((*words)[3]);
  unpack((*words)[4], record);
  record.algorithm = reinterpret_cast<const char*>((*words)[5]);
  return record;
}

std::vector<FlightRecord> FlightRecorder::last() const {
  std::vector<FlightRecord> records;
  const uint64_t end = begun();
  for (uint64_t sequence = end - std::min<uint64_t>(end, kEntries); sequence < end; ++sequence)
    if (const std::optional<FlightRecord> record = find(sequence)) records.push_back(*record);
  return records;
}

}  // namespace horing
