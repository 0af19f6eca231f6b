#include "ho_ring/contest_report.h"

#include <nlohmann/json.hpp>

#include "horing/horing.h"

namespace horing::bench {

namespace {

using Json = nlohmann::ordered_json;

void addTimes(Json& line, const Samples& samples) {
  line["median_ms"] = samples.median();
  line["min_ms"] = samples.least();
  line["max_ms"] = samples.most();
  line["times_ms"] = samples.times_ms;
}

// Beside the bound of the wire, whatever the algorithm, and the algorithm's own.
void addBounds(Json& line, const Samples& samples, double wire_bytes, double own_bytes, double rate_mbit) {
  if (wire_bytes <= 0) return;
  const double link_bytes = samples.medianLinkBytes();
  if (link_bytes > 0) {
    line["link_bytes"] = link_bytes;
    line["link_bytes_over_wire_bound"] = link_bytes / wire_bytes;
    line["link_bytes_over_own_bound"] = link_bytes / own_bytes;
  }
  if (rate_mbit <= 0) return;
  line["wire_bound_ms"] = wireTimeMs(wire_bytes, rate_mbit);
  line["over_wire_bound"] = samples.median() / wireTimeMs(wire_bytes, rate_mbit);
  line["own_bound_ms"] = wireTimeMs(own_bytes, rate_mbit);
  line["over_own_bound"] = samples.median() / wireTimeMs(own_bytes, rate_mbit);
}

Json timeLine(const Match& match, const Samples& samples, const JobShape& shape,
              const ContestOptions& options) {
  const bool is_ring = &samples == &match.ring;
  Json line = {{"line", "time"},
               {"collective", collectiveName(match.collective)},
               {"bytes", match.bytes},
               {"algorithm", is_ring ? "ring" : "ho_ring"}};
  addTimes(line, samples);
  const double wire_bytes = wireBytes(match.collective, shape, match.bytes);
  const double own_bytes = is_ring ? ringWireBytes(match.collective, shape, match.bytes) : wire_bytes;
  addBounds(line, samples, wire_bytes, own_bytes, options.rate_mbit);
  return line;
}

Json comparisonLine(const Match& match, const JobShape& shape) {
  const double speedup = match.ring.median() / match.ho_ring.median();
  Json line = {{"line", "comparison"},
               {"collective", collectiveName(match.collective)},
               {"bytes", match.bytes},
               {"ring_over_ho_ring", speedup}};
  if (shape.nodes > 1) {
    line["theory"] = theoreticalSpeedup(shape);
    line["of_theory"] = speedup / theoreticalSpeedup(shape);
  }
  return line;
}

}  // namespace

std::string contestJsonLines(const std::vector<SizeResult>& results, const JobShape& shape,
                             const ContestOptions& options) {
  Json job = {{"line", "job"},
              {"nodes", shape.nodes},
              {"ranks", shape.ranks},
              {"ranks_per_node", shape.members()},
              {"rate_mbit", options.rate_mbit},
              {"repetitions", options.repetitions},
              {"type", "float32"},
              {"horing_version", HORING_VERSION_CODE}};
  std::string text = job.dump() + "\n";
  for (const SizeResult& size : results) {
    if (!size.raw.times_ms.empty()) {
      Json raw = {{"line", "raw"}, {"bytes", size.bytes}, {"moved_bytes", size.raw_bytes}};
      addTimes(raw, size.raw);
      if (options.rate_mbit > 0)
        raw["over_wire_bound"] = size.raw.median() / wireTimeMs(size.raw_bytes, options.rate_mbit);
      text += raw.dump() + "\n";
    }
    for (const Match& match : size.matches) {
      text += timeLine(match, match.ring, shape, options).dump() + "\n";
      text += timeLine(match, match.ho_ring, shape, options).dump() + "\n";
      text += comparisonLine(match, shape).dump() + "\n";
    }
  }
  return text;
}

}  // namespace horing::bench
