// Making, querying and ending communicators.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include "nccl/config.h"
#include "nccl/environment.h"
#include "nccl/face.h"
#include "nccl/face_deadlines.h"
#include "nccl/init_lines.h"

using namespace horing::nccl;

namespace {
// Merges the settings of the caller and the environment.
ncclResult_t settle(const ncclConfig_t* config, Settings& settings) {
  const ncclResult_t read = readConfig(config, settings);
  if (read == ncclSuccess) overrideBy(settings);
  return read;
}

template <typename Make>
ncclResult_t makeLogged(ncclComm_t* place, const InitCall& call, Make make) {
  const ncclResult_t made = answer(make());
  if (made == ncclSuccess || made == ncclInProgress) logBegin(place, call);
  if (!groupIsOpen()) logEnd(made);
  return made;
}

// Makes a communicator by an ID in a group of its own, if none is open: so its handle is written, and logged, before the rank waits.
template <typename Make>
ncclResult_t makeInGroup(ncclComm_t* place, const InitCall& call, Make make) {
  if (groupIsOpen()) return makeLogged(place, call, make);
  if (const ncclResult_t opened = answer(horingGroupStart()); opened != ncclSuccess) return opened;
  ncclResult_t made = answer(make());
  if (made == ncclSuccess) {
    logBegin(place, call);
    made = answer(horingGroupEnd());
  } else {
    [[maybe_unused]] const horingResult_t dropped = horingGroupDiscard();
  }
  logEnd(made);
  return made;
}

// The first unique ID is that of the job; null: refused.
ncclResult_t initRank(const char* function, ncclComm_t* comm, int nranks, int rank, int ids,
                      const ncclUniqueId* given, ncclConfig_t* config, bool is_list) {
  Settings settings;
  if (const ncclResult_t read = takeOverEnvironment(); read != ncclSuccess) return read;
  if (const ncclResult_t read = settle(config, settings); read != ncclSuccess) return refuseGroup(read);
  showBanner(rank);
  const FaceDeadlines deadlines;
  InitCall call{.function = function, .rank = rank, .ranks = nranks};
  if (given) call.id = hashOf(*given);
  return makeInGroup(comm, call, [&] {
    if (!is_list) return horingCommInitRankConfig(own(comm), nranks, own(*given), rank, settings.used);
    auto* const list = const_cast<horingUniqueId*>(reinterpret_cast<const horingUniqueId*>(given));
    return horingCommInitRankScalable(own(comm), nranks, rank, ids, list, settings.used);
  });
}
}  // namespace

NCCL_FACE(ncclResult_t, GetUniqueId, (ncclUniqueId * id)) {
  if (const ncclResult_t read = takeOverEnvironment(); read != ncclSuccess) return read;
  return answer(horingGetUniqueId(reinterpret_cast<horingUniqueId*>(id)));
}

NCCL_FACE(ncclResult_t, CommInitRankConfig,
          (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config)) {
  return initRank("ncclCommInitRankConfig", comm, nranks, rank, 1, &commId, config, false);
}

NCCL_FACE(ncclResult_t, CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank)) {
  return initRank("ncclCommInitRank", comm, nranks, rank, 1, &commId, nullptr, false);
}

NCCL_FACE(ncclResult_t, CommInitRankScalable,
          (ncclComm_t * comm, int nranks, int rank, int ids, ncclUniqueId* given, ncclConfig_t* config)) {
  return initRank("ncclCommInitRankScalable", comm, nranks, rank, ids, given, config, true);
}

namespace {
constexpr int kMostRanksOfAProcess = 4096;  // larger counts are refused before the list is read

// Logs the lines of communicators that are made at once, without a unique ID.
void logAll(ncclComm_t* comms, int count, const int* devices) {
  ncclUniqueId unlike_others{};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const pid_t process = ::getpid();
  std::memcpy(unlike_others.internal, &now, sizeof now);
  std::memcpy(unlike_others.internal + sizeof now, &process, sizeof process);
  for (int rank = 0; rank < count; ++rank) {
    const InitCall call{.function = "ncclCommInitAll",
                        .rank = rank,
                        .ranks = count,
                        .id = hashOf(unlike_others),
                        .gpu = devices ? devices[rank] : -1};
    logBegin(&comms[rank], call);
  }
  if (!groupIsOpen()) logEnd(ncclSuccess);
}
}  // namespace

NCCL_FACE(ncclResult_t, CommInitAll, (ncclComm_t * comms, int ndev, const int* devlist)) {
  if (const ncclResult_t read = takeOverEnvironment(); read != ncclSuccess) return read;
  showBanner(0);
  const FaceDeadlines deadlines;
  // As NCCL numbers devices; in horing the buffers determine the device.
  std::vector<int> devices(static_cast<size_t>(devlist ? 0 : std::clamp(ndev, 0, kMostRanksOfAProcess)));
  std::iota(devices.begin(), devices.end(), 0);
  const ncclResult_t made =
      answer(horingCommInitAll(own(comms), ndev, devlist || devices.empty() ? devlist : devices.data()));
  if (made == ncclSuccess) logAll(comms, ndev, devlist);
  return made;
}

NCCL_FACE(ncclResult_t, CommSplit,
          (ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config)) {
  Settings settings;
  if (const ncclResult_t read = settle(config, settings); read != ncclSuccess) return refuseGroup(read);
  return makeLogged(made, {.function = "ncclCommSplit", .parent = comm, .color = color, .key = key},
                    [&] { return horingCommSplit(own(comm), color, key, own(made), settings.used); });
}

NCCL_FACE(ncclResult_t, CommShrink,
          (ncclComm_t comm, int* excluded, int count, ncclComm_t* made, ncclConfig_t* config, int flags)) {
  Settings settings;
  if (const ncclResult_t read = settle(config, settings); read != ncclSuccess) return refuseGroup(read);
  return makeLogged(made, {.function = "ncclCommShrink", .parent = comm}, [&] {
    return horingCommShrink(own(comm), excluded, count, own(made), settings.used, flags);
  });
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
  InitCall call{.function = "ncclCommGrow", .rank = rank, .ranks = nRanks, .parent = comm};
  if (id) call.id = hashOf(*id);
  const auto grow = [&] {
    return horingCommGrow(own(comm), nRanks, reinterpret_cast<const horingUniqueId*>(id), rank, own(made),
                          settings.used);
  };
  return comm ? makeLogged(made, call, grow) : makeInGroup(made, call, grow);
}

NCCL_FACE(ncclResult_t, CommFinalize, (ncclComm_t comm)) {
  return answer(horingCommFinalize(own(comm)));
}

NCCL_FACE(ncclResult_t, CommDestroy, (ncclComm_t comm)) {
  logForget(comm);
  return answer(horingCommDestroy(own(comm)));
}

NCCL_FACE(ncclResult_t, CommAbort, (ncclComm_t comm)) {
  logForget(comm);
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
  logProgress();
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
