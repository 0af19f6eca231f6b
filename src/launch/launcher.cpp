#include "launch/launcher.h"

#include <dlfcn.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/clock.h"
#include "base/listener.h"
#include "control/host_addresses.h"
#include "launch/job_secret.h"
#include "launch/launch_variables.h"
#include "launch/pmi1.h"
#include "launch/pmix.h"

namespace horing {

namespace {

constexpr LaunchNames kPlainNames = {"RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr LaunchNames kSlurmNames = {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};
constexpr LaunchNames kOpenMpiNames = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                       "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr LaunchNames kPmiNames = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"};
constexpr const char* kSubsystem = "launcher";
constexpr int kMorePorts = 2;

// The inputs common to all ways to meet.
struct Launch {
  const Config& config;
  const Log& log;
  const EnvironmentLookup& environment;
  LaunchNumbers numbers;
  const char* launcher;
  uint64_t call;  // number of the call in this process, from 0
};

// Ranks make their communicators in the same order, so the number of the call distinguishes communicators with the same secret and address:
// late ranks cannot join the wrong communicator, and names in shared memory differ.
JobId jobOf(const Launch& launch, const std::string& job) {
  return jobIdOf(job + "\ncommunicator " + std::to_string(launch.call));
}

// A secret, and a rendezvous address that every rank knows.
struct Meeting {
  UniqueIdParts secret;  // without addresses
  HostPort where;
  uint16_t more_ports = 0;  // further ports to try if the first is in use
};

Result<Key> runSecret(const std::string& hex) {
  std::array<std::byte, Key::kBytes> secret;
  for (size_t at = 0; at < secret.size(); ++at) {
    unsigned value = 0;
    const std::string digits = hex.substr(std::min(2 * at, hex.size()), 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (hex.size() != 2 * secret.size() || error != std::errc() || end != digits.data() + 2)
      return makeStatus(Code::kInvalidArgument,
                        "environment variable HORING_RUN_SECRET: expected %zu hexadecimal digits, as "
                        "horing-run writes them",
                        2 * secret.size());
    secret[at] = static_cast<std::byte>(value);
  }
  return Key::derive(secret, "horing-run");
}

// Whether a host is a numeric address of this machine, so that rank 0 can listen on this address only.
bool isLocalNumber(const std::string& host) {
  const std::optional<Address> address = Address::parse(host);
  return address && listenOn(&*address, 0).ok();
}

// The name of a node may resolve only once its container is up.
Result<std::vector<Endpoint>> resolvePatiently(const HostPort& where, int64_t timeout_ms) {
  constexpr int kPauseMs = 200;
  const SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, timeout_ms);
  while (true) {
    Result<std::vector<Endpoint>> resolved = resolveHost(where);
    if (resolved.ok() || deadline.passed()) return resolved;
    ::poll(nullptr, 0, std::min(kPauseMs, deadline.remainingMs()));
  }
}

Launched startOf(const Launch& launch) {
  Launched launched;
  launched.rank = launch.numbers.rank;
  launched.ranks = launch.numbers.ranks;
  launched.local_rank = launch.numbers.local_rank;
  launched.launcher = launch.launcher;
  return launched;
}

// On rank 0, without a given address: on any port.
Result<std::unique_ptr<RootService>> startRoot(const Launch& launch, const UniqueIdParts& secret,
                                               const HostPort& where) {
  RootOptions options;
  options.host = isLocalNumber(where.host) ? where.host : "";
  options.port = where.port;
  options.family = launch.config.socket_family;
  options.interfaces = launch.config.socket_ifname;
  HORING_ASSIGN(options.ports, parsePortRange(launch.config.ports));
  options.secret = &secret;
  options.log = launch.log;
  return RootService::start(options);
}

// On rank 0, at the first of the ports that is free.
Result<std::unique_ptr<RootService>> startRoot(const Launch& launch, const Meeting& meeting) {
  HostPort where = meeting.where;
  Result<std::unique_ptr<RootService>> started = startRoot(launch, meeting.secret, where);
  for (int more = 0; !started.ok() && more < meeting.more_ports; ++more) {
    ++where.port;
    started = startRoot(launch, meeting.secret, where);
  }
  if (started.ok() || meeting.more_ports == 0) return started;
  return makeStatus(
      started.status().code(),
      "%s; nor on the ports before it, from MASTER_PORT+1 on: choose another MASTER_PORT (torchrun "
      "--master-port), or set HORING_ROOT=host:port of rank 0 on all ranks",
      started.status().message().c_str());
}

// Rank 0 listens at the address that the other ranks connect to.
Result<Launched> meet(const Launch& launch, Meeting meeting) {
  Launched launched = startOf(launch);
  if (launched.rank == 0) {
    HORING_ASSIGN(launched.root, startRoot(launch, meeting));
    launched.id = launched.root->id();
    return launched;
  }
  HORING_ASSIGN(const std::vector<Endpoint> addresses,
                resolvePatiently(meeting.where, launch.config.init_timeout_ms));
  for (int more = 0; more <= meeting.more_ports; ++more)
    for (Endpoint address : addresses) {
      address.port = static_cast<uint16_t>(address.port + more);
      meeting.secret.roots.push_back(address);
    }
  HORING_ASSIGN(launched.id, encodeUniqueId(meeting.secret));
  return launched;
}

// Rank 0 listens, and the launcher broadcasts the unique ID. `broadcast` is collective and returns rank 0's text. With a key file the key
// is not broadcast.
template <typename Broadcast>
Result<Launched> meetThroughLauncher(const Launch& launch, Broadcast broadcast) {
  Launched launched = startOf(launch);
  const bool from_file = !launch.config.key_file.empty();
  UniqueIdParts secret;
  randomBytes(secret.job);
  secret.key = Key::random();
  if (from_file) {
    HORING_ASSIGN(secret.key, readKeyFile(launch.config.key_file));
  }
  std::string text;
  if (launched.rank == 0) {
    HostPort where;
    if (!launch.config.root.empty()) {
      HORING_ASSIGN(where, parseHostPort(launch.config.root, "HORING_ROOT"));
    }
    HORING_ASSIGN(launched.root, startRoot(launch, secret, where));
    HORING_ASSIGN(UniqueIdParts told, decodeUniqueId(launched.root->id()));
    if (from_file) told.key = Key();
    HORING_ASSIGN(const UniqueId id, encodeUniqueId(told));
    text = uniqueIdToHex(id);
  }
  HORING_ASSIGN(const std::string heard, broadcast(text));
  HORING_ASSIGN(const UniqueId id, uniqueIdFromHex(heard));
  HORING_ASSIGN(UniqueIdParts parts, decodeUniqueId(id));
  if (from_file) parts.key = secret.key;
  HORING_ASSIGN(launched.id, encodeUniqueId(parts));
  return launched;
}

Result<Launched> fromOpenMpi(const Launch& launch) {
  return meetThroughLauncher(launch, [&](const std::string& text) {
    return broadcastOverPmix(launch.numbers.rank, text, launch.config.init_timeout_ms);
  });
}

Result<Launched> fromPmi1(const Launch& launch) {
  // The protocol allows one client per process, which is MPI if it is present.
  if (::dlsym(RTLD_DEFAULT, "MPI_Init"))
    return makeStatus(Code::kInvalidUsage,
                      "this program uses MPI itself, which has mpiexec's ear: make the unique ID with "
                      "horingGetUniqueId on rank "
                      "0 and hand it on with MPI_Bcast");
  HORING_ASSIGN(const int fd, numberOf(launch.environment, "PMI_FD", 0, 1 << 20));
  return meetThroughLauncher(launch, [&](const std::string& text) {
    const SteadyClock clock;
    return broadcastOverPmi1(fd, launch.numbers.rank, text,
                             Deadline::after(clock, launch.config.init_timeout_ms));
  });
}

Result<Launched> fromHoringRun(const Launch& launch) {
  Meeting meeting;
  const std::string secret = valueOf(launch.environment, "HORING_RUN_SECRET");
  HORING_ASSIGN(meeting.secret.key, runSecret(secret));
  // One secret for each job: what names jobs can tell them apart. The hash does not give it away.
  meeting.secret.job = jobOf(launch, "horing-run\n" + secret);
  HORING_ASSIGN(meeting.where, parseHostPort(launch.config.root, "HORING_ROOT"));
  return meet(launch, std::move(meeting));
}

Result<Meeting> torchrunMeeting(const Launch& launch) {
  Meeting meeting;
  if (!launch.config.root.empty()) {
    HORING_ASSIGN(meeting.where, parseHostPort(launch.config.root, "HORING_ROOT"));
    return meeting;
  }
  meeting.where.host = valueOf(launch.environment, "MASTER_ADDR");
  // torchrun's store uses MASTER_PORT, and the next port may be in use, too.
  HORING_ASSIGN(const int port, numberOf(launch.environment, "MASTER_PORT", 1, 65534));
  meeting.where.port = static_cast<uint16_t>(port + 1);
  meeting.more_ports = static_cast<uint16_t>(std::min(kMorePorts, 65535 - (port + 1)));
  return meeting;
}

Result<Launched> fromPlainVariables(const Launch& launch) {
  HORING_ASSIGN(Meeting meeting, torchrunMeeting(launch));
  HORING_ASSIGN(meeting.secret.key, configuredKey(launch.config, launch.log, launch.launcher));
  // Distinguishes the ranks of a restarted job from late ranks of the previous run, and concurrent jobs with the same key. Without the
  // host, which ranks may know by different names.
  std::string job = "torchrun\n" + std::to_string(meeting.where.port);
  for (const char* name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"})
    job += "\n" + valueOf(launch.environment, name);
  meeting.secret.job = jobOf(launch, job);
  return meet(launch, std::move(meeting));
}

Result<HostPort> slurmRoot(const Launch& launch, const std::string& job) {
  if (!launch.config.root.empty()) return parseHostPort(launch.config.root, "HORING_ROOT");
  std::string nodes = valueOf(launch.environment, "SLURM_STEP_NODELIST");
  if (nodes.empty()) nodes = valueOf(launch.environment, "SLURM_JOB_NODELIST");
  HostPort where;
  HORING_ASSIGN(where.host, firstSlurmHost(nodes));
  // Below the range of ports for outgoing connections, and another one for each job step.
  const JobId hash = jobIdOf(job);
  where.port = static_cast<uint16_t>(
      20000 + (static_cast<unsigned>(hash[0]) * 256 + static_cast<unsigned>(hash[1])) % 10000);
  return where;
}

Result<Launched> fromSlurm(const Launch& launch) {
  Meeting meeting;
  std::string job = "slurm";
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID"})
    job.append(1, '\n').append(valueOf(launch.environment, name));
  HORING_ASSIGN(meeting.where, slurmRoot(launch, job));
  HORING_ASSIGN(meeting.secret.key, configuredKey(launch.config, launch.log, launch.launcher));
  meeting.secret.job = jobOf(launch, job);
  return meet(launch, std::move(meeting));
}

// mpirun can start one torchrun per node; the numbers of the innermost launcher are valid.
bool agree(const std::optional<LaunchNumbers>& inner, const LaunchNumbers& outer) {
  return !inner || (inner->rank == outer.rank && inner->ranks == outer.ranks);
}

Status noLauncher(bool has_numbers) {
  if (has_numbers)
    return makeStatus(Code::kInvalidUsage,
                      "RANK and WORLD_SIZE are set, but nothing says where the ranks meet: set "
                      "HORING_ROOT=host:port of rank 0, or MASTER_ADDR and MASTER_PORT as torchrun does");
  return makeStatus(
      Code::kInvalidUsage,
      "no launcher is recognised: start the program with horing-run, mpirun, srun or torchrun, or set RANK, "
      "WORLD_SIZE, HORING_ROOT=host:port of rank 0 and HORING_KEY_FILE");
}

}  // namespace

Result<Launched> launchedRank(const Config& config, const Log& log, const EnvironmentLookup& environment,
                              uint64_t call) {
  const auto launch = [&](const LaunchNumbers& numbers, const char* launcher) {
    log.info(kSubsystem, "rank %d of %d, local rank %d, started by %s", numbers.rank, numbers.ranks,
             numbers.local_rank, launcher);
    return Launch{config, log, environment, numbers, launcher, call};
  };
  HORING_ASSIGN(const auto plain, readLaunchNumbers(environment, kPlainNames));
  if (plain && environment("HORING_RUN_SECRET")) return fromHoringRun(launch(*plain, "horing-run"));
  HORING_ASSIGN(const auto open_mpi, readLaunchNumbers(environment, kOpenMpiNames));
  if (open_mpi && agree(plain, *open_mpi)) return fromOpenMpi(launch(*open_mpi, "mpirun"));
  HORING_ASSIGN(const auto slurm, readLaunchNumbers(environment, kSlurmNames));
  HORING_ASSIGN(auto pmi, readLaunchNumbers(environment, kPmiNames));
  // srun --mpi=pmi2 sets the local rank only in its own variable.
  if (pmi && slurm && agree(slurm, *pmi) && !environment(kPmiNames.local_rank))
    pmi->local_rank = slurm->local_rank;
  if (pmi && environment("PMI_FD") && agree(plain, *pmi)) return fromPmi1(launch(*pmi, "mpiexec"));
  if (plain && (environment("MASTER_ADDR") || !config.root.empty()))
    return fromPlainVariables(launch(*plain, "torchrun"));
  if (slurm) return fromSlurm(launch(*slurm, "srun"));
  return noLauncher(plain.has_value());
}

Result<Launched> launchedRank(const Config& config, const Log& log) {
  static std::atomic<uint64_t> calls{0};  // per process, like the environment
  return launchedRank(
      config, log, [](const char* name) -> const char* { return std::getenv(name); },
      calls.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace horing
