/* The host's side of NCCL's device API. Kernels that call NCCL cannot be served: what would prepare for them is refused
 * with ncclInvalidUsage and a text. What only asks about ranks is answered. */
#ifndef NCCL_DEVICE_H_
#define NCCL_DEVICE_H_

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A set of ranks: nRanks of them, each `stride` after the one before; this rank is number `rank`. */
typedef struct ncclTeam {
  int nRanks, rank, stride;
} ncclTeam_t;

/* Networking that kernels begin: there is none here. */
typedef enum {
  NCCL_GIN_CONNECTION_NONE,
  NCCL_GIN_CONNECTION_FULL,
  NCCL_GIN_CONNECTION_RAIL,
  NCCL_GIN_CONNECTION_CUSTOM_STRIDE
} ncclGinConnectionType_t;
typedef enum {
  NCCL_GIN_TYPE_NONE = 0,
  NCCL_GIN_TYPE_PROXY = 2,
  NCCL_GIN_TYPE_GDAKI = 3,
  NCCL_GIN_TYPE_GPI = 4,
  NCCL_GIN_TYPE_EFA_GDA = 5,
  NCCL_GIN_MAX_TYPES = 6
} ncclGinType_t;

/* For ncclTeamCft. */
typedef enum { NCCL_CFT_TEAM_FLAT, NCCL_CFT_TEAM_HIER_MULTIMEM, NCCL_CFT_TEAM_HIER_LSA } ncclCftTeamMode_t;

/* Opaque here. */
typedef struct ncclDevComm ncclDevComm_t;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle_t;
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle_t;
typedef struct ncclLLA2AHandle ncclLLA2AHandle_t;
typedef struct ncclGinOutboxHandle ncclGinOutboxHandle_t;
typedef struct ncclGinInboxA2AHandle ncclGinInboxA2AHandle_t;
/* For functions that are refused. */
typedef struct ncclMultimemHandle {
  void* mcBasePtr;
} ncclMultimemHandle_t;
typedef uint32_t ncclCftLeId;

/* What a communicator is and can. The caller writes size, magic and version; of the rest, what fits into size is
 * written. */
typedef struct ncclCommProperties {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int rank;
  int nRanks;
  int cudaDev; /* -1: works on no GPU yet */
  int nvmlDev; /* -1: not known */
  bool deviceApiSupport;
  bool multimemSupport;
  ncclGinType_t ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  ncclGinType_t railedGinType;
  uint64_t commHash; /* 0: not known */
  int ginMinStride;
  ncclGinConnectionType_t ginConnectionType;
  bool ginSupport[64];
  size_t devCommRuntimeVersionSize;
  bool cftSupport;
  bool cftMulticastSupport;
  bool cftCountedSupport;
} ncclCommProperties_t;
#define NCCL_COMM_PROPERTIES_INITIALIZER \
  { sizeof(ncclCommProperties_t), NCCL_API_MAGIC, NCCL_LAYOUT_VERSION }

/* Writes the properties of comm. */
NCCL_TWINS(ncclResult_t, CommQueryProperties, ncclComm_t comm, ncclCommProperties_t* props);

/* All ranks; those whose memory kernels reach directly: this rank alone; those on the same rail, as NCCL means it:
 * all ranks. For something that is not a communicator: no ranks. */
NCCL_TWINS(ncclTeam_t, TeamWorld, ncclComm_t comm);
NCCL_TWINS(ncclTeam_t, TeamLsa, ncclComm_t comm);
NCCL_TWINS(ncclTeam_t, TeamRail, ncclComm_t comm);
/* This rank alone. */
NCCL_TWINS(ncclTeam_t, TeamCft, ncclComm_t comm, ncclCftTeamMode_t mode);
NCCL_TWINS(ncclTeam_t, TeamCftMultimem, ncclComm_t comm);
/* The number of a team's rank among all ranks, and among those of ncclTeamLsa. */
NCCL_TWINS(int, TeamRankToWorld, ncclComm_t comm, ncclTeam_t team, int rank);
NCCL_TWINS(int, TeamRankToLsa, ncclComm_t comm, ncclTeam_t team, int rank);

/* Refused. */
NCCL_TWINS(ncclResult_t, DevCommCreate, ncclComm_t comm, ncclDevCommRequirements_t const* reqs,
           ncclDevComm_t* outDevComm);
NCCL_TWINS(ncclResult_t, DevCommDestroy, ncclComm_t comm, ncclDevComm_t const* devComm);
NCCL_TWINS(ncclResult_t, GetLsaMultimemDevicePointer, ncclWindow_t window, size_t offset, void** outPtr);
NCCL_TWINS(ncclResult_t, GetMultimemDevicePointer, ncclWindow_t window, size_t offset,
           ncclMultimemHandle_t multimem, void** outPtr);
NCCL_TWINS(ncclResult_t, GetLsaDevicePointer, ncclWindow_t window, size_t offset, int lsaRank, void** outPtr);
NCCL_TWINS(ncclResult_t, GetPeerDevicePointer, ncclWindow_t window, size_t offset, int peer, void** outPtr);
NCCL_TWINS(ncclResult_t, GetMultimemDeviceLeInfo, ncclWindow_t window, size_t offset, ncclCftLeId* leId,
           size_t* leOffset);
NCCL_TWINS(ncclResult_t, GetCftDeviceLeInfo, ncclWindow_t window, size_t offset, int peerCft,
           ncclTeam_t cftTeam, ncclCftLeId* leId, size_t* leOffset);
NCCL_TWINS(ncclResult_t, GetPeerDeviceLeInfo, ncclWindow_t window, size_t offset, int peerWorld,
           ncclCftLeId* leId, size_t* leOffset);
NCCL_TWINS(ncclResult_t, LsaBarrierCreateRequirement, ncclTeam_t team, int nBarriers,
           ncclLsaBarrierHandle_t* outHandle, ncclDevResourceRequirements_t* outReq);
NCCL_TWINS(ncclResult_t, GinBarrierCreateRequirement, ncclComm_t comm, ncclTeam_t team, int nBarriers,
           ncclGinBarrierHandle_t* outHandle, ncclDevResourceRequirements_t* outReq);
NCCL_TWINS(ncclResult_t, LLA2ACreateRequirement, int nBlocks, int nSlots, ncclLLA2AHandle_t* outHandle,
           ncclDevResourceRequirements_t* outReq);
NCCL_TWINS(ncclResult_t, GinOutboxCreateRequirement, int nBlocks, int size_log2,
           ncclGinOutboxHandle_t* outHandle, ncclDevResourceRequirements_t* outReq);
NCCL_TWINS(ncclResult_t, GinInboxA2ACreateRequirement, ncclTeam_t peers, int nBlocks, int size_log2,
           ncclGinInboxA2AHandle_t* outHandle, ncclDevResourceRequirements_t* outReq);
/* 0. */
NCCL_TWINS(int, LLA2ACalcSlots, int maxElts, int maxEltSize);

#ifdef __cplusplus
}
#endif

#endif /* NCCL_DEVICE_H_ */
