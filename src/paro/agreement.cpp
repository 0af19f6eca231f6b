#include "paro/agreement.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "paro/convert.h"
#include "paro/digest.h"
#include "paro/status_of.h"

namespace horing::paro {

namespace {

// The wire format: numbers of one width, so that there is no padding.
struct WireConfig {
  int64_t strategy, memory_limit, bucket_bytes, average, state_values, micro_steps, grads_in_float32,
      gather_type, grad_buffers, on_gpu, params;
};
struct WireParam {
  uint64_t count;
  int32_t type, trainable;
  int64_t unit;
  uint64_t name;  // its digest; 0 if there is none
};

constexpr struct {
  const char* name;
  int64_t WireConfig::*value;
} kSettings[] = {
    {"strategy", &WireConfig::strategy},
    {"memoryLimit", &WireConfig::memory_limit},
    {"bucketBytes", &WireConfig::bucket_bytes},
    {"average", &WireConfig::average},
    {"stateValues", &WireConfig::state_values},
    {"microSteps", &WireConfig::micro_steps},
    {"gradsInFloat32", &WireConfig::grads_in_float32},
    {"gatherType", &WireConfig::gather_type},
    {"gradBuffers", &WireConfig::grad_buffers},
    {"memory.onGpu", &WireConfig::on_gpu},
    {"the number of parameters", &WireConfig::params},
};

WireConfig wireConfig(const Description& description) {
  const horingParoConfig_t& config = description.config;
  return {config.strategy,
          static_cast<int64_t>(config.memoryLimit),
          static_cast<int64_t>(config.bucketBytes),
          config.average != 0,
          config.stateValues,
          config.microSteps,
          config.gradsInFloat32 != 0,
          config.gatherType,
          config.gradBuffers,
          description.memory.onGpu != 0,
          static_cast<int64_t>(description.params.size())};
}

uint64_t nameDigest(const std::string& name) {
  const Digest digest = digestOf(name.data(), name.size());
  uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return number;
}

std::vector<WireParam> wireParams(const Description& description) {
  std::vector<WireParam> params;
  params.reserve(description.params.size());
  for (size_t i = 0; i < description.params.size(); ++i) {
    const horingParoParam_t& param = description.params[i];
    const uint64_t name = i < description.names.size() ? nameDigest(description.names[i]) : 0;
    params.push_back(
        {param.count, static_cast<int32_t>(param.type), param.trainable != 0, description.units[i], name});
  }
  return params;
}

Digest agreedDigest(const WireConfig& config, const std::vector<WireParam>& params) {
  Hasher hasher;
  hasher.add(&config, sizeof config);
  hasher.add(params.data(), params.size() * sizeof(WireParam));
  return hasher.digest();
}

Status firstDifference(const WireConfig& mine, const WireConfig& first) {
  for (const auto& setting : kSettings)
    if (mine.*setting.value != first.*setting.value)
      return makeStatus(Code::kInvalidUsage,
                        "%s is %lld here and %lld on rank 0: expected the same on every rank", setting.name,
                        static_cast<long long>(mine.*setting.value),
                        static_cast<long long>(first.*setting.value));
  return {};
}

std::string describe(const WireParam& param) {
  const std::string text = formatString("%llu %s elements, %s", static_cast<unsigned long long>(param.count),
                                        nameOf(static_cast<horingDataType_t>(param.type)),
                                        param.trainable ? "trainable" : "frozen");
  return param.unit == 0 ? text
                         : formatString("%s, unit %lld", text.c_str(), static_cast<long long>(param.unit));
}

Status firstDifference(const Names& names, const std::vector<WireParam>& mine,
                       const std::vector<WireParam>& first) {
  for (size_t i = 0; i < mine.size(); ++i) {
    if (std::memcmp(&mine[i], &first[i], offsetof(WireParam, name)) != 0)
      return makeStatus(Code::kInvalidUsage,
                        "%s has %s here, and %s on rank 0: expected the same on every rank",
                        labelOf(names, i).c_str(), describe(mine[i]).c_str(), describe(first[i]).c_str());
    if (mine[i].name != first[i].name)
      return makeStatus(Code::kInvalidUsage,
                        "%s has another name on rank 0, or one of the two has none: expected the same names "
                        "on every rank",
                        labelOf(names, i).c_str());
  }
  return {};
}

// Some name their rank themselves.
std::string textOf(int rank, const std::string& message) {
  const std::string name = "rank " + std::to_string(rank);
  const bool is_named = message.starts_with(name + ":") || message.starts_with(name + ",");
  return is_named ? message : name + ": " + message;
}

}  // namespace

Status agree(horingComm_t comm, const Status& mine) {
  struct Report {
    int32_t code;
    char text[508];
  };
  int ranks = 0, rank = 0;
  HORING_TRY(statusOf(horingCommCount(comm, &ranks)));
  HORING_TRY(statusOf(horingCommUserRank(comm, &rank)));
  Report report{};
  report.code = static_cast<int32_t>(mine.code());
  mine.message().copy(report.text, sizeof report.text - 1);
  std::vector<Report> reports(static_cast<size_t>(ranks));
  HORING_TRY(statusOf(horingAllGather(&report, reports.data(), sizeof report, horingUint8, comm, nullptr)));
  for (int other = 0; other < ranks; ++other) {
    Report& theirs = reports[static_cast<size_t>(other)];
    if (theirs.code == 0) continue;
    // This rank's own error has its full text.
    if (other == rank) return Status(mine.code(), textOf(rank, mine.message()));
    theirs.text[sizeof theirs.text - 1] = '\0';
    return Status(static_cast<Code>(theirs.code), textOf(other, theirs.text));
  }
  return {};
}

Status agreeOn(horingComm_t comm, const Description& mine) {
  int ranks = 0;
  HORING_TRY(statusOf(horingCommCount(comm, &ranks)));
  WireConfig config = wireConfig(mine);
  std::vector<WireParam> params = wireParams(mine);
  const Digest digest = agreedDigest(config, params);
  std::vector<Digest> digests(static_cast<size_t>(ranks));
  HORING_TRY(
      statusOf(horingAllGather(digest.data(), digests.data(), sizeof digest, horingUint8, comm, nullptr)));
  if (std::all_of(digests.begin(), digests.end(), [&](const Digest& other) { return other == digest; }))
    return {};

  // The descriptions differ, as every rank sees: ranks that differ from rank 0 find the first difference.
  WireConfig first_config = config;
  HORING_TRY(statusOf(horingBcast(&first_config, sizeof first_config, horingUint8, 0, comm, nullptr)));
  HORING_TRY(agree(comm, firstDifference(config, first_config)));
  std::vector<WireParam> first = params;
  HORING_TRY(
      statusOf(horingBcast(first.data(), first.size() * sizeof(WireParam), horingUint8, 0, comm, nullptr)));
  HORING_TRY(agree(comm, firstDifference(mine.names, params, first)));
  return makeStatus(Code::kInternalError, "ranks have different digests of the same parameters");
}

}  // namespace horing::paro
