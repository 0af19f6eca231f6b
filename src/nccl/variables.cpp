#include "nccl/variables.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "base/word.h"

namespace horing::nccl {

namespace {

using From = std::span<const char* const>;
using Value = std::optional<std::string>;

Value first(const Lookup& lookup, From from) {
  for (const char* const name : from)
    if (Value value = lookup(name)) return value;
  return {};
}

// NCCL ignores other words.
Value amongWords(const Value& value, std::initializer_list<const char*> words) {
  const bool known = value && std::any_of(words.begin(), words.end(),
                                          [&](const char* word) { return isSameWord(*value, word); });
  return known ? value : std::nullopt;
}
Value debugLevel(const Lookup& lookup, From) {
  return amongWords(lookup("NCCL_DEBUG"), {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"});
}
Value family(const Lookup& lookup, From) {
  return amongWords(lookup("NCCL_SOCKET_FAMILY"), {"AF_INET", "AF_INET6"});
}

// A number, or nothing.
std::optional<long> number(const Lookup& lookup, const char* name) {
  const Value text = lookup(name);
  if (!text) return {};
  char* end = nullptr;
  const long value = std::strtol(text->c_str(), &end, 0);
  return *end ? std::nullopt : std::optional(value);
}
bool isOn(const Lookup& lookup, const char* name) {
  return number(lookup, name).value_or(0) != 0;
}
bool is(const Value& value, const char* word) {
  return value && isSameWord(*value, word);
}

// Clamps, since NCCL's range may be larger than horing's.
template <long least, long most>
Value within(const Lookup& lookup, From from) {
  for (const char* const name : from)
    if (const std::optional<long> value = number(lookup, name))
      return std::to_string(std::clamp(*value, least, most));
  return {};
}

// NCCL's 2 (if the device supports it) is horing's 1.
Value relaxedOrdering(const Lookup& lookup, From from) {
  const std::optional<long> value = number(lookup, from[0]);
  return value ? Value(*value == 0 ? "0" : "1") : Value();
}

// device[:port[:rail[:plane]]]: horing uses devices and ports.
Value devices(const Lookup& lookup, From from) {
  const Value given = lookup(from[0]);
  if (!given) return {};
  std::string kept;
  int colons = 0;
  for (const char c : *given) {
    if (c == ',') colons = 0;
    if (c == ':') ++colons;
    if (colons < 2) kept += c;
  }
  return kept;
}

Value transports(const Lookup& lookup, From) {
  const Value network = lookup("NCCL_NET");
  const bool only_sockets = is(network, "Socket"), only_rdma = is(network, "IB");
  const bool no_shm = isOn(lookup, "NCCL_SHM_DISABLE");
  const bool no_verbs = only_sockets || isOn(lookup, "NCCL_IB_DISABLE");
  if (!no_shm && !no_verbs && !only_rdma) return {};
  std::string list;
  const auto add = [&list](const char* name) { list.append(list.empty() ? "" : ",").append(name); };
  if (!no_shm) add("shm");
  if (!no_verbs) add("verbs");
  if (!only_rdma || no_verbs) add("socket");
  return list;
}

Value gpuPath(const Lookup& lookup, From) {
  const bool off = isOn(lookup, "NCCL_P2P_DISABLE") || is(lookup("NCCL_P2P_LEVEL"), "LOC") ||
                   is(lookup("NCCL_P2P_LEVEL"), "0");
  return off ? Value("staged") : Value();
}

Value gpuMemoryOfAdapters(const Lookup& lookup, From from) {
  const Value level = lookup(from[0]);
  return is(level, "LOC") || is(level, "0") ? Value("0") : Value();
}

// So that a product of two cannot overflow.
long atMost16(std::optional<long> given) {
  return std::clamp(given.value_or(1), 0L, 16L);
}

Value streams(const Lookup& lookup, From) {
  const std::optional<long> threads = number(lookup, "NCCL_SOCKET_NTHREADS");
  const std::optional<long> each = number(lookup, "NCCL_NSOCKS_PERTHREAD");
  if (!threads && !each) return {};
  return std::to_string(std::clamp(atMost16(threads) * atMost16(each), 1L, 16L));
}

Value logFile(const Lookup& lookup, From) {
  if (Value file = lookup("NCCL_DEBUG_FILE")) return file;
  return debugLevel(lookup, {}) ? Value("stdout") : Value();
}
Value logForm(const Lookup& lookup, From from) {
  return debugLevel(lookup, from) ? Value("nccl") : Value();
}

constexpr auto kSame = Mapping::Kind::kSame;
constexpr auto kTranslated = Mapping::Kind::kTranslated;

constexpr char kNotHere[] = "there is nothing of the kind here";
constexpr char kItself[] = "horing chooses this itself";

}  // namespace

std::span<const Mapping> mappings() {
  // Never destroyed: calls may come during exit.
  static const auto* const all = new std::vector<Mapping>{
      {"HORING_DEBUG", {"NCCL_DEBUG"}, kSame, debugLevel},
      {"HORING_DEBUG_FILE", {"NCCL_DEBUG_FILE", "NCCL_DEBUG"}, kTranslated, logFile},
      {"HORING_DEBUG_FORM", {"NCCL_DEBUG"}, kTranslated, logForm},
      {"HORING_ALGO", {"NCCL_ALGO"}, kTranslated, first},  // horing parses NCCL's syntax
      {"HORING_TRANSPORTS", {"NCCL_NET", "NCCL_IB_DISABLE", "NCCL_SHM_DISABLE"}, kTranslated, transports},
      {"HORING_HOSTID", {"NCCL_HOSTID"}, kSame, first},
      {"HORING_TOPO_FILE", {"NCCL_TOPO_FILE"}, kSame, first},
      {"HORING_TOPO_DUMP", {"NCCL_TOPO_DUMP_FILE"}, kSame, first},
      {"HORING_SOCKET_IFNAME", {"NCCL_SOCKET_IFNAME"}, kSame, first},
      {"HORING_SOCKET_FAMILY", {"NCCL_SOCKET_FAMILY"}, kSame, family},
      {"HORING_SOCKET_STREAMS", {"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"}, kTranslated, streams},
      {"HORING_IB_HCA", {"NCCL_IB_HCA"}, kSame, devices},
      {"HORING_IB_GID_INDEX", {"NCCL_IB_GID_INDEX"}, kSame, within<-1, 255>},
      {"HORING_IB_TC", {"NCCL_IB_TC"}, kSame, within<0, 255>},
      {"HORING_IB_SL", {"NCCL_IB_SL"}, kSame, within<0, 15>},
      {"HORING_IB_TIMEOUT", {"NCCL_IB_TIMEOUT"}, kSame, within<1, 22>},
      {"HORING_IB_RETRIES", {"NCCL_IB_RETRY_CNT"}, kSame, within<0, 6>},
      {"HORING_IB_PKEY_INDEX", {"NCCL_IB_PKEY"}, kSame, within<0, 65535>},
      {"HORING_IB_QPS_PER_CONNECTION", {"NCCL_IB_QPS_PER_CONNECTION"}, kSame, within<1, 8>},
      {"HORING_IB_RELAXED_ORDERING", {"NCCL_IB_PCI_RELAXED_ORDERING"}, kSame, relaxedOrdering},
      {"HORING_IB_GPU_MEMORY", {"NCCL_NET_GDR_LEVEL"}, kTranslated, gpuMemoryOfAdapters},
      {"HORING_GPU_PATH", {"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"}, kTranslated, gpuPath},
      {"HORING_GPU_BLOCKS",
       {"NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS"},
       kSame,
       within<1, 1024>},
  };
  return *all;
}

std::span<const Accepted> acceptedVariables() {
  static constexpr Accepted kAccepted[] = {
      {"NCCL_BUFFSIZE", kItself},
      {"NCCL_NTHREADS", kItself},
      {"NCCL_PROTO", kItself},
      {"NCCL_MIN_CTAS", kItself},
      {"NCCL_MIN_NCHANNELS", kItself},
      {"NCCL_MIN_NRINGS", kItself},
      {"NCCL_LAUNCH_MODE", kItself},
      {"NCCL_CHECKS_DISABLE", kItself},
      {"NCCL_CHECK_POINTERS", kItself},
      {"NCCL_CGA_CLUSTER_SIZE", kItself},
      {"NCCL_CROSS_NIC", kItself},
      {"NCCL_P2P_*", kItself},
      {"NCCL_NCHANNELS_PER_NET_PEER", kItself},
      {"NCCL_IGNORE_CPU_AFFINITY", kItself},
      {"NCCL_SET_THREAD_NAME", kItself},
      {"NCCL_DEBUG_SUBSYS", "lines are not sorted by subsystem"},
      {"NCCL_DEBUG_TIMESTAMP_*", "lines have no time"},
      {"NCCL_TUNER_*", "tables choose (HORING_SELECTION)"},
      {"NCCL_NET_PLUGIN", "there are no plugins"},
      {"NCCL_PROFILER_PLUGIN", "there are no plugins; HORING_TRACE writes timelines"},
      {"NCCL_CUMEM_*", kNotHere},
      {"NCCL_NVLS_*", kNotHere},
      {"NCCL_COLLNET_*", kNotHere},
      {"NCCL_GRAPH_*", kNotHere},
      {"NCCL_MNNVL_*", kNotHere},
      {"NCCL_GIN_*", kNotHere},
      {"NCCL_RAS_*", kNotHere},
      {"NCCL_IB_*", kNotHere},
  };
  return kAccepted;
}

std::span<const char* const> ownVariables() {
  static constexpr const char* kOwn[] = {"NCCL_COMM_BLOCKING", "NCCL_CONF_FILE"};
  return kOwn;
}

}  // namespace horing::nccl
