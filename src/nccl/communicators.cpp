// Making, querying and ending communicators.
#include <algorithm>
#include <numeric>
#include <vector>

#include "nccl/config.h"
#include "nccl/environment.h"
#include "nccl/face.h"
#include "nccl/face_deadlines.h"

using namespace horing::nccl;

namespace {
// Merges the settings of the caller and the environment.
ncclResult_t settle(const ncclConfig_t* config, Settings& settings) {
  const ncclResult_t read = readConfig(config, settings);
  if (read == ncclSuccess) overrideBy(settings);
  return read;
}
}  // namespace

NCCL_FACE(ncclResult_t, GetUniqueId, (ncclUniqueId * id)) {
  if (const ncclResult_t read = takeOverEnvironment(); read != ncclSuccess) return read;
  return answer(horingGetUniqueId(reinterpret_cast<horingUniqueId*>(id)));
}

NCCL_FACE(ncclResult_t, CommInitRankConfig,
          (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config)) {
  Settings settings;
  if (const ncclResult_t read = takeOverEnvironment(); read != ncclSuccess) return read;
  if (const ncclResult_t read = settle(config, settings); read != ncclSuccess) return refuseGroup(read);
  logBegin(comm, rank, nranks);
  const FaceDeadlines deadlines;
  const ncclResult_t made =
      answer(horingCommInitRankConfig(own(comm), nranks, own(commId), rank, settings.used));
  logEnd(comm, rank, nranks, made);
  return made;
}

NCCL_FACE(ncclResult_t, CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank)) {
  return pncclCommInitRankConfig(comm, nranks, commId, rank, nullptr);
}

NCCL_FACE(ncclResult_t, CommInitRankScalable,
          (ncclComm_t * comm, int nranks, int rank, int ids, ncclUniqueId* given, ncclConfig_t* config)) {
  Settings settings;
  if (const ncclResult_t read = takeOverEnvironment(); read != ncclSuccess) return read;
  if (const ncclResult_t read = settle(config, settings); read != ncclSuccess) return refuseGroup(read);
  logBegin(comm, rank, nranks);
  const FaceDeadlines deadlines;
  const ncclResult_t made = answer(horingCommInitRankScalable(
      own(comm), nranks, rank, ids, reinterpret_cast<horingUniqueId*>(given), settings.used));
  logEnd(comm, rank, nranks, made);
  return made;
}

namespace {
constexpr int kMostRanksOfAProcess = 4096;  // larger counts are refused before the list is read
}  // namespace

NCCL_FACE(ncclResult_t, CommInitAll, (ncclComm_t * comms, int ndev, const int* devlist)) {
  if (const ncclResult_t read = takeOverEnvironment(); read != ncclSuccess) return read;
  for (int rank = 0; comms && rank < ndev; ++rank) logBegin(&comms[rank], rank, ndev);
  const FaceDeadlines deadlines;
  // As NCCL numbers devices; in horing the buffers determine the device.
  std::vector<int> devices(static_cast<size_t>(devlist ? 0 : std::clamp(ndev, 0, kMostRanksOfAProcess)));
  std::iota(devices.begin(), devices.end(), 0);
  const ncclResult_t made =
      answer(horingCommInitAll(own(comms), ndev, devlist || devices.empty() ? devlist : devices.data()));
  for (int rank = 0; made == ncclSuccess && rank < ndev; ++rank) logEnd(&comms[rank], rank, ndev, made);
  return made;
}

NCCL_FACE(ncclResult_t, CommSplit,
          (ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config)) {
  Settings settings;
  if (const ncclResult_t read = settle(config, settings); read != ncclSuccess) return refuseGroup(read);
  return answer(horingCommSplit(own(comm), color, key, own(made), settings.used));
}

NCCL_FACE(ncclResult_t, CommShrink,
          (ncclComm_t comm, int* excluded, int count, ncclComm_t* made, ncclConfig_t* config, int flags)) {
  Settings settings;
  if (const ncclResult_t read = settle(config, settings); read != ncclSuccess) return refuseGroup(read);
  return answer(horingCommShrink(own(comm), excluded, count, own(made), settings.used, flags));
}

NCCL_FACE(ncclResult_t, CommGetUniqueId, (ncclComm_t comm, ncclUniqueId* id)) {
  return answer(horingCommGetUniqueId(own(comm), reinterpret_cast<horingUniqueId*>(id)));
}

// A joining rank has no communicator yet, and may not have read NCCL's variables.
NCCL_FACE(ncclResult_t, CommGrow,
          (ncclComm_t comm, int nRanks, const ncclUniqueId* id, int rank, ncclComm_t* made,
           ncclConfig_t* config)) {
  Settings settings;
  if (const ncclResult_t read = comm ? ncclSuccess : takeOverEnvironment(); read != ncclSuccess) return read;
  if (const ncclResult_t read = settle(config, settings); read != ncclSuccess) return refuseGroup(read);
  const FaceDeadlines deadlines;
  return answer(horingCommGrow(own(comm), nRanks, reinterpret_cast<const horingUniqueId*>(id), rank,
                               own(made), settings.used));
}

NCCL_FACE(ncclResult_t, CommFinalize, (ncclComm_t comm)) {
  return answer(horingCommFinalize(own(comm)));
}

NCCL_FACE(ncclResult_t, CommDestroy, (ncclComm_t comm)) {
  return answer(horingCommDestroy(own(comm)));
}

NCCL_FACE(ncclResult_t, CommAbort, (ncclComm_t comm)) {
  return answer(horingCommAbort(own(comm)));
}

NCCL_FACE(ncclResult_t, CommRevoke, (ncclComm_t comm, int flags)) {
  return answer(horingCommRevoke(own(comm), flags));
}

NCCL_FACE(ncclResult_t, CommSuspend, (ncclComm_t comm, int flags)) {
  return answer(horingCommSuspend(own(comm), flags));
}

NCCL_FACE(ncclResult_t, CommResume, (ncclComm_t comm)) {
  return answer(horingCommResume(own(comm)));
}

NCCL_FACE(ncclResult_t, CommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value)) {
  uint64_t bytes = 0;
  int suspended = 0;
  if (!value) return refuse(ncclInvalidArgument, "value is NULL: expected where to put it");
  if (stat < ncclStatGpuMemSuspend || stat > ncclStatGpuMemTotal)
    return refuse(ncclInvalidArgument, "stat is %d: expected an ncclCommMemStat_t", static_cast<int>(stat));
  ncclResult_t asked = answer(horingCommMemoryBytes(own(comm), &bytes));
  if (asked == ncclSuccess) asked = answer(horingCommIsSuspended(own(comm), &suspended));
  if (asked != ncclSuccess) return asked;
  // All of it can be given back.
  *value = stat == ncclStatGpuMemSuspended ? static_cast<uint64_t>(suspended)
           : stat == ncclStatGpuMemPersist ? 0
                                           : bytes;
  return ncclSuccess;
}

NCCL_FACE(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t* error)) {
  horingResult_t own_error = horingSuccess;
  if (!error) return refuse(ncclInvalidArgument, "asyncError is NULL: expected where to put it");
  const ncclResult_t asked = answer(horingCommGetAsyncError(own(comm), &own_error));
  if (asked != ncclSuccess) return asked;
  *error = translated(own_error);
  if (*error != ncclSuccess && *error != ncclInProgress) keepErrorOf(comm);
  return ncclSuccess;
}

NCCL_FACE(ncclResult_t, CommCount, (const ncclComm_t comm, int* count)) {
  return answer(horingCommCount(own(comm), count));
}

NCCL_FACE(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int* device)) {
  return answer(horingCommCuDevice(own(comm), device));
}

NCCL_FACE(ncclResult_t, CommUserRank, (const ncclComm_t comm, int* rank)) {
  return answer(horingCommUserRank(own(comm), rank));
}
