#include "paro/matching.h"

#include <cinttypes>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "paro/convert.h"

namespace horing::paro {

namespace {

Status differs(const char* what, uint64_t theirs, uint64_t ours) {
  return makeStatus(Code::kInvalidArgument,
                    "the checkpoint is of another model: it has %" PRIu64 " %s, and this one has %" PRIu64,
                    theirs, what, ours);
}

Status checkParam(const Manifest& manifest, const Description& mine, size_t i) {
  const horingParoParam_t &theirs = manifest.params[i], &ours = mine.params[i];
  if (theirs.count != ours.count || theirs.type != ours.type || !theirs.trainable != !ours.trainable)
    return makeStatus(Code::kInvalidArgument,
                      "the checkpoint is of another model: its %s has %zu %s elements, %s, and that of this "
                      "one %zu %s elements, %s",
                      labelOf(manifest.names, i).c_str(), theirs.count, nameOf(theirs.type),
                      theirs.trainable ? "trainable" : "frozen", ours.count, nameOf(ours.type),
                      ours.trainable ? "trainable" : "frozen");
  if (manifest.names.empty() || mine.names.empty() || manifest.names[i] == mine.names[i]) return {};
  return makeStatus(Code::kInvalidArgument,
                    "the checkpoint is of another model: its %s is %s in this one: expected the same order; "
                    "horingParoLoadByName takes any",
                    labelOf(manifest.names, i).c_str(), mine.names[i].c_str());
}

}  // namespace

Result<Matching> matchAll(const Manifest& manifest, const Description& mine) {
  if (manifest.params.size() != mine.params.size())
    return differs("parameters", manifest.params.size(), mine.params.size());
  if (manifest.state_values != mine.config.stateValues)
    return differs("values of state for each element", static_cast<uint64_t>(manifest.state_values),
                   static_cast<uint64_t>(mine.config.stateValues));
  for (size_t i = 0; i < mine.params.size(); ++i) HORING_TRY(checkParam(manifest, mine, i));
  Matching all{std::vector<size_t>(mine.params.size()), {}};
  std::iota(all.to.begin(), all.to.end(), size_t{0});
  all.from = all.to;
  return all;
}

Result<Matching> matchNames(const Manifest& manifest, const Description& mine, bool strict) {
  if (mine.names.size() != mine.params.size())
    return makeStatus(Code::kInvalidUsage,
                      "horingParoLoadByName for parameters without names: expected config.names");
  if (manifest.names.size() != manifest.params.size())
    return makeStatus(
        Code::kInvalidArgument,
        "the checkpoint has no names: it was saved without config.names; horingParoLoad takes it");
  std::unordered_map<std::string_view, size_t> ours;
  for (size_t i = 0; i < mine.names.size(); ++i) ours.emplace(mine.names[i], i);
  Matching matching{std::vector<size_t>(manifest.params.size(), Matching::kNone),
                    std::vector<size_t>(mine.params.size(), Matching::kNone)};
  for (size_t theirs = 0; theirs < manifest.names.size(); ++theirs) {
    const auto found = ours.find(manifest.names[theirs]);
    if (found == ours.end()) {
      if (!strict) continue;
      return makeStatus(Code::kInvalidArgument,
                        "the checkpoint has %s, and this model no parameter of that name",
                        labelOf(manifest.names, theirs).c_str());
    }
    const size_t own = found->second;
    if (manifest.params[theirs].count != mine.params[own].count)
      return makeStatus(Code::kInvalidArgument, "%s has %zu elements, and %zu in the checkpoint",
                        labelOf(mine.names, own).c_str(), mine.params[own].count,
                        manifest.params[theirs].count);
    matching.to[theirs] = own;
    matching.from[own] = theirs;
  }
  for (size_t own = 0; strict && own < matching.from.size(); ++own)
    if (matching.from[own] == Matching::kNone)
      return makeStatus(Code::kInvalidArgument, "the checkpoint lacks %s", labelOf(mine.names, own).c_str());
  return matching;
}

}  // namespace horing::paro
