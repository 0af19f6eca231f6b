/* NCCL's interface, served by horing: for programs that are compiled anew. Those that are compiled already load
 * libnccl.so.2 as they are (docs/nccl.md).
 *
 * Conventions
 *
 * (1) Names, numbers, layouts and signatures are those of NCCL 2.32. Every function is here, and a second time with
 * a p before its name, for profilers that put functions of their own in place of the first.
 *
 * (2) What a function does, who owns what, which threads may call it: as the function of the same name in
 * horing/horing.h, with nccl in place of horing. The comments below say only what differs.
 *
 * (3) NCCL_MAJOR, NCCL_MINOR and NCCL_PATCH, and ncclGetVersion, are the newest version of NCCL whose functions are
 * all served. Those of later versions are here, too: each says whether it is served. One that is not returns
 * ncclInvalidUsage, and ncclGetLastError says why.
 *
 * (4) NCCL's environment variables are read, as docs/nccl.md lists them. A variable of horing wins where both are set.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUDA's types, where its headers are installed. */
#if defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define NCCL_HAS_CUDA_RUNTIME
#endif
#if defined(NCCL_HAS_CUDA_RUNTIME) && __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#endif
#if defined(NCCL_HAS_CUDA_RUNTIME) && defined(__cplusplus) && __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#endif
#endif
#ifndef NCCL_HAS_CUDA_RUNTIME
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
#endif

/* Marks what the shared library exports. */
#if defined(__GNUC__)
#define NCCL_EXPORT __attribute__((visibility("default")))
#else
#define NCCL_EXPORT
#endif

/* Declares a function and its twin for profilers. */
#define NCCL_TWINS(result, name, ...)         \
  NCCL_EXPORT result nccl##name(__VA_ARGS__); \
  NCCL_EXPORT result pnccl##name(__VA_ARGS__)

/* The level (convention 3). */
#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""
/* A version as one number; up to 2.8 it has a digit less. */
#define NCCL_VERSION(major, minor, patch)                                \
  (((major) <= 2 && (minor) <= 8) ? (major)*1000 + (minor)*100 + (patch) \
                                  : (major)*10000 + (minor)*100 + (patch))
#define NCCL_VERSION_CODE 22809
/* Extension. The version of NCCL whose structs are below; initialisers write it, since it says which fields there are. */
#define NCCL_LAYOUT_VERSION 23203

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types ---- */

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout =
      8, /* from level 2.30 (HORING_NCCL_LEVEL); below it a deadline that passed is ncclRemoteError */
  ncclNumResults = 9
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/* Unused, as in NCCL. */
typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

typedef struct ncclComm* ncclComm_t;
/* Memory that other ranks put into, see ncclCommWindowRegister. */
typedef struct ncclWindow_vidmem* ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_API_MAGIC 0xcafebeef
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00
/* For ncclCommSuspend and ncclCommWindowRegister. */
#define NCCL_SUSPEND_MEM 0x01
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

/* Values of hostCftMode. */
typedef enum {
  ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
  ncclHostCftEnable = 1,
  ncclHostCftDisable = 2,
  ncclHostCftFallback = 3
} ncclHostCftMode_t;

/* Values of nvlsHostMode. */
typedef enum {
  ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
  ncclNvlsHostModeEnable = 0,
  ncclNvlsHostModeDisableTransport = 1,
  ncclNvlsHostModeDisableSymmetricMultimem = 2,
  ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

/* Settings of one communicator: see horingConfig_t, which has the same fields. A field counts if the version in the
 * struct has it. */
typedef struct ncclConfig_v23100 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
  int launchOrderImplicit;
  int numRmaSig;
  int rmaEagerInit;
  int hostCftMode;
  int nvlsHostMode;
} ncclConfig_t;

/* clang-format off */
#define NCCL_CONFIG_INITIALIZER { \
  sizeof(ncclConfig_t),  NCCL_API_MAGIC,        NCCL_LAYOUT_VERSION, \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
  NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT }
/* clang-format on */

/* A list of options of vendors, of at most 1024; those of others than horing are skipped. */
typedef struct ncclConfigExt {
  struct ncclConfigExt* next;
  struct {
    int vendorId;
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    void* raw;
  } val;
} ncclConfigExt_t;
/* Extension. horing's vendorId and its options, each at most once in a list. An unknown one is ncclInvalidArgument, one
 * that the call cannot have is ncclInvalidUsage. */
#define NCCL_VENDOR_HORING 0x686f72
/* val.i: milliseconds, 0 (none) to 86400000, in place of the communicator's timeout. With buffers in memory of a GPU
 * refused, unless it is the communicator's timeout, which horingCommSetTimeout sets for all its calls. */
#define NCCL_HORING_TIMEOUT_MS 1
/* val.i: 1: the result shall be reproducible (HORING_REPRODUCIBLE); 0. Reductions: only if the communicator is so. */
#define NCCL_HORING_REPRODUCIBLE 2
/* val.s: the name of an algorithm, as in horingCallOptions_t; refused with buffers in memory of a GPU. NULL, or empty:
 * none. */
#define NCCL_HORING_ALGORITHM 3

/* Settings of one call. All fields are checked. Those that choose kernels' resources change nothing. algSelection
 * forces the nearest algorithm of horing, unless forceAlgSelection is 0; with buffers in memory of a GPU it is refused.
 * launchCompletionEvent must be NULL. */
typedef struct ncclCollConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  ncclConfigExt_t* ext;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char*
      algSelection; /* names of NCCL's algorithms, of which the first is taken that has the collective; or NULL */
  int forceAlgSelection; /* 1: one of them runs; 0: they change nothing */
  int CTAPolicy;
  uint64_t userProfilerTag;
  cudaEvent_t launchCompletionEvent; /* since 2.32 */
} ncclCollConfig_t;
/* clang-format off */
#define NCCL_COLLCONFIG_INITIALIZER { \
  sizeof(ncclCollConfig_t), NCCL_API_MAGIC,        NCCL_LAYOUT_VERSION,   NCCL_CONFIG_UNDEF_PTR, \
  NCCL_CONFIG_UNDEF_INT,    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
  NCCL_CONFIG_UNDEF_PTR,    1,                     NCCL_CONFIG_UNDEF_INT, 0, NCCL_CONFIG_UNDEF_PTR }
/* clang-format on */

/* What ncclGroupSimulateEnd answers. */
typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* microseconds */
} ncclSimInfo_t;
#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), 0x74685283, NCCL_LAYOUT_VERSION, NCCL_UNDEF_FLOAT }

/* What ncclCommMemStats is asked for. */
typedef enum {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended = 1,
  ncclStatGpuMemPersist = 2,
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;

/* What ncclWaitSignal waits for. */
typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

/* For ncclSetEncryption. */
typedef enum { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 } ncclEncryptionMode_t;
typedef struct ncclEncryptionConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int mode; /* an ncclEncryptionMode_t */
  const char* psk;
} ncclEncryptionConfig_t;
#define NCCL_ENCRYPTION_CONFIG_INITIALIZER                                                          \
  {                                                                                                 \
    sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_LAYOUT_VERSION, NCCL_ENCRYPTION_MODE_NONE, \
        NCCL_CONFIG_UNDEF_PTR                                                                       \
  }

/* A parameter, from ncclParamBind. */
typedef struct ncclParamHandle* ncclParamHandle_t;

/* ---- The library ---- */

/* Writes the level (convention 3), or what HORING_NCCL_LEVEL says (2.30.7, or 23007). */
NCCL_TWINS(ncclResult_t, GetVersion, int* version);
NCCL_TWINS(const char*, GetErrorString, ncclResult_t result);
/* The text of the latest error: of comm, if it is given and had one, else of the calling thread, else of the process. */
NCCL_TWINS(const char*, GetLastError, ncclComm_t comm);
/* Does nothing: the environment is read whenever a communicator is made. */
NCCL_TWINS(void, ResetDebugInit, void);
/* NCCL_ENCRYPTION_MODE_NONE succeeds. NCCL_ENCRYPTION_MODE_PSK is not served: connections prove the job's key,
 * but data is not encrypted. */
NCCL_TWINS(ncclResult_t, SetEncryption, const ncclEncryptionConfig_t* config);

/* ---- Communicators ---- */

NCCL_TWINS(ncclResult_t, GetUniqueId, ncclUniqueId* uniqueId);
NCCL_TWINS(ncclResult_t, CommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
NCCL_TWINS(ncclResult_t, CommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
           ncclConfig_t* config);
NCCL_TWINS(ncclResult_t, CommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank, int nId,
           ncclUniqueId* commIds, ncclConfig_t* config);
NCCL_TWINS(ncclResult_t, CommInitAll, ncclComm_t* comm, int ndev, const int* devlist);
NCCL_TWINS(ncclResult_t, CommSplit, ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
           ncclConfig_t* config);
NCCL_TWINS(ncclResult_t, CommShrink, ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
           ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);
/* Ranks of comm keep their numbers and pass rank -1; others join with the ID, comm NULL and a rank of their own. */
NCCL_TWINS(ncclResult_t, CommGetUniqueId, ncclComm_t comm, ncclUniqueId* uniqueId);
NCCL_TWINS(ncclResult_t, CommGrow, ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
           ncclComm_t* newcomm, ncclConfig_t* config);
NCCL_TWINS(ncclResult_t, CommFinalize, ncclComm_t comm);
NCCL_TWINS(ncclResult_t, CommDestroy, ncclComm_t comm);
NCCL_TWINS(ncclResult_t, CommAbort, ncclComm_t comm);
/* Ends what runs on comm, which may be shrunk or grown then. */
NCCL_TWINS(ncclResult_t, CommRevoke, ncclComm_t comm, int revokeFlags);
/* Gives the communicator's memory back, on the host as well, and takes it again. Collective. Buffers must not be
 * registered. */
NCCL_TWINS(ncclResult_t, CommSuspend, ncclComm_t comm, int flags);
NCCL_TWINS(ncclResult_t, CommResume, ncclComm_t comm);
/* ncclStatGpuMemSuspend and ncclStatGpuMemTotal: bytes that the communicator holds, on the host as well, which are 0
 * while it is suspended. ncclStatGpuMemSuspended: 1 while it is. ncclStatGpuMemPersist: 0. */
NCCL_TWINS(ncclResult_t, CommMemStats, ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value);
NCCL_TWINS(ncclResult_t, CommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError);
NCCL_TWINS(ncclResult_t, CommCount, const ncclComm_t comm, int* count);
NCCL_TWINS(ncclResult_t, CommCuDevice, const ncclComm_t comm, int* device);
NCCL_TWINS(ncclResult_t, CommUserRank, const ncclComm_t comm, int* rank);

/* ---- Memory ---- */

/* Memory of the current GPU, if this process uses CUDA; else of the host, as horingMemAlloc. */
NCCL_TWINS(ncclResult_t, MemAlloc, void** ptr, size_t size);
/* Also frees what cudaMalloc gave. */
NCCL_TWINS(ncclResult_t, MemFree, void* ptr);
NCCL_TWINS(ncclResult_t, CommRegister, const ncclComm_t comm, void* buff, size_t size, void** handle);
NCCL_TWINS(ncclResult_t, CommDeregister, const ncclComm_t comm, void* handle);
/* As horingCommWindowRegister. A NULL window, on all ranks, is NCCL's answer where peers cannot map memory: collectives
 * on buff work without. */
NCCL_TWINS(ncclResult_t, CommWindowRegister, ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
           int winFlags);
/* A NULL window succeeds. */
NCCL_TWINS(ncclResult_t, CommWindowDeregister, ncclComm_t comm, ncclWindow_t win);
NCCL_TWINS(ncclResult_t, WinGetUserPtr, ncclComm_t comm, ncclWindow_t win, void** outUserPtr);

/* ---- Collectives ---- */

NCCL_TWINS(ncclResult_t, RedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
           ncclScalarResidence_t residence, ncclComm_t comm);
NCCL_TWINS(ncclResult_t, RedOpDestroy, ncclRedOp_t op, ncclComm_t comm);

NCCL_TWINS(ncclResult_t, Reduce, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
           ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
/* ncclBroadcast in place. */
NCCL_TWINS(ncclResult_t, Bcast, void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
           cudaStream_t stream);
NCCL_TWINS(ncclResult_t, Broadcast, const void* sendbuff, void* recvbuff, size_t count,
           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
NCCL_TWINS(ncclResult_t, AllReduce, const void* sendbuff, void* recvbuff, size_t count,
           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
NCCL_TWINS(ncclResult_t, ReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
NCCL_TWINS(ncclResult_t, AllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
NCCL_TWINS(ncclResult_t, AlltoAll, const void* sendbuff, void* recvbuff, size_t count,
           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
NCCL_TWINS(ncclResult_t, Gather, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
           int root, ncclComm_t comm, cudaStream_t stream);
NCCL_TWINS(ncclResult_t, Scatter, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
           int root, ncclComm_t comm, cudaStream_t stream);

/* With settings for this call; NULL: none. Errors: also ncclInvalidArgument (config not initialised, a field with a
 * value that is not allowed), ncclInvalidUsage (an algorithm that horing has not for this call; a launchCompletionEvent; an
 * option of ext that the call cannot have). */
NCCL_TWINS(ncclResult_t, ReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
           ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
           const ncclCollConfig_t* config);
NCCL_TWINS(ncclResult_t, BroadcastConfig, const void* sendbuff, void* recvbuff, size_t count,
           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
           const ncclCollConfig_t* config);
NCCL_TWINS(ncclResult_t, AllReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
           const ncclCollConfig_t* config);
NCCL_TWINS(ncclResult_t, ReduceScatterConfig, const void* sendbuff, void* recvbuff, size_t recvcount,
           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
           const ncclCollConfig_t* config);
NCCL_TWINS(ncclResult_t, AllGatherConfig, const void* sendbuff, void* recvbuff, size_t sendcount,
           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
NCCL_TWINS(ncclResult_t, AlltoAllConfig, const void* sendbuff, void* recvbuff, size_t count,
           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
NCCL_TWINS(ncclResult_t, GatherConfig, const void* sendbuff, void* recvbuff, size_t count,
           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
           const ncclCollConfig_t* config);
NCCL_TWINS(ncclResult_t, ScatterConfig, const void* sendbuff, void* recvbuff, size_t count,
           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
           const ncclCollConfig_t* config);

/* ---- Messages ---- */

NCCL_TWINS(ncclResult_t, Send, const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
           ncclComm_t comm, cudaStream_t stream);
NCCL_TWINS(ncclResult_t, Recv, void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
           ncclComm_t comm, cudaStream_t stream);
/* As horingPutSignal, horingSignal, horingWaitSignal. A NULL window is ncclInvalidArgument. */
NCCL_TWINS(ncclResult_t, PutSignal, const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
           ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags,
           ncclComm_t comm, cudaStream_t stream);
NCCL_TWINS(ncclResult_t, Signal, int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
           cudaStream_t stream);
NCCL_TWINS(ncclResult_t, WaitSignal, int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
           cudaStream_t stream);

/* ---- Groups ---- */

NCCL_TWINS(ncclResult_t, GroupStart, void);
NCCL_TWINS(ncclResult_t, GroupEnd, void);
NCCL_TWINS(ncclResult_t, GroupSimulateEnd, ncclSimInfo_t* simInfo);

/* ---- Parameters: the NCCL_ variables that are read, by their names. ----
 *
 * A handle belongs to the library and stays valid. Values are those of the environment, or of NCCL's files, when they
 * are asked for. Any thread. Errors: ncclInvalidArgument (NULL, no such parameter, one that is not set, a value that
 * is no number of that size; too little room). */
NCCL_TWINS(ncclResult_t, ParamBind, ncclParamHandle_t* out, const char* key);
NCCL_TWINS(ncclResult_t, ParamGetI8, ncclParamHandle_t h, int8_t* out);
NCCL_TWINS(ncclResult_t, ParamGetI16, ncclParamHandle_t h, int16_t* out);
NCCL_TWINS(ncclResult_t, ParamGetI32, ncclParamHandle_t h, int32_t* out);
NCCL_TWINS(ncclResult_t, ParamGetI64, ncclParamHandle_t h, int64_t* out);
NCCL_TWINS(ncclResult_t, ParamGetU8, ncclParamHandle_t h, uint8_t* out);
NCCL_TWINS(ncclResult_t, ParamGetU16, ncclParamHandle_t h, uint16_t* out);
NCCL_TWINS(ncclResult_t, ParamGetU32, ncclParamHandle_t h, uint32_t* out);
NCCL_TWINS(ncclResult_t, ParamGetU64, ncclParamHandle_t h, uint64_t* out);
/* A text that stays valid until the calling thread asks for another one. */
NCCL_TWINS(ncclResult_t, ParamGetStr, ncclParamHandle_t h, const char** out);
/* Copies the text with its closing 0 into maxLen bytes, and writes its length without it. */
NCCL_TWINS(ncclResult_t, ParamGet, ncclParamHandle_t h, void* out, int maxLen, int* len);
/* As ncclParamGetStr, by name, with the length. */
NCCL_TWINS(ncclResult_t, ParamGetParameter, const char* key, const char** value, int* valueLen);
/* Writes a table of all names, which belongs to the library, and how many there are. */
NCCL_TWINS(ncclResult_t, ParamGetAllParameterKeys, const char*** table, int* tableLen);
/* Prints those that are set to stdout, NAME=VALUE, one a line. */
NCCL_TWINS(void, ParamDumpAll, void);

#ifdef __cplusplus
}
#endif

#endif /* NCCL_H_ */
