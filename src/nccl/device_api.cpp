// The host side of the device API: serves queries about ranks, refuses functions that prepare for kernels.
#include <algorithm>
#include <cstring>

#include "nccl/current_gpu.h"
#include "nccl/face.h"

using namespace horing::nccl;

namespace {

constexpr ncclTeam_t kNobody{0, 0, 0}, kAlone{1, 0, 1};

// The team of all ranks of the communicator; empty on error.
ncclTeam_t allRanks(ncclComm_t comm) {
  ncclTeam_t team = kNobody;
  const bool known = answer(horingCommCount(own(comm), &team.nRanks)) == ncclSuccess &&
                     answer(horingCommUserRank(own(comm), &team.rank)) == ncclSuccess;
  team.stride = 1;
  return known ? team : kNobody;
}

ncclTeam_t thisRank(ncclComm_t comm) {
  return allRanks(comm).nRanks > 0 ? kAlone : kNobody;
}

// The distance from this rank to the team's rank.
int distanceTo(const ncclTeam_t& team, int rank) {
  return (rank - team.rank) * team.stride;
}

ncclResult_t noDeviceApi(const char* name) {
  return notServed(name, "kernels that call NCCL cannot be served; call its functions on the host");
}

}  // namespace

NCCL_FACE(ncclResult_t, CommQueryProperties, (ncclComm_t comm, ncclCommProperties_t* props)) {
  constexpr size_t kHead = offsetof(ncclCommProperties_t, rank);
  if (!props || props->magic != NCCL_API_MAGIC || props->size < kHead)
    return refuse(ncclInvalidArgument,
                  "props is NULL or was not initialised: begin with NCCL_COMM_PROPERTIES_INITIALIZER");
  ncclCommProperties_t known = NCCL_COMM_PROPERTIES_INITIALIZER;
  const ncclTeam_t all = allRanks(comm);
  if (all.nRanks == 0) return ncclInvalidArgument;
  known.rank = all.rank;
  known.nRanks = all.nRanks;
  known.nLsaTeams = all.nRanks;
  known.nvmlDev = -1;
  // Windows in memory of the host always work. Whether the GPUs of all ranks reach each other, and so whether there can be windows in their
  // memory, the ranks find out together only when they register one.
  known.hostRmaSupport = !CurrentGpu::find();
  if (const ncclResult_t asked = answer(horingCommCuDevice(own(comm), &known.cudaDev)); asked != ncclSuccess)
    return asked;
  const size_t size = std::min(props->size, sizeof known);
  std::memcpy(reinterpret_cast<char*>(props) + kHead, reinterpret_cast<const char*>(&known) + kHead,
              size - kHead);
  return ncclSuccess;
}

NCCL_FACE(ncclTeam_t, TeamWorld, (ncclComm_t comm)) {
  return allRanks(comm);
}
NCCL_FACE(ncclTeam_t, TeamRail, (ncclComm_t comm)) {
  return allRanks(comm);
}
NCCL_FACE(ncclTeam_t, TeamLsa, (ncclComm_t comm)) {
  return thisRank(comm);
}
NCCL_FACE(ncclTeam_t, TeamCft, (ncclComm_t comm, ncclCftTeamMode_t)) {
  return thisRank(comm);
}
NCCL_FACE(ncclTeam_t, TeamCftMultimem, (ncclComm_t comm)) {
  return thisRank(comm);
}
NCCL_FACE(int, TeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank)) {
  return allRanks(comm).rank + distanceTo(team, rank);
}
NCCL_FACE(int, TeamRankToLsa, (ncclComm_t, ncclTeam_t team, int rank)) {
  return distanceTo(team, rank);
}

NCCL_FACE(ncclResult_t, DevCommCreate, (ncclComm_t, ncclDevCommRequirements_t const*, ncclDevComm_t*)) {
  return noDeviceApi("ncclDevCommCreate");
}
NCCL_FACE(ncclResult_t, DevCommDestroy, (ncclComm_t, ncclDevComm_t const*)) {
  return noDeviceApi("ncclDevCommDestroy");
}
NCCL_FACE(ncclResult_t, GetLsaMultimemDevicePointer, (ncclWindow_t, size_t, void**)) {
  return noDeviceApi("ncclGetLsaMultimemDevicePointer");
}
NCCL_FACE(ncclResult_t, GetMultimemDevicePointer, (ncclWindow_t, size_t, ncclMultimemHandle_t, void**)) {
  return noDeviceApi("ncclGetMultimemDevicePointer");
}
NCCL_FACE(ncclResult_t, GetLsaDevicePointer, (ncclWindow_t, size_t, int, void**)) {
  return noDeviceApi("ncclGetLsaDevicePointer");
}
NCCL_FACE(ncclResult_t, GetPeerDevicePointer, (ncclWindow_t, size_t, int, void**)) {
  return noDeviceApi("ncclGetPeerDevicePointer");
}
NCCL_FACE(ncclResult_t, GetMultimemDeviceLeInfo, (ncclWindow_t, size_t, ncclCftLeId*, size_t*)) {
  return noDeviceApi("ncclGetMultimemDeviceLeInfo");
}
NCCL_FACE(ncclResult_t, GetCftDeviceLeInfo, (ncclWindow_t, size_t, int, ncclTeam_t, ncclCftLeId*, size_t*)) {
  return noDeviceApi("ncclGetCftDeviceLeInfo");
}
NCCL_FACE(ncclResult_t, GetPeerDeviceLeInfo, (ncclWindow_t, size_t, int, ncclCftLeId*, size_t*)) {
  return noDeviceApi("ncclGetPeerDeviceLeInfo");
}
NCCL_FACE(ncclResult_t, LsaBarrierCreateRequirement,
          (ncclTeam_t, int, ncclLsaBarrierHandle_t*, ncclDevResourceRequirements_t*)) {
  return noDeviceApi("ncclLsaBarrierCreateRequirement");
}
NCCL_FACE(ncclResult_t, GinBarrierCreateRequirement,
          (ncclComm_t, ncclTeam_t, int, ncclGinBarrierHandle_t*, ncclDevResourceRequirements_t*)) {
  return noDeviceApi("ncclGinBarrierCreateRequirement");
}
NCCL_FACE(ncclResult_t, LLA2ACreateRequirement,
          (int, int, ncclLLA2AHandle_t*, ncclDevResourceRequirements_t*)) {
  return noDeviceApi("ncclLLA2ACreateRequirement");
}
NCCL_FACE(ncclResult_t, GinOutboxCreateRequirement,
          (int, int, ncclGinOutboxHandle_t*, ncclDevResourceRequirements_t*)) {
  return noDeviceApi("ncclGinOutboxCreateRequirement");
}
NCCL_FACE(ncclResult_t, GinInboxA2ACreateRequirement,
          (ncclTeam_t, int, int, ncclGinInboxA2AHandle_t*, ncclDevResourceRequirements_t*)) {
  return noDeviceApi("ncclGinInboxA2ACreateRequirement");
}
NCCL_FACE(int, LLA2ACalcSlots, (int, int)) {
  return 0;
}
