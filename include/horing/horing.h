/* horing: collective communication between the ranks of a job. C99 and C++.
 *
 * Conventions
 *
 * (1) Names, signatures and numbers are NCCL's after renaming, so that a caller migrates by
 *   sed -e 's/[<"]nccl[.]h[>"]/<horing\/horing.h>/' -e 's/nccl/horing/g' -e 's/NCCL/HORING/g' \
 *       -e 's/HORING_VERSION/HORING_NCCL_VERSION/g'
 * The last part is for guards like NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0), which then ask for the level
 * of NCCL that is here, 2.26; horingGetVersion and HORING_MAJOR are about horing. Of that level these are
 * missing: ncclResetDebugInit, and profilers' names (pnccl...). Of later ones there are
 * horingCommShrink, horingAlltoAll, horingGather and horingScatter, but no windows. Anything that NCCL does
 * not have is marked "Extension".
 *
 * (2) Every function returns a horingResult_t: horingSuccess (0) or the kind of failure. Output pointers are
 * written only if the call succeeds. horingGetLastError() has the details of a failure: what was tried, on
 * which rank and peer, what happened, and what to do.
 *
 * (3) Sizes of buffers are counts of elements (size_t, so beyond 2^31), never bytes. A count of 0 is legal
 * and moves nothing; the buffers may then be NULL. A communicator of one rank is legal: its collectives copy.
 *
 * (4) Buffers belong to the caller and are aligned to the size of an element. They must be neither freed nor
 * touched until the operation is complete. The library only reads `sendbuff`. Two buffers of a call overlap
 * exactly as the collective's "in place" says, or not at all. On all ranks of a call the buffers are in host
 * memory, or on all ranks on a GPU: every rank uses the GPU that its communicator worked on first or, where
 * its ranks agreed on kernels while it was made, the one that was current then (of a child, its parent's).
 * They do where each rank is a process with a GPU of its own current, unless HORING_GPU_PATH=staged: kernels
 * and their memory (32 MiB of it) are ready at once then. Managed memory may be used in either case, and pinned
 * memory counts as host memory, but on a cudaStream_t as memory of the stream's GPU. Both ends of a message are on GPUs, or neither is. HORING_DEBUG=info logs where
 * kernels cannot serve a communicator.
 *
 * (5) Streams order operations.
 *
 * With NULL an operation is complete on return, and begins after all earlier ones on the same communicator;
 * on a GPU also after the earlier work on its default stream.
 *
 * With a stream of horingStreamCreate the call returns at once; the operation runs when those before it on
 * the stream, and those before it on the communicator, are complete. Operations of different communicators
 * overlap. While 4096 operations are queued on a communicator the next call waits for room, at most
 * HORING_TIMEOUT_MS (docs/semantics.md).
 *
 * With a cudaStream_t, for buffers on the GPU of that stream, the call returns at once as well, and the
 * operation is ordered like a kernel launched there; but the call waits for operations on GPU memory that are
 * queued on the communicator by a stream of horingStreamCreate. A later failure unblocks the stream and sticks to the
 * communicator (horingCommGetAsyncError). A call may wait on the host until other ranks have made theirs, so
 * one thread that drives several ranks puts their calls into a group. docs/semantics.md says which calls wait,
 * and what a stream may record as a graph.
 *
 * For host buffers any other pointer is refused with horingInvalidUsage: a cudaStream_t, too, unless they are
 * pinned (cudaHostAlloc, cudaHostRegister).
 * Streams and buffers are of the GPU's primary context, as CUDA's runtime makes them. A stream may also be of
 * a green context; if that has few SMs, HORING_GPU_BLOCKS must be no more than fit there at once.
 *
 * Kernels of several GPUs wait for each other, and calls of CUDA that free or allocate memory may wait for all work
 * on a GPU: where several threads or communicators drive GPUs, docs/semantics.md says when not to make any.
 *
 * (6) All ranks of a communicator call the same collectives, in the same order, with the same count, type and
 * operation. Every rank gets the same bits. Two runs on the same ranks whose communicators make the same
 * calls, with the same kind of memory (horingMemAlloc or not) in each, give the same bits. Within a run, the
 * bits of a call may also depend on the memory of earlier calls (docs/semantics.md).
 *
 * With HORING_REPRODUCIBLE=1, or `reproducible` in options, the result of all-reduce, reduce-scatter and
 * reduce depends only on the inputs and on which rank is in which group, to the bit; not on counts, offsets,
 * slices, memory, transports or the collective. Each input is multiplied first (horingAvg of floating point,
 * premulsum) and rounded to the data type. The inputs of each group are folded from the left by rank and
 * rounded; then the groups' results are folded from the left, in the order of their lowest ranks, and
 * rounded. Groups that differ in size are folded as one, by group and rank, and every rank sends to every
 * other. Where they have one size this moves, except for reduce, as few bytes between groups as any
 * algorithm. HORING_ALGO may then force no other algorithm.
 *
 * (7) Threads: different communicators may be used by different threads at once. One communicator is used by
 * one thread at a time; a collective that finds another thread in the communicator returns
 * horingInvalidUsage. Only these may be called for a communicator by any thread at any time before it is
 * ended: horingCommAbort (once), horingCommRevoke, horingCommCount, horingCommUserRank, horingCommGetAsyncError,
 * horingCommGetFailedRank, horingCommSetTimeout, horingGetLastError, horingCommBlock, horingCommGroup, horingCommRegister,
 * horingCommDeregister, horingRedOpCreatePreMulSum and horingRedOpDestroy. Functions that take no
 * communicator may be called by any thread at any time: horingGetVersion, horingGetErrorString,
 * horingGetUniqueId, horingMemAlloc, horingMemFree, and those of streams.
 *
 * (8) Errors stick to a communicator: after the first error that left the ranks out of step (a lost peer, a
 * timeout, a failed system call), every later collective returns that error; what is left is
 * horingCommShrink, horingCommAbort or horingCommDestroy. An argument that was refused before anything was
 * sent (NULL, unknown type) does not stick.
 *
 * (9) Every wait has a deadline (HORING_INIT_TIMEOUT_MS, HORING_TIMEOUT_MS), unless that is 0, and ends at once
 * where a rank is gone. `horing-info` lists all variables. They are read when a communicator is made, never later.
 *
 * (10) fork: a communicator belongs to the process that made it. In a child every call on it returns
 * horingInvalidUsage and leaves the parent's communicator alone; the child may make communicators of its own,
 * also with the unique ID of its parent, and exec is harmless. The child has none of the parent's
 * connections: pthread_atfork closes them in the child (a bare clone system call does not). So however long
 * the child lives, the other ranks notice at once when the parent is gone.
 *
 * (11) No exception leaves the library, no signal handler is installed, and it prints only where HORING_DEBUG
 * says so.
 */
#ifndef HORING_HORING_H_
#define HORING_HORING_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HORING_API __attribute__((visibility("default")))
#else
#define HORING_API
#endif

#define HORING_MAJOR 0
#define HORING_MINOR 1
#define HORING_PATCH 0
/* A version as one number, for comparisons: HORING_VERSION_CODE >= HORING_VERSION(0, 1, 0). */
#define HORING_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define HORING_VERSION_CODE HORING_VERSION(HORING_MAJOR, HORING_MINOR, HORING_PATCH)
/* Extension. The version of NCCL whose names and numbers are here, see convention (1), as NCCL counts: up to
 * 2.8 with one digit fewer. */
#define HORING_NCCL_VERSION(major, minor, patch)                         \
  (((major) <= 2 && (minor) <= 8) ? (major)*1000 + (minor)*100 + (patch) \
                                  : (major)*10000 + (minor)*100 + (patch))
#define HORING_NCCL_VERSION_CODE HORING_NCCL_VERSION(2, 26, 0)

#define HORING_UNIQUE_ID_BYTES 128

#ifdef __cplusplus
extern "C" {
#endif

/* What every function returns. */
typedef enum {
  horingSuccess = 0,
  horingUnhandledCudaError = 1, /* a CUDA call failed */
  horingSystemError = 2,        /* a call of the operating system failed */
  horingInternalError = 3,      /* a bug in the library */
  horingInvalidArgument = 4,    /* an argument, or an environment variable, has a value that is not allowed */
  horingInvalidUsage = 5,       /* valid arguments at the wrong time or place, or ranks that disagree */
  horingRemoteError = 6,        /* a peer failed, died or closed its connection */
  horingInProgress = 7,         /* not complete yet (horingStreamQuery, config.blocking = 0) */
  horingTimeout = 8,            /* a deadline passed; the error text names the ranks that were missing */
  horingNumResults = 9
} horingResult_t;

/* Element types. Half and quarter precision are accumulated in float32 and rounded (to nearest even) each
 * time a value is sent or stored. What is too large becomes infinity as in IEEE 754; in float8e4m3, which has
 * none, 448. Subnormal numbers are kept, and the caller's rounding mode does not matter. */
typedef enum {
  horingInt8 = 0,
  horingChar = 0,
  horingUint8 = 1,
  horingInt32 = 2,
  horingInt = 2,
  horingUint32 = 3,
  horingInt64 = 4,
  horingUint64 = 5,
  horingFloat16 = 6,
  horingHalf = 6,
  horingFloat32 = 7,
  horingFloat = 7,
  horingFloat64 = 8,
  horingDouble = 8,
  horingBfloat16 = 9,
  horingFloat8e4m3 = 10,
  horingFloat8e5m2 = 11,
  horingNumTypes = 12
} horingDataType_t;

/* Reduction operations. Integers wrap around. Min and max give NaN if any operand is NaN. Avg multiplies each
 * input by 1/ranks for floating-point types, and what is sent then is rounded: the smallest float16 on each of
 * two ranks may give 0. For integers it divides the sum, which wraps, by ranks, rounding towards zero: two uint8
 * of 200 give 72. */
typedef enum {
  horingSum = 0,
  horingProd = 1,
  horingMax = 2,
  horingMin = 3,
  horingAvg = 4,
  horingNumOps = 5,
  horingBitAnd = 0x10000000, /* Extension, like the next two: bitwise, integer types only */
  horingBitOr = 0x10000001,
  horingBitXor = 0x10000002,
  horingMaxRedOp = 0x7fffffff /* the largest value; reserves the range */
} horingRedOp_t;

/* When the scalar of horingRedOpCreatePreMulSum is read. */
typedef enum {
  horingScalarDevice = 0,       /* each time an operation that uses it begins, see there */
  horingScalarHostImmediate = 1 /* before horingRedOpCreatePreMulSum returns; host memory */
} horingScalarResidence_t;

/* Lets ranks find each other and proves that they may join: whoever has it can join. Copy it to the ranks of
 * the job over a private channel, and nowhere else. Valid for one communicator. */
typedef struct {
  char internal[HORING_UNIQUE_ID_BYTES];
} horingUniqueId;

/* One rank's handle of a communicator. Made by the Init functions, horingCommSplit and horingCommShrink;
 * released by horingCommDestroy or horingCommAbort. */
typedef struct horingComm* horingComm_t;
#define HORING_COMM_NULL NULL

#define HORING_CONFIG_UNDEF_INT INT_MIN
#define HORING_CONFIG_UNDEF_PTR NULL
#define HORING_UNDEF_FLOAT -1.0f
#define HORING_SPLIT_NOCOLOR -1
#define HORING_CTA_POLICY_DEFAULT 0x00
#define HORING_CTA_POLICY_EFFICIENCY 0x01
#define HORING_CTA_POLICY_ZERO 0x02
#define HORING_SHRINK_DEFAULT 0x00
#define HORING_SHRINK_ABORT 0x01
#define HORING_REVOKE_DEFAULT 0x00
#define HORING_API_MAGIC 0xcafebeef /* internal */

/* Settings of one communicator: the fields, and the layout, of NCCL 2.32. Start with HORING_CONFIG_INITIALIZER, then
 * assign the fields that shall differ from the environment's settings; strings are copied. Fields that choose other
 * GPU resources, or offloads of NICs, are ignored, but a value that NCCL refuses is refused. What only horing has is in
 * horingOptions_t. If the caller was compiled with the header of an older library, the fields that it lacks count as
 * undefined; with the header of a newer one, fields that this library does not know must be undefined. */
typedef struct {
  size_t size;          /* from the initialiser */
  unsigned int magic;   /* from the initialiser */
  unsigned int version; /* from the initialiser */
  int blocking;         /* 1, or 0: see horingCommInitRankConfig; undefined: 1, or the parent's */
  int cgaClusterSize;   /* ignored; 0 to 8 */
  int minCTAs;          /* ignored; from 1, at most maxCTAs */
  int maxCTAs;          /* HORING_GPU_BLOCKS, 1 to 1024; the least of all ranks counts */
  const char* netName;  /* the only network between nodes: "Socket", or "IB" (RDMA); case is ignored */
  int splitShare;       /* ignored: nothing is shared between parent and child; 0 or 1 */
  int trafficClass;     /* the communicator's HORING_IB_TC, 0 to 255 */
  const char* commName; /* begins the text of horingCommDescribe; the first 128 bytes are kept */
  int collnetEnable;    /* ignored; 0 or 1 */
  int CTAPolicy;        /* ignored; HORING_CTA_POLICY_..., or several of them */
  int shrinkShare;      /* ignored, like splitShare */
  int nvlsCTAs, nChannelsPerNetPeer;            /* ignored; from 1 */
  int nvlinkCentricSched;                       /* ignored; 0 or 1 */
  int graphUsageMode;                           /* ignored; 0 to 2 */
  int numRmaCtx, maxP2pPeers;                   /* ignored; from 1 */
  int graphStreamOrdering, launchOrderImplicit; /* ignored; 0 or 1 */
  int numRmaSig;                                /* ignored; from 0 */
  int rmaEagerInit;                             /* ignored; 0 or 1 */
  int hostCftMode;                              /* ignored; 1 to 3 */
  int nvlsHostMode;                             /* ignored; from 0 */
} horingConfig_t;

/* clang-format off */
#define HORING_CONFIG_INITIALIZER { \
  sizeof(horingConfig_t),  HORING_API_MAGIC,        HORING_VERSION_CODE, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, \
  HORING_CONFIG_UNDEF_PTR, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_PTR, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT }
/* clang-format on */

/* Extension. Settings that NCCL does not have; like horingConfig_t, with HORING_OPTIONS_INITIALIZER. */
typedef struct {
  size_t size;                 /* from the initialiser */
  unsigned int magic, version; /* from the initialiser */
  int timeoutMs;               /* the communicator's HORING_TIMEOUT_MS, 0 (none) to 86400000 */
  int initTimeoutMs;           /* the communicator's HORING_INIT_TIMEOUT_MS, 1 to 86400000 */
  int reproducible;            /* the communicator's HORING_REPRODUCIBLE, 0 or 1; see convention (6) */
  int gpuKernels;              /* 1, or 0: HORING_GPU_PATH=staged, for one that takes no GPU memory */
} horingOptions_t;

/* clang-format off */
#define HORING_OPTIONS_INITIALIZER { \
  sizeof(horingOptions_t), HORING_API_MAGIC,        HORING_VERSION_CODE, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT }
/* clang-format on */

/* Opaque: NULL, a stream of horingStreamCreate, or a cudaStream_t; see convention (5). */
typedef void* horingStream_t;

/* ---- The library ---- */

/* Writes the HORING_VERSION_CODE of the library that is loaded, which may be newer than this header. Any
 * thread. Errors: horingInvalidArgument (version NULL). */
HORING_API horingResult_t horingGetVersion(int* version);

/* A short sentence for a result code; "unknown result code" for any other number. Never NULL; static. Any
 * thread. */
HORING_API const char* horingGetErrorString(horingResult_t result);

/* The text of the latest error: of this communicator or, with NULL, of the calling thread's latest failed
 * call. "" if there was none. Never NULL; owned by the library, valid until the calling thread calls this
 * again. Any thread, any time. */
HORING_API const char* horingGetLastError(horingComm_t comm);

/* Extension. Sets what communicators and IDs made from now on in this process use where the environment does not set
 * the variable `name` (horing-info lists all); NULL: the built-in default again. Strings are copied. Any thread.
 * Errors: horingInvalidArgument (no such variable); a bad value is refused where a communicator is made. */
HORING_API horingResult_t horingSetDefault(const char* name, const char* value);

/* ---- Making and ending communicators ---- */

/* Makes a new ID and opens, in this process, the port on which the ranks that have it meet. Call it in the
 * process of one rank, usually rank 0, and keep that process alive until all ranks are initialised. Until the
 * first rank arrives, the ID stays valid as long as that process lives and costs it a port, a thread and a
 * few descriptors, so make no IDs that will not be used. Each call gives another ID. Any thread. Errors:
 * horingInvalidArgument (NULL), horingSystemError (no interface, no port, no randomness, no thread). */
HORING_API horingResult_t horingGetUniqueId(horingUniqueId* uniqueId);

/* Makes rank `rank` of `nranks`. Collective: blocks until all ranks have called it with the same ID and
 * nranks, or until HORING_INIT_TIMEOUT_MS has passed; the error then names the missing ranks. Several ranks
 * may live in one process, each initialised by its own thread. *comm belongs to the caller. The placement of
 * ranks (nodes, groups) is determined here. Errors: horingInvalidArgument (comm NULL, nranks < 1, rank
 * outside 0 .. nranks-1, a rank given twice, not an ID, a bad environment variable), horingInvalidUsage
 * (another library version, a wrong secret, ranks that disagree, an ID that was used already, if this process
 * made it), horingTimeout, horingSystemError, horingRemoteError (also where the ID was used already, or the
 * process that made it has ended). */
HORING_API horingResult_t horingCommInitRank(horingComm_t* comm, int nranks, horingUniqueId commId, int rank);

/* horingCommInitRank with settings; a config of NULL changes nothing. With config->blocking = 0 it returns
 * horingInProgress, and a thread of the library makes the communicator: *comm is written at once, and
 * horingCommGetAsyncError gives horingInProgress, then horingSuccess or the error. Until then every other
 * call with it returns horingInvalidUsage, except horingCommAbort, which ends it at any time. If making it
 * failed, release it with horingCommDestroy or horingCommAbort. Its collectives and its end wait like those
 * of any other communicator. Communicators made from it are non-blocking too, unless their config says
 * blocking = 1. Errors: also horingInvalidArgument (config not initialised, a field with a value that is not
 * allowed). */
HORING_API horingResult_t horingCommInitRankConfig(horingComm_t* comm, int nranks, horingUniqueId commId,
                                                   int rank, horingConfig_t* config);

/* Extension. horingCommInitRankConfig with more settings; options of NULL change nothing. They also hold for the
 * communicators that are made of this one. */
HORING_API horingResult_t horingCommInitRankOptions(horingComm_t* comm, int nranks, horingUniqueId commId,
                                                    int rank, horingConfig_t* config,
                                                    const horingOptions_t* options);

/* Extension. What communicators have that the calling thread makes from now on by other functions than that; NULL:
 * nothing. former gets what counted before, unless it is NULL. Errors: horingInvalidArgument (a wrong value). */
HORING_API horingResult_t horingSetThreadOptions(const horingOptions_t* options, horingOptions_t* former);

/* horingCommInitRankConfig with nId unique IDs (1 to nranks), made by any ranks and passed by all in the same
 * order. All ranks meet at the first ID; the processes that made the other IDs close their ports. Errors:
 * also horingInvalidArgument (nId, commIds NULL, not an ID). */
HORING_API horingResult_t horingCommInitRankScalable(horingComm_t* newcomm, int nranks, int myrank, int nId,
                                                     horingUniqueId* commIds, horingConfig_t* config);

/* Makes all `ndev` ranks of a communicator in this process; comms[i] is rank i. A collective on host buffers
 * returns only when all ranks have entered it, so each rank is driven by a thread of its own, or one thread
 * puts the calls of all into a group. Needs no network. devlist may be NULL; otherwise devlist[i] is the GPU
 * near which rank i is placed in rings and, where this process has all of the list, that the rank works on. On
 * failure no communicator is made. Errors: horingInvalidArgument (comms NULL, ndev < 1, a GPU below 0), and those of
 * horingCommInitRank. */
HORING_API horingResult_t horingCommInitAll(horingComm_t* comms, int ndev, const int* devlist);

/* Extension. Like horingCommInitRank, with rank, size and meeting point taken from the environment of
 * horing-run, mpirun (Open MPI, MPICH), srun or torchrun (RANK, WORLD_SIZE, ...). HORING_ROOT=host:port
 * overrides the meeting point. May be called again, also after a destroy: the ranks' first calls make one
 * communicator, their second calls the next. Errors: horingInvalidUsage (no launcher recognised; no secret
 * and no HORING_INSECURE=1), horingInvalidArgument (values that contradict each other), and those of
 * horingCommInitRank. */
HORING_API horingResult_t horingCommInitFromEnv(horingComm_t* comm);

/* Splits a communicator: the ranks of each color (0 or more) become a communicator of their own, ordered by
 * key, then by their rank in comm; HORING_SPLIT_NOCOLOR gives *newcomm = NULL. Collective over all ranks of
 * comm, after the operations that they have issued on it; the error names the ranks still missing after
 * HORING_INIT_TIMEOUT_MS. comm stays as it is, and the two are independent: they may run at the same time and
 * end in any order. The settings of comm also hold for *newcomm, except those that a config changes; the
 * environment is not read. In a group, *newcomm is written by horingGroupEnd. config->blocking = 0 is as in
 * horingCommInitRankConfig: the exchange takes place after the operations issued on comm before and before
 * those issued later; an abort of *newcomm waits for it, HORING_INIT_TIMEOUT_MS at most (an abort of comm
 * ends it); a rank without a color waits in any case. Errors: horingInvalidArgument (comm or newcomm NULL, a
 * color below 0, config), and those of horingCommInitRank; those of the exchange between all ranks stick to
 * comm. */
HORING_API horingResult_t horingCommSplit(horingComm_t comm, int color, int key, horingComm_t* newcomm,
                                          horingConfig_t* config);

/* Makes a communicator of the ranks of comm that are not among the excludeRanksCount ranks of the list; they
 * keep their order. All remaining ranks call it, with the same list. The excluded ranks may be dead, stopped
 * or elsewhere, and comm may be in error: only an address and a key are used that each rank gave all others
 * when comm was made. HORING_SHRINK_DEFAULT first waits for the operations that this rank has issued on comm,
 * which stays as it is. HORING_SHRINK_ABORT ends comm: calls running on it return an error, and it can only
 * be destroyed or aborted. Waits at most HORING_INIT_TIMEOUT_MS for all ranks to arrive, and as long again to
 * make *newcomm. After a failure (another rank has died, for instance) it may be tried again with a longer
 * list. Settings, groups and *newcomm as for horingCommSplit; in a group, ABORT acts at once. Errors:
 * horingInvalidArgument (a pointer NULL, no rank or all ranks excluded, no such rank, a rank twice, the own
 * rank, flags, config), horingInvalidUsage (lists that differ), and those of horingCommInitRank. */
HORING_API horingResult_t horingCommShrink(horingComm_t comm, int* excludeRanksList, int excludeRanksCount,
                                           horingComm_t* newcomm, horingConfig_t* config, int shrinkFlags);

/* Makes an ID with which ranks join those of comm, as horingGetUniqueId. Local. Errors: as there and for
 * horingCommCount. */
HORING_API horingResult_t horingCommGetUniqueId(horingComm_t comm, horingUniqueId* uniqueId);

/* Makes a communicator of nRanks from all ranks of comm, which keep their numbers, and others that join. The former
 * pass rank -1 and an ID of horingCommGetUniqueId, or NULL; at least the one that made it passes it. Who joins passes
 * comm NULL, that ID and a rank from the number of ranks of comm on, and has the settings of its environment. The rest
 * is as for horingCommShrink, also that comm may be revoked or in error. Errors: as there and for horingCommInitRank. */
HORING_API horingResult_t horingCommGrow(horingComm_t comm, int nRanks, const horingUniqueId* uniqueId,
                                         int rank, horingComm_t* newcomm, horingConfig_t* config);

/* Ends what runs on comm, as horingCommAbort does, but not comm: it may be shrunk, grown, destroyed and aborted, and
 * other calls return horingInvalidUsage. Other ranks get horingRemoteError, and may revoke it, too. Any thread.
 * Errors: horingInvalidArgument (not a live communicator, revoked before, flags). */
HORING_API horingResult_t horingCommRevoke(horingComm_t comm, int revokeFlags);

/* Waits until the operations that this rank has issued on comm are complete, and leaves comm in good order,
 * as horingCommDestroy does. The later destroy is then local and does not wait, and every other call that
 * moves data returns horingInvalidUsage. NULL, which horingCommSplit gives without a color, succeeds. Errors:
 * horingInvalidArgument (not a live communicator; called before), horingInvalidUsage (a collective is running
 * in another thread; forked child), or the error that sticks to comm. */
HORING_API horingResult_t horingCommFinalize(horingComm_t comm);

/* Extension. Sets the communicator's HORING_TIMEOUT_MS, 0 (none) to 86400000, for operations that begin later. Each
 * rank may have its own. Any thread, any time. Errors: horingInvalidArgument (another value), and those of
 * horingCommCount. */
HORING_API horingResult_t horingCommSetTimeout(horingComm_t comm, int timeoutMs);

/* Releases the communicator after the data that this rank has sent is delivered. Not collective: ranks may
 * call it at different times, and one thread may call it for several ranks in turn. Returns even when peers
 * are dead. Replays of graphs that have its operations must have ended, and are not possible any more. comm is
 * invalid afterwards. NULL succeeds. Errors: horingInvalidArgument (not a live
 * communicator), horingInvalidUsage (a collective is running in another thread; forked child). */
HORING_API horingResult_t horingCommDestroy(horingComm_t comm);

/* Ends the communicator: a collective that another thread is running on it returns an error, peers get
 * horingRemoteError, and no operation is waited for, but that the others are told: for milliseconds as a rule
 * (docs/semantics.md). comm is invalid afterwards. Any thread, but only once. NULL succeeds. Errors:
 * horingInvalidArgument (not a live communicator), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingCommAbort(horingComm_t comm);

/* ---- Querying a communicator. Any thread, any time before it is ended. ---- */

/* Writes the number of ranks. Errors: horingInvalidArgument (NULL), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingCommCount(const horingComm_t comm, int* count);

/* Writes this rank, 0 .. count-1. Errors as for horingCommCount. */
HORING_API horingResult_t horingCommUserRank(const horingComm_t comm, int* rank);

/* Writes the error that sticks to the communicator (convention 8), horingSuccess if there is none, or
 * horingInProgress while it is being made. Does not block. Errors as for horingCommCount. */
HORING_API horingResult_t horingCommGetAsyncError(horingComm_t comm, horingResult_t* asyncError);

/* Extension. Writes the rank that the communicator's error is about: one that died, stopped, was cut off, was
 * aborted, never made a call or made a different call than the rest; a candidate for horingCommShrink to
 * exclude. -1 while there is no error, and where the error is about no single rank or only about the caller.
 * Also works for a communicator that could not be made (config.blocking 0). Does not block. Errors as for
 * horingCommCount. */
HORING_API horingResult_t horingCommGetFailedRank(horingComm_t comm, int* rank);

/* ---- Inspecting a communicator. Not while a collective runs on it (convention 7). ---- */

/* Writes the CUDA number of the GPU that the communicator works on (convention 4); -1 while there is none.
 * Errors as for horingCommCount. */
HORING_API horingResult_t horingCommCuDevice(const horingComm_t comm, int* device);

/* Extension. Writes the bytes of memory that this rank holds for the communicator: slots, shared segments,
 * plans. Grows when a plan is first used. What is kept of communicators that were destroyed (convention 5) is
 * none's; HORING_DEBUG=info logs it. Errors as for horingCommCount. */
HORING_API horingResult_t horingCommMemoryBytes(const horingComm_t comm, uint64_t* bytes);

/* Extension. Writes a description for humans: the placement of ranks, the rings, the transports, the
 * algorithm of each collective. Lines end in '\n'; at most length bytes including the closing 0, truncated if
 * necessary. Errors as for horingCommCount, and horingInvalidArgument (length 0). */
HORING_API horingResult_t horingCommDescribe(const horingComm_t comm, char* buffer, size_t length);

/* ---- Memory that the other ranks of a node can reach ----
 *
 * Ordinary memory works everywhere; this is faster.
 *
 * All-reduce, reduce-scatter and all-gather read the sendbuff of every rank in place when it lies in such
 * memory on all ranks of a communicator and all of them are on one node (for ranks of horingCommInitAll any
 * memory will do). If, in addition, each rank is a process, all-reduce and all-gather write their results
 * straight into every recvbuff that lies in such memory on all ranks. When such a call fails, ranks that may
 * still be about to write lose access to the whole pages of its recvbuff, whose contents stay; from then on
 * the allocation serves as ordinary memory.
 *
 * Over RDMA, messages, and pieces of vectors that a rank sends at a time, of 64 KiB and more are sent straight
 * from such memory, or from memory registered with the communicator, and land there; but what is to be reduced
 * does not land, and a reduction in place (recvbuff is sendbuff) does neither of its input. Over TCP they land in
 * any memory. */

/* Writes the address of `size` bytes of zeroed memory, aligned to a page (to 2 MiB if it is that long), which
 * ranks of the same user on this node can read and write without a copy. The memory is allocated and touched
 * at once, in huge pages where the system can provide them, so this takes time (0.2 s for 64 MiB was
 * measured) and one file descriptor. It belongs to the process, not to a communicator; release it with
 * horingMemFree. A size of 0 gives NULL. A forked child shares the pages with its parent, as with any shared
 * mapping: the parent sees what the child writes there; the child's own collectives treat them as ordinary
 * memory. Any thread. Errors: horingInvalidArgument (ptr NULL, more than the machine has), horingSystemError
 * (no memory, no descriptor). */
HORING_API horingResult_t horingMemAlloc(void** ptr, size_t size);

/* Releases memory of horingMemAlloc; NULL does nothing. No collective may be using it. The pages return to
 * the system at once, even if peers have them mapped. Any thread. Errors: horingInvalidArgument (no such
 * address, or freed before), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingMemFree(void* ptr);

/* Announces that buff will be used with comm, and tells whether that gains anything. *handle is NULL if buff
 * is served as without registration, by copying through shared memory. It is not NULL if all of buff lies in
 * memory from horingMemAlloc, which is served without that copy whether registered or not, or if RDMA joins
 * this rank and another one. RDMA devices know buff, which they read and write, from its first use on.
 * With RDMA this includes GPU memory if its driver exports a dma-buf, or nvidia-peermem is loaded: horingSend
 * and horingRecv of 64 KiB and more then move it without host memory, if the devices accept it. Local, not
 * collective. Release the handle with horingCommDeregister before buff is freed; ending the communicator does
 * so, too. Any thread. Errors: horingInvalidArgument (a pointer NULL, size 0), horingInvalidUsage (forked
 * child, too many). */
HORING_API horingResult_t horingCommRegister(const horingComm_t comm, void* buff, size_t size, void** handle);

/* Ends a registration; a NULL handle does nothing. The buffer itself is unchanged. Any thread. Errors:
 * horingInvalidArgument (not a live handle of comm), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingCommDeregister(const horingComm_t comm, void* handle);

/* ---- User-defined reduction operations ---- */

/* Makes an operation that sums the inputs of all ranks, each multiplied by its rank's scalar: ranks may have
 * different scalars, and each makes its own operation. Products and sums are computed in float32, or in
 * float64 for that type; integers wrap around. `scalar` is the address of one element of `datatype`; the
 * operation may be used with that type and this communicator only. Release it with horingRedOpDestroy; ending
 * the communicator does so, too. Local, not collective. Any thread.
 *
 * With horingScalarDevice the scalar is read each time an operation begins. Where the buffers are on a GPU,
 * the scalar may be in memory of that GPU, in managed or in pinned memory: then values that a stream writes
 * there before the operation count, and replays of a graph read it anew. In other host memory it is read when
 * the operation is called. Where the buffers are in host memory, the scalar must be, too. On a GPU it may be
 * read until the operation is complete, so it must not lie in memory that the operation writes.
 *
 * Errors: horingInvalidArgument (a pointer NULL, an unknown type or residence), horingInvalidUsage (forked
 * child, too many; from the operation: a scalar on another GPU). */
HORING_API horingResult_t horingRedOpCreatePreMulSum(horingRedOp_t* op, void* scalar,
                                                     horingDataType_t datatype,
                                                     horingScalarResidence_t residence, horingComm_t comm);

/* Releases an operation. Calls that have returned, or are queued on a stream, still complete with it; with
 * horingScalarDevice the scalar must live as long as they run. Any thread. Errors: horingInvalidArgument (not
 * a live operation of comm), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingRedOpDestroy(horingRedOp_t op, horingComm_t comm);

/* ---- Collectives. n is the number of ranks; conventions (3) to (8) hold for all. ----
 *
 * Errors of all: horingInvalidArgument (comm NULL, a buffer NULL with count > 0, an unknown type or
 * operation, a root outside 0 .. n-1, a count whose bytes overflow, a partial overlap), horingInvalidUsage (a
 * stream or buffers that conventions 4 and 5 do not allow, two threads, a forked child, ranks that called
 * different collectives), horingRemoteError (a peer died, or stopped with an error; named), horingTimeout,
 * horingSystemError (no memory or descriptors for a link).
 *
 * Between groups of ranks with slow links they run the hierarchical overlapping ring (arXiv 2310.06003,
 * section HO-Ring), or an algorithm better suited to the size; inside a group a ring, a direct exchange or
 * the like. HORING_ALGO forces one. With M groups and D bytes of all ranks' data, HO-Ring moves D(M-1)/M
 * bytes over each group's link for all-gather and reduce-scatter (D less the group's own share where groups
 * differ in size), 2D(M-1)/M for all-reduce. */

/* recvbuff[i] = op over all ranks r of sendbuff_r[i], for i in 0 .. count-1, on every rank. In place:
 * recvbuff == sendbuff. */
HORING_API horingResult_t horingAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                          horingDataType_t datatype, horingRedOp_t op, horingComm_t comm,
                                          horingStream_t stream);

/* Rank k gets block k of the reduction: recvbuff[i] = op over all ranks r of sendbuff_r[k*recvcount + i], for
 * i in 0 .. recvcount-1. sendbuff has n*recvcount elements. In place: recvbuff == sendbuff + rank*recvcount.
 */
HORING_API horingResult_t horingReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                              horingDataType_t datatype, horingRedOp_t op, horingComm_t comm,
                                              horingStream_t stream);

/* recvbuff[r*sendcount + i] = sendbuff_r[i], for every rank r and i in 0 .. sendcount-1, on every rank.
 * recvbuff has n*sendcount elements. In place: sendbuff == recvbuff + rank*sendcount. */
HORING_API horingResult_t horingAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                          horingDataType_t datatype, horingComm_t comm,
                                          horingStream_t stream);

/* Extension. The order of the blocks in a buffer that has one block for each rank. Rail-major is by local
 * index, then by group: the number of a rank's block is local * groups + group. With g groups, each g
 * consecutive blocks are those of one rail. It needs groups of one size. */
typedef enum {
  horingRankMajor = 0, /* by rank */
  horingRailMajor = 1  /* by local index, then by group */
} horingBlockOrder_t;

/* Extension. Writes the number of `rank`'s block in that order. Groups are numbered by their lowest rank; the
 * local indices in a group follow the ranks or, where ranks are bound to NUMA nodes, the ring that joins
 * them. Any thread, any time. Errors: horingInvalidArgument (a pointer NULL, no such order, a rank outside 0
 * .. n-1), horingInvalidUsage (groups of different sizes; forked child). */
HORING_API horingResult_t horingCommBlock(const horingComm_t comm, horingBlockOrder_t order, int rank,
                                          int* block);

/* Extension. Writes the number of `rank`'s group, and its local index there, numbered as for horingCommBlock;
 * groups may differ in size. Any thread, any time. Errors: horingInvalidArgument (a pointer NULL, a rank
 * outside 0 .. n-1), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingCommGroup(const horingComm_t comm, int rank, int* group, int* localIndex);

/* Extension. Like horingReduceScatter and horingAllGather, with the blocks in that order, b(r) being the
 * number of rank r's block: rank k gets block b(k) of the reduction; recvbuff[b(r)*sendcount + i] =
 * sendbuff_r[i]. In place: recvbuff == sendbuff + b(rank)*recvcount; sendbuff == recvbuff +
 * b(rank)*sendcount. All ranks pass the same order. Errors: also those of horingCommBlock. */
HORING_API horingResult_t horingReduceScatterOrdered(const void* sendbuff, void* recvbuff, size_t recvcount,
                                                     horingDataType_t datatype, horingRedOp_t op,
                                                     horingBlockOrder_t order, horingComm_t comm,
                                                     horingStream_t stream);
HORING_API horingResult_t horingAllGatherOrdered(const void* sendbuff, void* recvbuff, size_t sendcount,
                                                 horingDataType_t datatype, horingBlockOrder_t order,
                                                 horingComm_t comm, horingStream_t stream);

/* recvbuff[i] = sendbuff_root[i], for i in 0 .. count-1, on every rank. sendbuff is used on the root only. In
 * place: recvbuff == sendbuff. */
HORING_API horingResult_t horingBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                          horingDataType_t datatype, int root, horingComm_t comm,
                                          horingStream_t stream);

/* horingBroadcast in place: buff is read on the root and written elsewhere. */
HORING_API horingResult_t horingBcast(void* buff, size_t count, horingDataType_t datatype, int root,
                                      horingComm_t comm, horingStream_t stream);

/* recvbuff[i] = op over all ranks r of sendbuff_r[i], for i in 0 .. count-1, on the root. recvbuff is used on
 * the root only. In place: recvbuff == sendbuff. */
HORING_API horingResult_t horingReduce(const void* sendbuff, void* recvbuff, size_t count,
                                       horingDataType_t datatype, horingRedOp_t op, int root,
                                       horingComm_t comm, horingStream_t stream);

/* recvbuff[r*count + i] = sendbuff_r[i], for every rank r and i in 0 .. count-1, on the root. recvbuff has
 * n*count elements and is used on the root only. In place: sendbuff == recvbuff + root*count. */
HORING_API horingResult_t horingGather(const void* sendbuff, void* recvbuff, size_t count,
                                       horingDataType_t datatype, int root, horingComm_t comm,
                                       horingStream_t stream);

/* Rank k gets block k of the root's buffer: recvbuff[i] = sendbuff_root[k*count + i], for i in 0 .. count-1.
 * sendbuff has n*count elements and is used on the root only. In place: recvbuff == sendbuff + root*count. */
HORING_API horingResult_t horingScatter(const void* sendbuff, void* recvbuff, size_t count,
                                        horingDataType_t datatype, int root, horingComm_t comm,
                                        horingStream_t stream);

/* recvbuff[r*count + i] = sendbuff_r[rank*count + i], for every rank r and i in 0 .. count-1: block k of a
 * rank's sendbuff goes to rank k. Both buffers have n*count elements and must not overlap. */
HORING_API horingResult_t horingAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                                         horingDataType_t datatype, horingComm_t comm, horingStream_t stream);

/* ---- Collectives with blocks of different sizes. Extension. ----
 *
 * Block r has counts[r] elements, starting at element displs[r] of its buffer; with displs NULL the blocks
 * follow each other. The arrays are copied. Blocks may be empty, whatever their displs, and must not
 * overlap where they are received. Errors as for the other collectives; ranks that disagree on the size of a block get
 * horingInvalidUsage, even if one of them considers it empty. */

/* recvbuff[recvdispls[r] + i] = sendbuff_r[i], for every rank r and i in 0 .. recvcounts[r]-1, on every rank.
 * All ranks pass the same recvcounts, and recvcounts[rank] == sendcount. In place: sendbuff == recvbuff +
 * recvdispls[rank]. */
HORING_API horingResult_t horingAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                           const size_t* recvcounts, const size_t* recvdispls,
                                           horingDataType_t datatype, horingComm_t comm,
                                           horingStream_t stream);

/* Rank k gets block k of the reduction: recvbuff[i] = op over all ranks r of sendbuff_r[senddispls[k] + i],
 * for i in 0 .. sendcounts[k]-1. All ranks pass the same sendcounts. In place: recvbuff == sendbuff +
 * senddispls[rank]. */
HORING_API horingResult_t horingReduceScatterV(const void* sendbuff, const size_t* sendcounts,
                                               const size_t* senddispls, void* recvbuff,
                                               horingDataType_t datatype, horingRedOp_t op, horingComm_t comm,
                                               horingStream_t stream);

/* recvbuff[recvdispls[r] + i] = sendbuff_r[i], for every rank r and i in 0 .. recvcounts[r]-1, on the root.
 * Elsewhere recvbuff, recvcounts and recvdispls are not used. In place: sendbuff == recvbuff +
 * recvdispls[root]. */
HORING_API horingResult_t horingGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                        const size_t* recvcounts, const size_t* recvdispls,
                                        horingDataType_t datatype, int root, horingComm_t comm,
                                        horingStream_t stream);

/* Rank k gets block k of the root's buffer: recvbuff[i] = sendbuff_root[senddispls[k] + i], for i in 0 ..
 * recvcount-1, and recvcount == sendcounts[k]. Elsewhere sendbuff, sendcounts and senddispls are not used. In
 * place: recvbuff == sendbuff + senddispls[root]. */
HORING_API horingResult_t horingScatterV(const void* sendbuff, const size_t* sendcounts,
                                         const size_t* senddispls, void* recvbuff, size_t recvcount,
                                         horingDataType_t datatype, int root, horingComm_t comm,
                                         horingStream_t stream);

/* recvbuff[recvdispls[r] + i] = sendbuff_r[senddispls_r[rank] + i], for every rank r and i in 0 ..
 * recvcounts[r]-1: the count that a rank sends equals the count that its peer receives; only the two need to
 * agree on it. The buffers must not overlap. */
HORING_API horingResult_t horingAlltoAllV(const void* sendbuff, const size_t* sendcounts,
                                          const size_t* senddispls, void* recvbuff, const size_t* recvcounts,
                                          const size_t* recvdispls, horingDataType_t datatype,
                                          horingComm_t comm, horingStream_t stream);

/* ---- Collectives of lists. Extension. ----
 *
 * One call for many buffers: for each i in 0 .. length-1 like the collective without List on sendbuffs[i],
 * recvbuffs[i] and counts[i], in place or not. Small entries travel together, so that a long list costs about
 * as much as one call with the same bytes; large ones are not copied. On a GPU, kernels treat each entry as a
 * call of its own, up to eight of them in a launch. The arrays are copied; all ranks pass the same length and
 * counts. Entries of count 0 are skipped, and a length of 0 is no call. No two buffers that are written may
 * overlap. Errors as for the collective, with the number of the entry; horingInvalidArgument (an array NULL).
 */
HORING_API horingResult_t horingAllReduceList(const void* const* sendbuffs, void* const* recvbuffs,
                                              const size_t* counts, size_t length, horingDataType_t datatype,
                                              horingRedOp_t op, horingComm_t comm, horingStream_t stream);
HORING_API horingResult_t horingReduceScatterList(const void* const* sendbuffs, void* const* recvbuffs,
                                                  const size_t* recvcounts, size_t length,
                                                  horingDataType_t datatype, horingRedOp_t op,
                                                  horingComm_t comm, horingStream_t stream);
HORING_API horingResult_t horingAllGatherList(const void* const* sendbuffs, void* const* recvbuffs,
                                              const size_t* sendcounts, size_t length,
                                              horingDataType_t datatype, horingComm_t comm,
                                              horingStream_t stream);

/* ---- Messages between two ranks ----
 *
 * The first send from a to b matches the first receive of b from a, the second the second, and so on; the two
 * must agree on the number of bytes. On GPUs, collectives must fall between the messages of two ranks at the
 * same place at both; 192 messages of one group progress at once, and in a larger group only the first few of
 * each pair do. A rank may send messages to itself inside a group. Errors: horingInvalidArgument (comm NULL,
 * a peer outside 0 .. n-1, a buffer NULL with count > 0, an unknown type), horingInvalidUsage (sizes that
 * differ; a message to the own rank without its counterpart in the same group), and those of collectives. */

/* Sends `count` elements to `peer`. Complete when sendbuff may be reused, which may need the peer's receive:
 * ranks that send to each other do so in a group. */
HORING_API horingResult_t horingSend(const void* sendbuff, size_t count, horingDataType_t datatype, int peer,
                                     horingComm_t comm, horingStream_t stream);

/* Receives `count` elements from `peer`. */
HORING_API horingResult_t horingRecv(void* recvbuff, size_t count, horingDataType_t datatype, int peer,
                                     horingComm_t comm, horingStream_t stream);

/* ---- Messages with tags. Extension. ----
 *
 * A receive names a tag and a rank, or any rank. A message goes to the first receive issued that names its
 * tag and its sender; messages from one rank to another with the same tag do not overtake each other. Both
 * ends agree on the number of bytes. A message that no receive waits for yet is kept by the receiver, up to
 * 64 MiB in all; one that does not fit waits in the sender, and so do those behind it.
 *
 * Such messages are under way at the same time, also while other operations of the communicator are, and each
 * ends by itself: only streams order them. So those on different streams need not wait for each other, nor
 * collectives for them; with NULL the call returns when its own message is complete. Ranks whose messages on
 * streams wait for each other are not reported before the deadline, which holds for each message: the program
 * may have more messages to issue.
 *
 * A receive from any rank fails once another rank has ended the communicator.
 * Buffers are in host memory. A rank sends none to itself. Messages with tags and those without one do not
 * meet. Errors: as for horingSend and horingRecv, and horingInvalidUsage (buffers on a GPU). */

#define HORING_ANY_RANK (-1)

/* Sends `count` elements to `peer`. Complete when sendbuff may be reused. */
HORING_API horingResult_t horingSendTagged(const void* sendbuff, size_t count, horingDataType_t datatype,
                                           int peer, uint64_t tag, horingComm_t comm, horingStream_t stream);

/* Receives `count` elements from `peer`, or HORING_ANY_RANK. If source is not NULL, *source is the rank that
 * sent them once the operation is complete. */
HORING_API horingResult_t horingRecvTagged(void* recvbuff, size_t count, horingDataType_t datatype, int peer,
                                           uint64_t tag, int* source, horingComm_t comm,
                                           horingStream_t stream);

/* ---- Groups ----
 *
 * Calls of one thread between start and end are launched together by the end: sends and receives that need
 * each other, operations of several communicators (the ranks that one thread drives, for instance), and
 * horingCommInitRank, horingCommSplit or horingCommShrink for several ranks. Buffers and comm pointers are
 * used from the end on; but horingCommInitRank writes *comm at once, of which horingCommGetAsyncError says
 * horingInProgress and all else is horingInvalidUsage until the end, which writes NULL if it cannot be made.
 * Groups nest; the outermost end launches.
 *
 * The sends and receives of a communicator all progress at once, after its collectives, which run in the
 * order of the calls. They may be on several streams: they begin when all earlier work on each of these is
 * complete, and later work on any of them waits for all of them. All are on CUDA streams, or none is
 * (horingInvalidUsage); the CUDA streams all record the same graph, or none of them records. Where GPUs do
 * not reach each other's memory (on two nodes, for instance), messages, and all-to-all, gather and scatter
 * with blocks that differ, can be recorded in communicators of 33 ranks at most, fewer with a large
 * HORING_WINDOW (horingInvalidUsage); where RDMA joins any two ranks, by all that take part or by none of
 * them. Operations of different communicators have no order among them if any of them is on a GPU.
 *
 * If one communicator of a group cannot be made, the others that it made are aborted: calls on them return an
 * error, their other ranks are told, and they can only be ended. */

/* Opens a group for the calls of this thread, or one more level of it. */
HORING_API horingResult_t horingGroupStart(void);

/* Returns when all operations with stream NULL are complete and the others have been handed to their streams.
 * horingInProgress: the group makes communicators with config.blocking = 0, and nothing has failed. Errors:
 * horingInvalidUsage (no group is open), that of the first call in the group that was refused (then nothing is
 * launched), or the first of an operation. */
HORING_API horingResult_t horingGroupEnd(void);

/* What horingGroupSimulateEnd answers. The first three are from HORING_SIM_INFO_INITIALIZER. */
typedef struct {
  size_t size;
  unsigned int magic, version;
  float estimatedTime; /* microseconds */
} horingSimInfo_t;
#define HORING_SIM_INFO_INITIALIZER \
  { sizeof(horingSimInfo_t), 0x74685283, HORING_VERSION_CODE, HORING_UNDEF_FLOAT }

/* Closes what horingGroupStart opened, in place of horingGroupEnd, and launches nothing, but writes into simInfo,
 * unless it is NULL, how long the group would take; an inner level writes nothing. Collectives are simulated on the
 * machine that HORING_CALIBRATE measured or names, else on the one that horing-sim assumes; messages take what their
 * line needs. Local. Errors: horingInvalidUsage (no group is open; the group makes communicators),
 * horingInvalidArgument (simInfo not initialised; what cannot be simulated), or that of a call that was refused. */
HORING_API horingResult_t horingGroupSimulateEnd(horingSimInfo_t* simInfo);

/* Extension. Closes what horingGroupStart opened, in place of horingGroupEnd, and drops the calls of the
 * group, which then were never made; levels around it can only be closed without launching anything. For
 * callers that cannot finish a group: half of one may wait for the other half until the deadline. Errors:
 * horingInvalidUsage (no group is open). */
HORING_API horingResult_t horingGroupDiscard(void);

#ifdef __cplusplus
}
#endif

#include "horing/streams.h"

#endif /* HORING_HORING_H_ */
