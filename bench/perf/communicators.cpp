#include "perf/communicators.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "perf/gpu_buffers.h"
#include "perf/ranks.h"

namespace horing::perf {

namespace {

using Communicators = std::vector<horingComm_t>;

// Ranks first .. first + threads - 1 of `total`, each made by its own thread.
Result<Communicators> initThreads(int threads, int first, int total, const horingUniqueId& id) {
  Communicators comms(static_cast<size_t>(threads), nullptr);
  std::vector<Status> statuses(comms.size());
  std::vector<std::thread> workers;
  for (size_t i = 0; i < comms.size(); ++i)
    workers.emplace_back([&, i] {
      const horingResult_t result = horingCommInitRank(&comms[i], total, id, first + static_cast<int>(i));
      statuses[i] = called(result, nullptr, "horingCommInitRank");  // the last error is this thread's
    });
  for (std::thread& worker : workers) worker.join();
  for (const Status& status : statuses) {
    if (status.ok()) continue;
    for (horingComm_t comm : comms)
      if (comm) (void)horingCommAbort(comm);
    return status;
  }
  return comms;
}

struct Invitation {
  horingUniqueId id;
  int threads;
};

// Sends rank 0's unique ID to every process over a communicator of the processes.
Result<Communicators> initProcessesTimesThreads(horingComm_t processes, int threads) {
  HORING_ASSIGN(Ranks ranks, Ranks::of(processes));
  Invitation mine{};
  mine.threads = threads;
  if (ranks.rank() == 0) HORING_TRY(called(horingGetUniqueId(&mine.id), nullptr, "horingGetUniqueId"));
  HORING_ASSIGN(const std::vector<char> bytes, ranks.gather(&mine, sizeof mine));
  Invitation first{};
  for (int r = ranks.size() - 1; r >= 0; --r) {
    std::memcpy(&first, bytes.data() + static_cast<size_t>(r) * sizeof first, sizeof first);
    if (first.threads != threads)
      return makeStatus(
          Code::kInvalidUsage,
          "process %d has %d ranks (--nthreads, --ngpus), process %d has %d: expected the same everywhere", r,
          first.threads, ranks.rank(), threads);
  }
  return initThreads(threads, ranks.rank() * threads, ranks.size() * threads, first.id);
}

// As launchers name it, in the order in which horingCommInitFromEnv asks; null: there is none.
const char* rankOfLauncher() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "PMIX_RANK"})
    if (const char* const rank = std::getenv(name)) return rank;
  return nullptr;
}

Result<horingComm_t> initProcess() {
  horingComm_t comm = nullptr;
  HORING_TRY(called(horingCommInitFromEnv(&comm), nullptr, "horingCommInitFromEnv"));
  return comm;
}

// With its GPU current, so that kernels carry messages from the first on.
Result<horingComm_t> initProcessOnGpu() {
  HORING_ASSIGN(const std::unique_ptr<Gpu> gpu, Gpu::ofRank(std::max(std::atoi(rankOfLauncher()), 0)));
  const CudaDevice::Current current = gpu->current();
  return initProcess();
}

Result<Communicators> initFromLauncher(const Options& options) {
  const bool is_on_gpu = options.on_gpu && options.ranks() == 1;
  HORING_ASSIGN(horingComm_t comm, is_on_gpu ? initProcessOnGpu() : initProcess());
  if (options.ranks() == 1) return Communicators{comm};
  Result<Communicators> comms = initProcessesTimesThreads(comm, options.ranks());
  (void)(comms.ok() ? horingCommDestroy(comm) : horingCommAbort(comm));
  return comms;
}

}  // namespace

bool startedByLauncher() {
  return rankOfLauncher() != nullptr;
}

Result<std::vector<horingComm_t>> openCommunicators(const Options& options) {
  if (startedByLauncher()) return initFromLauncher(options);
  if (options.parallel_init) {
    horingUniqueId id;
    HORING_TRY(called(horingGetUniqueId(&id), nullptr, "horingGetUniqueId"));
    return initThreads(options.ranks(), 0, options.ranks(), id);
  }
  Communicators comms(static_cast<size_t>(options.ranks()), nullptr);
  HORING_TRY(called(horingCommInitAll(comms.data(), options.ranks(), nullptr), nullptr, "horingCommInitAll"));
  return comms;
}

Result<horingComm_t> openSimulated(Ranks& ranks) {
  horingUniqueId id{};
  if (ranks.rank() == 0) HORING_TRY(called(horingGetUniqueId(&id), nullptr, "horingGetUniqueId"));
  HORING_TRY(called(horingBroadcast(&id, &id, sizeof id, horingUint8, 0, ranks.comm(), nullptr), ranks.comm(),
                    "horingBroadcast"));
  HORING_TRY(called(horingSetDefault("HORING_CALIBRATE", "1"), nullptr, "horingSetDefault"));
  horingComm_t comm = nullptr;
  HORING_TRY(
      called(horingCommInitRank(&comm, ranks.size(), id, ranks.rank()), nullptr, "horingCommInitRank"));
  return comm;
}

}  // namespace horing::perf
