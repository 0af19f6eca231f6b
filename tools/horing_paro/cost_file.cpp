#include "horing_paro/cost_file.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace horing::paro {

namespace {

using nlohmann::json;

constexpr int32_t kMaxSide = 1 << 20;  // nodes, or ranks of a node

// The number of that name, if it is one of 0 or more.
Result<double> numberIn(const json& object, const char* name) {
  if (object.is_object() && object.contains(name) && object[name].is_number()) {
    const double value = object[name].get<double>();
    if (std::isfinite(value) && value >= 0) return value;
  }
  return makeStatus(Code::kInvalidArgument, "a file of costs needs \"%s\", a number of 0 or more", name);
}

Result<int32_t> sideIn(const json& object, const char* name) {
  HORING_ASSIGN(const double side, numberIn(object, name));
  if (side < 1 || side > kMaxSide)
    return makeStatus(Code::kInvalidArgument, "\"%s\" has to be 1 to %d", name, kMaxSide);
  return static_cast<int32_t>(side);
}

Status takeNodes(const json& document, MeasuredCosts& measured) {
  HORING_ASSIGN(const int32_t nodes, sideIn(document, "nodes"));
  const json ranks = document.value("ranks", json());
  if (!ranks.is_array()) {
    HORING_ASSIGN(const int32_t members, sideIn(document, "ranks"));
    measured.grid = {nodes, members};
    return {};
  }
  for (const json& size : ranks) {
    HORING_ASSIGN(const int32_t members, sideIn(json{{"ranks", size}}, "ranks"));
    measured.sizes.push_back(members);
  }
  if (std::ssize(measured.sizes) != nodes)
    return makeStatus(Code::kInvalidArgument, "\"ranks\" has to have a number for each of %d nodes", nodes);
  measured.grid = gridOf(measured.sizes);
  return {};
}

// The entry for one kind of collective; null when there is none.
const json* findEntry(const json& entries, horingParoScope_t scope, horingParoCollective_t collective) {
  for (const json& entry : entries)
    if (entry.is_object() && entry.value("scope", json()) == scopeName(scope) &&
        entry.value("collective", json()) == collectiveName(collective))
      return &entry;
  return nullptr;
}

}  // namespace

const char* scopeName(horingParoScope_t scope) {
  const char* names[] = {"group", "rail", "global"};
  return names[static_cast<size_t>(scope)];
}

const char* collectiveName(horingParoCollective_t collective) {
  const char* names[] = {"all_gather", "reduce_scatter", "all_reduce"};
  return names[static_cast<size_t>(collective)];
}

std::string formatCosts(const MeasuredCosts& measured) {
  json document = {{"nodes", measured.grid.groups},
                   {"ranks", measured.sizes.empty() ? json(measured.grid.members) : json(measured.sizes)},
                   {"costs", json::array()}};
  for (horingParoScope_t scope : kScopes)
    for (horingParoCollective_t collective : kCollectives)
      document["costs"].push_back(
          {{"scope", scopeName(scope)},
           {"collective", collectiveName(collective)},
           {"latency_seconds", measured.costs.at(scope, collective).latency_seconds},
           {"seconds_per_byte", measured.costs.at(scope, collective).seconds_per_byte}});
  return document.dump(1) + "\n";
}

Result<MeasuredCosts> parseCosts(const std::string& text) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("costs") || !document["costs"].is_array())
    return makeStatus(Code::kInvalidArgument,
                      "this is no file of costs such as 'horing-paro measure' writes");
  MeasuredCosts measured;
  HORING_TRY(takeNodes(document, measured));
  for (horingParoScope_t scope : kScopes)
    for (horingParoCollective_t collective : kCollectives) {
      const json* entry = findEntry(document["costs"], scope, collective);
      if (!entry)
        return makeStatus(Code::kInvalidArgument, "the costs of %s in scope %s are missing",
                          collectiveName(collective), scopeName(scope));
      CollectiveCost& cost = measured.costs.at(scope, collective);
      HORING_ASSIGN(cost.latency_seconds, numberIn(*entry, "latency_seconds"));
      HORING_ASSIGN(cost.seconds_per_byte, numberIn(*entry, "seconds_per_byte"));
    }
  return measured;
}

}  // namespace horing::paro
