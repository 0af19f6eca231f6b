// The report as JSON.
#include <nlohmann/json.hpp>

#include "horing_check/report.h"

namespace horing::check {

namespace {

using Json = nlohmann::ordered_json;

const char* quantityName(Quantity quantity) {
  switch (quantity) {
    case Quantity::kRate:
      return "rate";
    case Quantity::kLatency:
      return "latency";
    case Quantity::kLoss:
      return "loss";
    case Quantity::kCopy:
      return "copy";
    case Quantity::kFold:
      return "fold";
    case Quantity::kShared:
      return "shared_memory";
    case Quantity::kRunning:
      return "running";
    case Quantity::kInsidePath:
      return "inside_path";
    case Quantity::kData:
      break;
  }
  return "data";
}

const char* partName(Part part) {
  return part == Part::kSends      ? "sends"
         : part == Part::kReceives ? "receives"
         : part == Part::kPath     ? "path"
                                   : "inside";
}

Json namesJson(const Report& report, const std::vector<int>& nodes) {
  Json names = Json::array();
  for (const int node : nodes) names.push_back(report.names[static_cast<size_t>(node)]);
  return names;
}

Json findingsJson(const Report& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.verdict.findings) {
    if (isOfRail(report.verdict, finding)) continue;
    Json one = {{"quantity", quantityName(finding.quantity)},
                {"part", partName(finding.part)},
                {"node", report.names[static_cast<size_t>(finding.node)]}};
    if (finding.to >= 0) one["to"] = report.names[static_cast<size_t>(finding.to)];
    if (finding.rail >= 0) one["rail"] = finding.rail;
    one["factor"] = finding.factor;
    if (finding.part != Part::kInside) one["partners"] = finding.partners;
    if (!finding.what.empty()) one["what"] = finding.what;
    one["confirmed"] = finding.confirmed;
    findings.push_back(one);
  }
  return findings;
}

Json uplinksJson(const Report& report) {
  Json uplinks = Json::array();
  for (const Uplink& uplink : report.verdict.uplinks) {
    Json one = {{"part", partName(uplink.part)},
                {"nodes", namesJson(report, uplink.nodes)},
                {"factor", uplink.factor},
                {"at_once", uplink.at_once},
                {"confirmed", uplink.confirmed}};
    if (uplink.rail >= 0) one["rail"] = uplink.rail;
    uplinks.push_back(one);
  }
  return uplinks;
}

Json railsJson(const Report& report) {
  Json rails = Json::array();
  for (const RailReport& rail : report.rails)
    rails.push_back({{"adapters", rail.names},
                     {"bytes_per_s", rail.verdict.bytes_per_s},
                     {"latency_s", rail.verdict.latency_s},
                     {"rounds", rail.rounds},
                     {"left_out", rail.left_out}});
  return rails;
}

Json lossesJson(const std::vector<Loss>& all) {
  Json losses = Json::array();
  for (const Loss& loss : all) {
    Json one = {{"factor", loss.share}};
    if (!loss.node.empty()) one["node"] = loss.node, one["part"] = partName(loss.part);
    losses.push_back(one);
  }
  return losses;
}

Json orNull(double value) {
  return value > 0 ? Json(value) : Json();
}

Json insideJson(const Report& report) {
  Json inside = Json::array();
  for (size_t node = 0; node < report.inside.size(); ++node) {
    const InsideRates& rates = report.inside[node];
    inside.push_back({{"node", report.names[node]},
                      {"copy_bytes_per_s", orNull(rates.copy)},
                      {"fold_bytes_per_s", orNull(rates.fold)},
                      {"shared_memory_bytes_per_s", orNull(rates.shared)},
                      {"running_share", orNull(rates.running)}});
  }
  return inside;
}

Json insidePathsJson(const Report& report) {
  Json paths = Json::array();
  for (size_t node = 0; node < report.inside_paths.size(); ++node)
    for (const InsidePath& path : report.inside_paths[node].all)
      paths.push_back({{"node", report.names[node]},
                       {"kind", path.kind},
                       {"from", path.from},
                       {"to", path.to},
                       {"bytes_per_s", path.bytes_per_s},
                       {"wrong", path.is_wrong}});
  return paths;
}

Json clocksJson(const Report& report) {
  Json clocks = Json::array();
  for (size_t node = 0; node < report.clocks.size(); ++node)
    clocks.push_back({{"node", report.names[node]},
                      {"offset_seconds", report.clocks[node].offset_s},
                      {"uncertainty_seconds", report.clocks[node].uncertainty_s}});
  return clocks;
}

Json collectivesJson(const Collectives& collectives) {
  Json times = Json::array();
  for (const CollectiveTime& time : collectives.times) {
    Json one = {
        {"collective", time.name}, {"seconds", time.seconds}, {"expected_seconds", orNull(time.expected_s)}};
    if (time.with_slow_s > 0) one["expected_seconds_with_slow_nodes"] = time.with_slow_s;
    if (time.good_s > 0)
      one["good_nodes"] = {{"seconds", time.good_s}, {"expected_seconds", orNull(time.good_expected_s)}};
    times.push_back(one);
  }
  return {{"bytes", collectives.bytes}, {"times", times}, {"left_out", collectives.left_out}};
}

}  // namespace

std::string reportToJson(const Report& report) {
  Json differing = Json::array();
  Json not_readable = Json::object();
  for (const auto& [name, nodes] : report.unreadable) not_readable[name] = namesJson(report, nodes);
  for (const Difference& difference : report.differences)
    differing.push_back({{"fact", difference.name},
                         {"usual", difference.usual},
                         {"value", difference.value},
                         {"nodes", namesJson(report, difference.nodes)}});
  Json errors = Json::array();
  for (size_t node = 0; node < report.errors.size(); ++node)
    for (const auto& [name, count] : report.errors[node])
      errors.push_back({{"node", report.names[node]}, {"counter", name}, {"count", count}});
  Json samples = Json::array();
  for (const Sample& sample : report.figures.samples)
    samples.push_back({{"round", sample.round},
                       {"from", sample.from},
                       {"to", sample.to},
                       {"bytes_per_s", sample.bytes_per_s},
                       {"latency_s", sample.latency_s},
                       {"bytes", sample.bytes},
                       {"wrong_bytes", sample.wrong_bytes},
                       {"at_once_bytes_per_s", sample.at_once_bytes_per_s},
                       {"segments", sample.segments},
                       {"segments_resent", sample.segments_resent}});
  const std::vector<int> good = goodNodes(report);
  Json blocked = Json::array();
  for (const auto& [lower, higher] : report.blocked) blocked.push_back({lower, higher});
  const Json all = {{"version", 1},
                    {"nodes", report.names},
                    {"do_not_reach_each_other", blocked},
                    {"left_out", report.left_out},
                    {"outcome", static_cast<int>(outcomeOf(report))},
                    {"cut_short", report.cut_short},
                    {"missing", namesJson(report, report.missing)},
                    {"findings", findingsJson(report)},
                    {"uplinks", uplinksJson(report)},
                    {"rails", railsJson(report)},
                    {"collectives", collectivesJson(report.collectives)},
                    {"losses", lossesJson(report.losses)},
                    {"sunk", lossesJson(report.sunk)},
                    {"expected_shares", report.figures.shares},
                    {"bytes_per_s", report.verdict.bytes_per_s},
                    {"latency_s", report.verdict.latency_s},
                    {"scatter", report.verdict.scatter},
                    {"least_loss", report.verdict.least_loss},
                    {"rounds", report.rounds},
                    {"seconds", report.seconds},
                    {"good", namesJson(report, good)},
                    {"good_list", hostList(goodHosts(report))},
                    {"differences", differing},
                    {"unreadable", not_readable},
                    {"errors", errors},
                    {"clocks", clocksJson(report)},
                    {"inside", insideJson(report)},
                    {"inside_paths", insidePathsJson(report)},
                    {"samples", samples}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace horing::check
