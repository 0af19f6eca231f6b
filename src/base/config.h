#pragma once
// Every environment variable that horing reads, in one place. Nothing else calls getenv for a HORING_ name, except src/nccl/
// (HORING_NCCL_...), which is a separate library.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/status.h"

namespace horing {

// X(member, kind, sharing, default, choices or range, "HORING_NAME", "one sentence")
// kinds: Text (any string), Choice ("a|b|c"), Int ("low..high"), Flag ("0|1").
// sharing: Shared (all ranks of a communicator must have the same, which is checked when it is made), Own (each rank may have its own).
// clang-format off
#define HORING_CONFIG(X)                                                                                                       \
  X(debug, Choice, Own, "warn", "none|warn|info|trace", "HORING_DEBUG", "How much to log to stderr; info shows where ranks are, the rings and the transports.") \
  X(debug_file, Text, Own, "", "", "HORING_DEBUG_FILE", "File to which the log is appended, with %h for the host and %p for the process; stdout is that. Default: stderr.") \
  X(debug_form, Choice, Own, "horing", "horing|nccl", "HORING_DEBUG_FORM", "Prefix of log lines; nccl: NCCL's prefix, for tools that parse it.") \
  X(algorithm, Text, Shared, "auto", "", "HORING_ALGO", "Forces an algorithm for the collectives that it has, or by collective and size: all_reduce:0-64K=direct,64K-=ho_ring;reduce_scatter=ring. `horing-plan list` lists them.") \
  X(reproducible, Flag, Shared, "0", "0|1", "HORING_REPRODUCIBLE", "1: results of reductions depend only on the inputs and on group membership, to the bit; not on sizes, slices or transports. All reductions run ho_ordered.") \
  X(selection, Text, Shared, "auto", "", "HORING_SELECTION", "Which algorithm serves which collective, shape and size: auto: what was measured or predicted for jobs like this one (kept in HORING_CACHE_DIR; see HORING_CALIBRATE), else the built-in table; table: the built-in table; model: the prediction alone; anything else: a file with a table, such as `horing-info selection` prints.") \
  X(calibrate, Text, Shared, "auto", "", "HORING_CALIBRATE", "What operations cost on this machine: auto: measured (0.5 s with 8 ranks at 1 Gbit/s) when the first communicator of several groups is created, unless that was done for a job like it and kept (HORING_CACHE_DIR; off: not measured, either); how fast the links of 3 to 128 groups are (of more than eight, if each rank has a core), each time, and again when large all-reduces become faster or slower; 0: never measured; 1: measured for every communicator; anything else: a file, read by rank 0, that `horing-tune -o` wrote.") \
  X(cache_dir, Text, Own, "", "", "HORING_CACHE_DIR", "Folder in which `horing-tune` and jobs that measure (HORING_CALIBRATE) keep their results, and in which similar jobs find them; rank 0's setting counts. off: none. It is created if its parent folder exists. Default: horing/ in XDG_CACHE_HOME, else in ~/.cache, where `horing-tune` keeps its results, and jobs read them but write nothing.") \
  X(transports, Text, Shared, "shm,verbs,socket", "", "HORING_TRANSPORTS", "Transports that may be used, first choice first. Where verbs (RDMA) is not available, it falls back to socket if socket is listed after it; otherwise that is an error.") \
  X(host_id, Text, Own, "", "", "HORING_HOSTID", "Name of this rank's node; ranks with the same name share a node. Default: detected.") \
  X(group, Text, Own, "", "", "HORING_GROUP", "Name of this rank's group; ranks with the same name form a group. Default: the node.")   \
  X(group_by, Text, Own, "node", "", "HORING_GROUP_BY", "Rule that names the group where HORING_GROUP does not: node; slurm:FILE, the leaf switch in Slurm's topology.conf; node,slurm:FILE, the node, placed next to the others under its switches; host:PATTERN, the part of the host name that PATTERN matches, like host:rack*-; nvlink, the NVLink domain of the rank's GPU, which may span nodes.") \
  X(topo_file, Text, Own, "", "", "HORING_TOPO_FILE", "Description of the machine to use instead of what is detected: hwloc's XML, or NCCL's topology XML. `horing-topo` shows it.") \
  X(topo_dump, Text, Own, "", "", "HORING_TOPO_DUMP", "File to which rank 0 writes the machine it detected, in NCCL's format. Default: none.") \
  X(root, Text, Own, "", "", "HORING_ROOT", "host:port where rank 0 listens when a communicator is created from the environment.")         \
  X(key_file, Text, Own, "", "", "HORING_KEY_FILE", "File with the job's secret (at least 32 random bytes), readable only by its owner.") \
  X(insecure, Flag, Own, "0", "0|1", "HORING_INSECURE", "1: run without a secret if there is none. Anyone who can reach the port may join.") \
  X(init_timeout_ms, Int, Own, "60000", "1..86400000", "HORING_INIT_TIMEOUT_MS", "Deadline for all ranks to arrive and connect.")       \
  X(timeout_ms, Int, Own, "600000", "0..86400000", "HORING_TIMEOUT_MS", "Deadline of one collective; 0: none: a call then waits for a late rank as long as that rank's process runs.") \
  X(heartbeat_ms, Int, Own, "500", "0..600000", "HORING_HEARTBEAT_MS", "Interval of heartbeats; a rank that is silent for 7 intervals is lost. 0: none, for debuggers.") \
  X(flight_dir, Text, Own, "", "", "HORING_FLIGHT_DIR", "Folder in which every rank leaves a record of its last collectives and messages after an error or a timeout, for `horing-info trace`. Default: none.") \
  X(trace, Text, Own, "", "", "HORING_TRACE", "Folder in which every rank leaves a timeline of its collectives and messages for Perfetto when its communicator ends. Default: none.") \
  X(metrics, Text, Own, "", "", "HORING_METRICS", "Folder in which every rank keeps a file of its metrics while its communicator exists, in OpenMetrics text, rewritten every second. Default: none.") \
  X(slice_bytes, Int, Shared, "65536", "512..4194304", "HORING_SLICE_BYTES", "Largest piece of a message that is sent at once (the unit of pipelining). A connection to a peer has memory for 8 of them in shared memory, and for 32 over TCP or RDMA.") \
  X(spin_us, Int, Own, "500", "0..1000000", "HORING_SPIN_US", "How long a wait polls before it blocks. It keeps the core for the first 20 us if every rank of the node has a core, and yields it after each poll from then on. If other programs use the core it blocks at once.") \
  X(gpu_path, Choice, Shared, "auto", "auto|staged", "HORING_GPU_PATH", "Operations on GPUs: auto: by kernels, which take 32 MiB of each GPU, if they can serve all ranks; staged: through host memory.") \
  X(gpu_blocks, Int, Own, "32", "1..1024", "HORING_GPU_BLOCKS", "Most blocks of a rank's kernel; fewer if the blocks of all ranks that share a GPU, which wait for each other, would not all be resident.") \
  X(socket_ifname, Text, Own, "", "", "HORING_SOCKET_IFNAME", "Interfaces to use, as prefixes: eth,ib; =eth0 exactly that one; ^docker all except these. Default: all except lo and docker.") \
  X(socket_family, Choice, Own, "any", "any|ipv4|ipv6", "HORING_SOCKET_FAMILY", "Address family of the sockets.")                       \
  X(ports, Text, Own, "", "", "HORING_PORTS", "Range of ports on which ranks listen, FIRST-LAST, for firewalls: one for each process, one for each communicator to shrink it, and two where ranks meet. Default: whichever the system assigns.") \
  X(socket_streams, Int, Own, "1", "1..16", "HORING_SOCKET_STREAMS", "TCP streams to each peer and interface.")                         \
  X(ib_hca, Text, Own, "", "", "HORING_IB_HCA", "RDMA devices to use, as prefixes, optionally with a port after a colon: mlx5_0,mlx5_1:2; =mlx5_0 exactly that one; ^mlx5_4 all except these. Default: all.") \
  X(ib_gid_index, Int, Own, "-1", "-1..255", "HORING_IB_GID_INDEX", "Which address (GID) of an RDMA port to use. -1: RoCE v2 before v1, IPv4 before IPv6.") \
  X(ib_qps_per_connection, Int, Own, "1", "1..8", "HORING_IB_QPS_PER_CONNECTION", "Queue pairs between two RDMA ports, at most 8 per link. More of them spread packets over the parallel paths of a routed network (ECMP). Where ranks differ, the smaller number is used.") \
  X(ib_timeout, Int, Own, "0", "0..22", "HORING_IB_TIMEOUT", "An RDMA packet is sent again after 4.096 us * 2^this without an answer. 0: 14 between ranks that have several paths, so that another one soon takes over, and 18 between ranks with one path.") \
  X(ib_retries, Int, Own, "6", "0..6", "HORING_IB_RETRIES", "How often an RDMA packet is sent again before its path is given up.")   \
  X(ib_tc, Int, Own, "0", "0..255", "HORING_IB_TC", "Traffic class of RoCE packets; switches often keep class 106 lossless.")    \
  X(ib_sl, Int, Own, "0", "0..15", "HORING_IB_SL", "Service level of InfiniBand packets.")                                               \
  X(ib_pkey_index, Int, Own, "0", "0..65535", "HORING_IB_PKEY_INDEX", "Which partition (P_Key) of an InfiniBand port to use, by its place in the port's table.") \
  X(ib_relaxed_ordering, Flag, Own, "1", "0|1", "HORING_IB_RELAXED_ORDERING", "1: PCIe may reorder what RDMA devices write into memory of the host, which some machines need for full speed; horing looks at it only when it is complete. 0: it may not.") \
  X(ib_registered_mb, Int, Own, "65536", "0..16777216", "HORING_IB_REGISTERED_MB", "Most MiB of buffers from horingMemAlloc or horingCommRegister that a communicator keeps locked for RDMA in place, on each device; each of its threads for GPUs may keep as many for the queues of kernels. 0: none, everything is copied through slots.") \
  X(ib_gpu_memory, Choice, Own, "auto", "auto|dmabuf|peermem|0", "HORING_IB_GPU_MEMORY", "How RDMA devices reach memory of GPUs (GPUDirect RDMA): dmabuf: by a dma-buf of the kernel; peermem: by the module nvidia-peermem; auto: by a dma-buf, or by that module if it is loaded; 0: not at all, which may be faster if GPUs and devices are at different processors.") \
  X(shm_dir, Text, Own, "/dev/shm", "", "HORING_SHM_DIR", "Folder in which shared-memory segments are created.")

// Set by tests only: a few ranks then reach the limits of large jobs, or do what horing chooses by itself. `horing-info` does not list these.
#define HORING_TEST_CONFIG(X) \
  X(window, Int, Shared, "4", "1..64", "HORING_TESTS_WINDOW", "Slices of one step that a lane moves before it goes on to the next step.") \
  X(slots, Int, Shared, "8", "2..128", "HORING_TESTS_SLOTS", "Slots of a connection in memory; must exceed the window.") \
  X(socket_slots, Int, Shared, "32", "2..128", "HORING_TESTS_SOCKET_SLOTS", "Slots of a connection over TCP or RDMA; must exceed the window, and be enough to fill the line while credits travel.") \
  X(simd, Choice, Own, "auto", "auto|avx512|avx2|plain", "HORING_TESTS_SIMD", "Instruction set of the reduction kernels.") \
  X(single_copy, Choice, Shared, "auto", "auto|0|1", "HORING_TESTS_SINGLE_COPY", "All-gathers between processes of a node, of memory that is not shared: 1: copied once, by the kernel (process_vm_readv), if it lets ranks read each other's memory; 0: copied twice, through slots; auto: the first calls of each size try both, and the faster is kept.") \
  X(gpu_proxies, Int, Shared, "0", "0..4", "HORING_TESTS_GPU_PROXIES", "Threads of each rank that carry what its kernels send to other nodes, or GPUs that they do not reach. 0: one for two cores of each rank.") \
  X(gpu_plan_kb, Int, Own, "1048576", "0..1048576", "HORING_TESTS_GPU_PLAN_KB", "Most KiB of the memory of this rank's GPU for its plans and messages, if the ranks met by an ID; all ranks know that of each.") \
  X(gpu_copy_bytes, Int, Shared, "8388608", "1..1152921504606846976", "HORING_TESTS_GPU_COPY_BYTES", "All-gathers of at least this many bytes from each rank, if the ranks are threads of one process, run as copies between their GPUs instead of kernels, unless all share one GPU.") \
  X(ib_outage_ms, Int, Own, "30000", "0..86400000", "HORING_TESTS_IB_OUTAGE_MS", "How long ranks that have lost all RDMA paths to each other try to bring one back, before the operation fails; at most half of HORING_TIMEOUT_MS.")
// clang-format on

// The deadline for HORING_TIMEOUT_MS=0: a hundred years.
inline constexpr int64_t kNoDeadlineMs = int64_t{100} * 365 * 86'400'000;
inline constexpr int64_t operationMs(int64_t timeout_ms) {
  return timeout_ms > 0 ? timeout_ms : kNoDeadlineMs;
}

struct Config {
#define HORING_MEMBER_Text std::string
#define HORING_MEMBER_Choice std::string
#define HORING_MEMBER_Int int64_t
#define HORING_MEMBER_Flag bool
#define X(member, kind, sharing, fallback, allowed, name, help) HORING_MEMBER_##kind member{};
  HORING_CONFIG(X)
  HORING_TEST_CONFIG(X)
#undef X
#undef HORING_MEMBER_Text
#undef HORING_MEMBER_Choice
#undef HORING_MEMBER_Int
#undef HORING_MEMBER_Flag

  using Lookup = std::function<const char*(const char* name)>;
  // Reads the process environment and the values of setDefault(). A value that is not allowed is an error that names the variable and the
  // expected values.
  // Unknown names have no effect, see unknownVariables().
  static Result<Config> fromEnvironment();
  // As fromEnvironment(), from any source of values; used by tests.
  static Result<Config> fromLookup(const Lookup& lookup);

  LogLevel logLevel() const;
  // The log of a rank, or of the process (-1). Writes to stderr if HORING_DEBUG_FILE cannot be written, and says so once in a process.
  Log log(int rank = -1) const;
};

// Sets this process's default of a variable, used where the environment does not set it; nullptr restores the built-in default. Any thread.
// Errors: an unknown variable.
Status setDefault(std::string_view name, const char* value);

enum class Sharing : uint8_t { kOwn, kShared };

struct ConfigVariable {
  const char* name;
  const char* kind;
  Sharing sharing;
  const char* fallback;
  const char* allowed;
  const char* help;
  bool for_tests;
};
// All variables; the test variables are at the end. `horing-info` and the documentation show the rest.
const std::vector<ConfigVariable>& configVariables();

// The allowed range of an Int (of a Flag: 0 to 1), for callers that take the setting from elsewhere. `name` must be an Int or Flag
// variable.
struct IntRange {
  int64_t least;
  int64_t most;
};
IntRange rangeOf(std::string_view name);

// The default of an Int, in a constant expression; a name that is none does not compile.
consteval int64_t defaultOf(std::string_view variable) {
  std::string_view text;
#define X(member, kind, sharing, fallback, allowed, name, help) \
  if (variable == name) text = fallback;
  HORING_CONFIG(X)
  HORING_TEST_CONFIG(X)
#undef X
  if (text.empty()) throw "no such variable, or no default";
  int64_t value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') throw "not a number, or below 0";
    value = 10 * value + (digit - '0');
  }
  return value;
}

// A sentence for each unknown HORING_ name in the environment, with the known name that was perhaps meant. Variables of this project's
// other programs are not reported.
std::vector<std::string> unknownVariables();

}  // namespace horing
