#pragma once
// Every environment variable that horing reads, in one place. Nothing else calls getenv for a HORING_ name.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"

namespace horing {

// X(member, kind, default, choices or range, "HORING_NAME", "one sentence")
// kinds: Text (any string), Choice ("a|b|c"), Int ("low..high"), Flag ("0|1").
// One line each, so that a change of one is a change of one line.
// clang-format off
#define HORING_CONFIG(X)                                                                                                       \
  X(debug, Choice, "warn", "none|warn|info|trace", "HORING_DEBUG", "How much to log on stderr; info shows who is where, the rings and the transports.") \
  X(algorithm, Choice, "auto", "auto|ring|ho_ring|ho_ring_direct|ho_direct|ho_halving|ho_doubling|direct|halving_doubling|doubling|chain|ho_chain|binomial|ho_binomial|star|pairwise|one_shot|peer_read", "HORING_ALGO", "Forces one algorithm for the collectives that it has.")         \
  X(selection_file, Text, "", "", "HORING_SELECTION_FILE", "Table that says which algorithm serves which collective, shape and size; `horing-info selection` prints one. Default: built in.") \
  X(transports, Text, "shm,socket", "", "HORING_TRANSPORTS", "Transports that may be used, first choice first.")                  \
  X(simd, Choice, "auto", "auto|avx512|avx2|plain", "HORING_SIMD", "Instruction set of the reduction kernels.")                    \
  X(host_id, Text, "", "", "HORING_HOSTID", "Name of this rank's node; ranks with the same name share a node. Default: found out.") \
  X(group, Text, "", "", "HORING_GROUP", "Name of this rank's group; ranks with the same name form a group. Default: the node.")   \
  X(root, Text, "", "", "HORING_ROOT", "host:port where rank 0 listens when a communicator is made from the environment.")         \
  X(key_file, Text, "", "", "HORING_KEY_FILE", "File with the job's secret (at least 32 random bytes), readable by its owner only.") \
  X(insecure, Flag, "0", "0|1", "HORING_INSECURE", "1: run without a secret where none can be had. Anyone who reaches the port may join.") \
  X(init_timeout_ms, Int, "60000", "1..86400000", "HORING_INIT_TIMEOUT_MS", "Deadline for all ranks to arrive and connect.")       \
  X(timeout_ms, Int, "600000", "1..86400000", "HORING_TIMEOUT_MS", "Deadline of one collective.")                                  \
  X(heartbeat_ms, Int, "500", "0..600000", "HORING_HEARTBEAT_MS", "How often a rank says that it is alive; one that was silent for 7 times as long is lost for all. 0: never, for debuggers.") \
  X(flight_dir, Text, "", "", "HORING_FLIGHT_DIR", "Folder in which every rank leaves a record of its last operations when an error or a deadline strikes, for `horing-info trace`. Default: none.") \
  X(trace, Text, "", "", "HORING_TRACE", "Folder in which every rank leaves a timeline of its calls for Perfetto when its communicator ends. Default: none.") \
  X(window, Int, "4", "1..64", "HORING_WINDOW", "Slices that a lane moves of one step before it goes to the next step.")           \
  X(slots, Int, "8", "2..128", "HORING_SLOTS", "Slots of a connection in memory; more than the window.")                           \
  X(socket_slots, Int, "32", "2..128", "HORING_SOCKET_SLOTS", "Slots of a connection over TCP; more than the window, and enough to fill the line while credits travel.") \
  X(slice_bytes, Int, "65536", "512..4194304", "HORING_SLICE_BYTES", "Largest slice, and size of a slot.")                         \
  X(spin_us, Int, "20", "0..1000000", "HORING_SPIN_US", "How long a wait spins when every rank of the node has a core of its own.") \
  X(yield_us, Int, "500", "0..1000000", "HORING_YIELD_US", "How long a wait then yields the core before it blocks; it blocks at once where other programs use the core.")              \
  X(socket_ifname, Text, "", "", "HORING_SOCKET_IFNAME", "Interfaces to use, as prefixes: eth,ib; =eth0 exactly; ^docker all but. Default: all but lo and docker.") \
  X(socket_family, Choice, "any", "any|ipv4|ipv6", "HORING_SOCKET_FAMILY", "Address family of the sockets.")                       \
  X(socket_streams, Int, "1", "1..16", "HORING_SOCKET_STREAMS", "TCP streams to each peer and interface.")                         \
  X(socket_congestion, Text, "", "", "HORING_SOCKET_CONGESTION", "TCP congestion control of data streams. Default: cubic where there is one.") \
  X(shm_dir, Text, "/dev/shm", "", "HORING_SHM_DIR", "Where shared-memory segments are made.")                                     \
  X(verify, Choice, "auto", "auto|always|never", "HORING_VERIFY", "Proving schedules when they are first built; auto: up to 64 ranks.")
// clang-format on

struct Config {
#define HORING_MEMBER_Text std::string
#define HORING_MEMBER_Choice std::string
#define HORING_MEMBER_Int int64_t
#define HORING_MEMBER_Flag bool
#define X(member, kind, fallback, allowed, name, help) HORING_MEMBER_##kind member{};
  HORING_CONFIG(X)
#undef X
#undef HORING_MEMBER_Text
#undef HORING_MEMBER_Choice
#undef HORING_MEMBER_Int
#undef HORING_MEMBER_Flag

  using Lookup = std::function<const char*(const char* name)>;
  // Reads the process environment. A value outside what is allowed is an error that names the variable and what was
  // expected. Names that horing does not know change nothing, see unknownVariables().
  static Result<Config> fromEnvironment();
  // The same over any source of values; used by tests.
  static Result<Config> fromLookup(const Lookup& lookup);

  LogLevel logLevel() const;
};

// For `horing-info` and the documentation.
struct ConfigVariable {
  const char* name;
  const char* kind;
  const char* fallback;
  const char* allowed;
  const char* help;
};
const std::vector<ConfigVariable>& configVariables();

// A sentence for each HORING_ name in the environment that nobody reads, with the known one that was perhaps meant. Names
// of this project's other programs are none of them.
std::vector<std::string> unknownVariables();

}  // namespace horing
