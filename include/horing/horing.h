/* horing: collective communication between the ranks of a job. C99 and C++.
 *
 * Conventions
 *
 * (1) Names, signatures and numbers are NCCL's after `sed 's/nccl/horing/g; s/NCCL/HORING/g'`, so that a
 * caller migrates by renaming. What NCCL does not have is marked "Extension".
 *
 * (2) Every function returns a horingResult_t, horingSuccess (0) or the reason why not. Nothing is written
 * through an output pointer unless the call succeeds. The full story of a failure (what was tried, on which
 * rank and peer, what happened, what to do) is in horingGetLastError().
 *
 * (3) Sizes of buffers are counts of elements (size_t, so beyond 2^31), never bytes. A count of 0 is legal
 * and moves nothing, and then the buffers may be NULL. A communicator of one rank is legal: its collectives
 * copy.
 *
 * (4) Buffers belong to the caller, are aligned to the size of an element, and must neither be freed nor be touched until the
 * operation is complete. `sendbuff` is read only. Two buffers overlap either exactly as the collective's "in place" says or
 * not at all. They are in host memory, or, on every rank, on a GPU: then all those of a rank on the one that its communicator
 * worked on first. Collectives run as kernels, which take 32 MiB of each rank's GPU, where horingCommInitAll made the ranks, on
 * GPUs that reach each other's memory; and where each rank is a process, on any nodes, with a GPU of its own: then with 1 MiB of
 * pinned memory, 32 where the host carries messages to some rank, connections and a thread for each rank, and the first call of each
 * (collective, algorithm, root) waits on the host until all ranks have made it. Processes that share a GPU run no kernels that wait
 * for each other, unless MPS runs those of several processes at once. HORING_DEBUG=info says where kernels cannot serve.
 * Sends and receives run as kernels between ranks whose GPUs reach each other's memory and have no other rank of the process on
 * them, once the communicator has made a collective on GPUs, or, of two processes, from its first message on, whose call waits on
 * the host for the other. Gather, scatter and all-to-all of blocks that differ in size do on a cudaStream_t, if that holds for all
 * ranks: either all ranks pass one, or none does. Both ends of a message are on GPUs, or neither is. Everything else goes through pinned host memory, 8 MiB for calls on streams of CUDA and 4 for those that are complete on
 * return. Messages of a group for which that has no room go through 4 MiB more, or 64 KiB for each rank where that is more; gather,
 * scatter and all-to-all of blocks that differ in size, for which it has none, go, copy by copy, through what the host has for its
 * connections. Memory of a GPU that another process of the node still uses a second after
 * horingCommDestroy is given back when this process ends. Compiled and emulated, not yet run on a GPU.
 *
 * (5) Streams order operations. With NULL an operation is complete on return, and begins after all earlier ones
 * on the same communicator. With a stream of horingStreamCreate it returns at once; the operation runs when those
 * before it on the stream, and those before it on the communicator, are complete. Different communicators overlap. While
 * 4096 of them are queued on a communicator the next one waits for room, and is not issued if there is none before
 * HORING_TIMEOUT_MS (horingTimeout, which does not stick).
 * With a cudaStream_t, for buffers on the GPU of that stream, it returns at once as well: the operation is ordered as a kernel
 * launched there would be; what goes wrong later frees the stream and sticks to the communicator (horingCommGetAsyncError). A call
 * may wait until those of other ranks of the process have been made, so one thread that drives several puts their calls into a
 * group. While the stream records a graph only what runs as a kernel may be called, by ranks that have a GPU each. With NULL,
 * operations on a GPU begin after what its default stream was told before. cudaStreamPerThread is refused where one rank launches
 * for others: where ranks share a GPU, and for large all-gathers of one process. Any other pointer is refused with
 * horingInvalidUsage.
 *
 * (6) All ranks of a communicator call the same collectives, in the same order, with the same count, type and
 * operation. Every rank gets the same bits. A communicator whose calls are the same as those of another run, on the same ranks,
 * each with the same kind of memory (horingMemAlloc or not) as there, gives the same bits as there. Within a run the bits of a call
 * may also depend on the memory of earlier ones: after 8 large ones in a row whose buffers could not be reached in place only every 16th
 * asks whether they can. Who wants bits that depend on no memory sets HORING_REPRODUCIBLE=1, or a config's reproducible: then the
 * result of all-reduce, reduce-scatter and reduce depends on the inputs and on who is in which group only, to the bit: not on
 * counts, offsets, slices, memory, transports or the collective. Each input is multiplied first (horingAvg of floating point,
 * premulsum) and rounded to the data type; those of each group are folded from the left by rank and rounded, then the groups'
 * from the left, in the order of their lowest ranks, and rounded (groups that differ in size are folded as one, by group and
 * rank). It moves as few bytes between groups as any algorithm (all but reduce); HORING_ALGO may then force no other.
 *
 * (7) Threads: different communicators may be used by different threads at once. One communicator is used by
 * one thread at a time; a collective that finds another thread in the communicator returns
 * horingInvalidUsage. Only horingCommAbort, horingCommGetAsyncError, horingGetLastError, horingCommCount,
 * horingCommUserRank, and the functions for memory and reduction operations may be called at any time from any
 * thread.
 *
 * (8) Errors stick to a communicator: after the first that left the ranks out of step (a lost peer, a
 * time-out, a failed system call) every later collective returns that first error; what is left is
 * horingCommAbort or horingCommDestroy. An argument refused before anything was sent (NULL, unknown type)
 * does not stick.
 *
 * (9) Every wait has a deadline (HORING_INIT_TIMEOUT_MS, HORING_TIMEOUT_MS); `horing-info` lists all
 * variables. They are read when a communicator is made, never later.
 *
 * (10) fork: a communicator belongs to the process that made it. In a child each call on it returns
 * horingInvalidUsage and leaves the parent's communicator alone; the child may make communicators of its own,
 * and exec is harmless. It has none of the parent's connections (pthread_atfork closes them in the child; a bare clone
 * system call does not), so however long it lives, the other ranks hear at once when the parent is gone.
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
/* One number for comparisons: HORING_VERSION_CODE >= HORING_VERSION(0, 1, 0). */
#define HORING_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define HORING_VERSION_CODE HORING_VERSION(HORING_MAJOR, HORING_MINOR, HORING_PATCH)

#define HORING_UNIQUE_ID_BYTES 128

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  horingSuccess = 0,
  horingUnhandledCudaError = 1, /* a CUDA call failed */
  horingSystemError = 2,        /* a call to the operating system failed */
  horingInternalError = 3,      /* a fault of the library itself */
  horingInvalidArgument = 4,    /* an argument, or an environment variable, has a value that is not allowed */
  horingInvalidUsage = 5,       /* right arguments at the wrong time or place, or ranks that disagree */
  horingRemoteError = 6,        /* a peer failed, died or closed its connection */
  horingInProgress = 7,         /* not complete yet (horingStreamQuery, config.blocking = 0) */
  horingTimeout = 8,            /* a deadline passed; the text names who was waited for */
  horingNumResults = 9
} horingResult_t;

/* Type of an element. Half and quarter precision are accumulated in float32 and rounded (to nearest even)
 * each time a value is sent or stored. */
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

/* How two elements become one. Integers wrap around. Min and max give NaN if any operand is NaN. Avg
 * multiplies each input by 1/ranks for floating point types, and divides the sum by ranks, towards zero, for
 * integers. */
typedef enum {
  horingSum = 0,
  horingProd = 1,
  horingMax = 2,
  horingMin = 3,
  horingAvg = 4,
  horingNumOps = 5,
  horingBitAnd = 0x10000000, /* Extension, as the next two: bit by bit, integer types only */
  horingBitOr = 0x10000001,
  horingBitXor = 0x10000002,
  horingMaxRedOp = 0x7fffffff /* the largest value; keeps room for all others */
} horingRedOp_t;

/* When the scalar of horingRedOpCreatePreMulSum is read. */
typedef enum {
  horingScalarDevice = 0, /* whenever an operation that uses it begins, see horingRedOpCreatePreMulSum */
  horingScalarHostImmediate = 1 /* before horingRedOpCreatePreMulSum returns; in host memory */
} horingScalarResidence_t;

/* What ranks need to find each other, and the secret that lets them in: whoever has it can join. Copy it to
 * the ranks of the job over a private channel, and to nobody else. Valid for one communicator. */
typedef struct {
  char internal[HORING_UNIQUE_ID_BYTES];
} horingUniqueId;

/* A rank's end of a communicator. Made by the Init functions, given back by horingCommDestroy or
 * horingCommAbort. */
typedef struct horingComm* horingComm_t;

#define HORING_CONFIG_UNDEF_INT INT_MIN
#define HORING_CONFIG_UNDEF_PTR NULL
#define HORING_SPLIT_NOCOLOR -1
#define HORING_SHRINK_DEFAULT 0x00
#define HORING_SHRINK_ABORT 0x01
#define HORING_API_MAGIC 0xcafebeef /* internal */

/* Settings of one communicator. Begin with HORING_CONFIG_INITIALIZER, then assign what shall differ from the environment's
 * settings; strings are copied. Ignored: what chooses GPU resources or NICs' offloads, which host memory over shared memory
 * and sockets does not have. With the header of an older library what that lacks is undefined; with one of a newer library
 * settings that this one does not know must be undefined. */
typedef struct {
  size_t size;             /* of the initialiser */
  unsigned int magic;      /* of the initialiser */
  unsigned int version;    /* of the initialiser */
  int blocking;            /* 1; 0: see horingCommInitRankConfig; undefined: 1, or as its parent */
  int cgaClusterSize;      /* ignored */
  int minCTAs;             /* ignored */
  int maxCTAs;             /* ignored */
  const char* netName;     /* "Socket" in any case, the network there is; any other is refused */
  int splitShare;          /* ignored: nothing is shared between parent and child */
  int trafficClass;        /* ignored */
  const char* commName;    /* begins horingCommDescribe's text; 128 bytes of it are kept */
  int collnetEnable;       /* ignored */
  int CTAPolicy;           /* ignored */
  int shrinkShare;         /* ignored, as splitShare */
  int nvlsCTAs;            /* ignored */
  int nChannelsPerNetPeer; /* ignored */
  int nvlinkCentricSched;  /* ignored */
  int timeoutMs;           /* Extension. The communicator's HORING_TIMEOUT_MS, 1 to 86400000 */
  int reproducible;        /* Extension. The communicator's HORING_REPRODUCIBLE, 0 or 1; see convention (6) */
} horingConfig_t;

/* clang-format off */
#define HORING_CONFIG_INITIALIZER { \
  sizeof(horingConfig_t),  HORING_API_MAGIC,        HORING_VERSION_CODE, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, \
  HORING_CONFIG_UNDEF_PTR, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_PTR, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT }
/* clang-format on */

/* Opaque: NULL, or one of horingStreamCreate; see convention (5). */
typedef void* horingStream_t;

/* ---- The library ---- */

/* Writes HORING_VERSION_CODE of the library that is loaded, which may be newer than this header. Any thread.
 * Errors: horingInvalidArgument if version is NULL. */
HORING_API horingResult_t horingGetVersion(int* version);

/* A short sentence for a result code, "unknown result code" for any other number. Never NULL; static. Any
 * thread. */
HORING_API const char* horingGetErrorString(horingResult_t result);

/* The latest error in full: of this communicator, or, with NULL, of the calling thread's latest failed call.
 * "" if there was none. Never NULL; owned by the library, valid until the calling thread calls it again. Any
 * thread, any time. */
HORING_API const char* horingGetLastError(horingComm_t comm);

/* ---- Making and ending communicators ---- */

/* Makes a new ID, and opens the port on which the ranks that have it will meet, in this process: call it in
 * the process of one rank, as a rule 0, and keep that process alive until all ranks are initialised. Until the first rank
 * comes the ID stays valid as long as that process lives, and costs it a port, a thread and a few descriptors: make none
 * that nobody will use. Each call gives another ID. Any thread. Errors: horingInvalidArgument (NULL), horingSystemError (no
 * interface, no port, no randomness, no thread). */
HORING_API horingResult_t horingGetUniqueId(horingUniqueId* uniqueId);

/* Makes rank `rank` of `nranks`. Collective: blocks until all ranks have called it with the same ID and
 * nranks, or HORING_INIT_TIMEOUT_MS has passed, and then names the ranks that are missing. Several ranks may
 * live in one process, each initialised by its own thread. *comm belongs to the caller. Where ranks are
 * (nodes, groups) is found out here. Errors: horingInvalidArgument (comm NULL, nranks < 1, rank outside 0 ..
 * nranks-1, a rank given twice, not an ID, a bad environment variable), horingInvalidUsage (another library
 * version, a wrong secret, ranks that disagree), horingTimeout, horingSystemError, horingRemoteError. */
HORING_API horingResult_t horingCommInitRank(horingComm_t* comm, int nranks, horingUniqueId commId, int rank);

/* horingCommInitRank with settings; a config of NULL changes nothing. With config->blocking = 0 it returns horingInProgress, and
 * the communicator is made by a thread of the library: *comm is written at once, horingCommGetAsyncError says horingInProgress,
 * then horingSuccess or the error; until then every other call with it returns horingInvalidUsage, but horingCommAbort, which ends
 * it at any time. One whose making failed is given back with horingCommDestroy or horingCommAbort. Its collectives and its end
 * wait as those of any other; communicators made of it are made so, too, unless their config says blocking = 1. Errors: also
 * horingInvalidArgument (config not initialised, a field with a value that is not allowed). */
HORING_API horingResult_t horingCommInitRankConfig(horingComm_t* comm, int nranks, horingUniqueId commId,
                                                   int rank, horingConfig_t* config);

/* horingCommInitRankConfig with nId unique IDs, 1 to nranks of them, made by any ranks and passed by all in the same order.
 * All ranks meet at the first; the other IDs' ports are closed by the processes that made them. Errors: also
 * horingInvalidArgument (nId, commIds NULL, not an ID). */
HORING_API horingResult_t horingCommInitRankScalable(horingComm_t* newcomm, int nranks, int myrank, int nId,
                                                     horingUniqueId* commIds, horingConfig_t* config);

/* Makes all `ndev` ranks of a communicator in this process; comms[i] is rank i. Each must then be driven by a
 * thread of its own, since a collective on host buffers returns only when all ranks have entered it. Needs no network. devlist
 * may be NULL; else devlist[i] is the GPU near which rank i is laid in rings, which binds it to nothing. On failure nothing is
 * made. Errors:
 * horingInvalidArgument (comms NULL, ndev < 1), and those of horingCommInitRank. */
HORING_API horingResult_t horingCommInitAll(horingComm_t* comms, int ndev, const int* devlist);

/* Extension. As horingCommInitRank, with rank, size and meeting point taken from the environment of
 * horing-run, mpirun (Open MPI, MPICH), srun or torchrun (RANK, WORLD_SIZE, ...). HORING_ROOT=host:port
 * overrides the meeting point. May be called again, also after a destroy: the ranks' first calls make one
 * communicator, their second calls the next. Errors: horingInvalidUsage (no launcher recognised; no secret
 * and no HORING_INSECURE=1), horingInvalidArgument (values that contradict each other), and those of
 * horingCommInitRank. */
HORING_API horingResult_t horingCommInitFromEnv(horingComm_t* comm);

/* Makes communicators out of one: the ranks of one color (0 or more) become a communicator of their own, ordered by key, then
 * by their rank in comm; HORING_SPLIT_NOCOLOR gives *newcomm = NULL. Collective over all ranks of comm, after what they have
 * issued on it; names those that are missing after HORING_INIT_TIMEOUT_MS. comm stays as it is, and the two are independent: they
 * may run at the same time and end in any order. comm's settings hold for *newcomm, too, but for what a config changes; nothing
 * is read from the environment. In a group *newcomm is written by the end. config->blocking = 0 is as in
 * horingCommInitRankConfig: the exchange takes its turn after what was issued on comm, and before what is issued later; an abort
 * of *newcomm waits for it, HORING_INIT_TIMEOUT_MS at most (one of comm ends it); who has no color waits in any case. Errors:
 * horingInvalidArgument (comm or newcomm NULL, a color below 0, config), and those of horingCommInitRank; those of the exchange
 * between all ranks stick to comm. */
HORING_API horingResult_t horingCommSplit(horingComm_t comm, int color, int key, horingComm_t* newcomm,
                                          horingConfig_t* config);

/* Makes a communicator of the ranks of comm that are not in the list of excludeRanksCount ranks; they keep their order. Those
 * that stay call it, with the same list. The excluded may be dead, stopped or elsewhere, and comm may be in error: nothing of it
 * is used but an address and a key that each rank gave all others when comm was made. HORING_SHRINK_DEFAULT: first waits for
 * what this rank has issued on comm, which stays as it is. HORING_SHRINK_ABORT: ends it; calls that run on comm return an error,
 * and what is left is to end comm. Waits at most HORING_INIT_TIMEOUT_MS for all to come, and as long again to make *newcomm.
 * After a failure (one more rank has died, say) it may be tried again, with a longer list. Settings, groups and *newcomm as with
 * horingCommSplit; in a group ABORT acts at once. Errors: horingInvalidArgument (a pointer NULL, no rank or all ranks, no such
 * rank, one twice, the own rank, flags, config), horingInvalidUsage (lists that differ), and those of horingCommInitRank. */
HORING_API horingResult_t horingCommShrink(horingComm_t comm, int* excludeRanksList, int excludeRanksCount,
                                           horingComm_t* newcomm, horingConfig_t* config, int shrinkFlags);

/* Waits until what this rank has issued on comm is complete, and leaves it in good order, as horingCommDestroy does; after it
 * the destroy is local and does not wait, and every other call that moves data returns horingInvalidUsage. Errors:
 * horingInvalidArgument (NULL), horingInvalidUsage (done before; a collective is running in another thread; forked child), or the
 * one that sticks to comm. */
HORING_API horingResult_t horingCommFinalize(horingComm_t comm);

/* Gives the communicator back, after what this rank has sent is delivered. Not collective: ranks may do it at
 * different times, and one thread for several ranks in turn. Returns, too, when peers are dead. comm is
 * invalid afterwards. Errors: horingInvalidArgument (NULL), horingInvalidUsage (a collective is running in
 * another thread; forked child). */
HORING_API horingResult_t horingCommDestroy(horingComm_t comm);

/* Ends the communicator at once: a collective that another thread is running on it returns an error, peers
 * get horingRemoteError, and nothing is waited for. comm is invalid afterwards. Any thread, but only once.
 * Errors: horingInvalidArgument (NULL), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingCommAbort(horingComm_t comm);

/* ---- Asking a communicator. Any thread, any time before it is ended. ---- */

/* Writes the number of ranks. Errors: horingInvalidArgument (NULL), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingCommCount(const horingComm_t comm, int* count);

/* Writes this rank, 0 .. count-1. Errors as horingCommCount. */
HORING_API horingResult_t horingCommUserRank(const horingComm_t comm, int* rank);

/* Writes the error that sticks to the communicator (convention 8), horingSuccess if there is none. Does not
 * block. Errors as horingCommCount. */
HORING_API horingResult_t horingCommGetAsyncError(horingComm_t comm, horingResult_t* asyncError);

/* Extension. Writes the rank that the error of the communicator is about: that died, stopped, was cut off, was aborted, never
 * made a call or made another one than the rest. -1 while there is no error, and where it is about no one rank, or only about
 * the caller. What horingCommShrink may exclude. Also of a communicator that could not be made (config.blocking 0). Does not
 * block. Errors as horingCommCount. */
HORING_API horingResult_t horingCommGetFailedRank(horingComm_t comm, int* rank);

/* Extension. Writes the bytes of memory this rank holds for the communicator: slots, shared segments, plans.
 * Grows when a plan is first used. Not while a collective runs. Errors as horingCommCount. */
HORING_API horingResult_t horingCommMemoryBytes(const horingComm_t comm, uint64_t* bytes);

/* Extension. Writes a description for humans: who is where, the rings laid, the transports, the algorithm of
 * each collective. Lines end in '\n'; at most length bytes with the closing 0, cut short if need be. Not
 * while a collective runs. Errors as horingCommCount, and horingInvalidArgument (length 0). */
HORING_API horingResult_t horingCommDescribe(const horingComm_t comm, char* buffer, size_t length);

/* ---- Memory that the other ranks of a node can reach. Ordinary memory works everywhere; this is faster. ----
 *
 * All-reduce, reduce-scatter and all-gather read the sendbuff of every rank in place when it lies in such memory on all
 * ranks of a communicator and all of them are on one node (for ranks of horingCommInitAll any memory will do). All-reduce and
 * all-gather write their results straight into every recvbuff that does so on all ranks, if each is a process. When such a call fails
 * the whole pages of its recvbuff, with what they hold, are taken from ranks that may still be about to write, and the allocation
 * serves as ordinary memory from then on.
 * Over RDMA, messages of 64 KiB and more are sent straight from such memory, or from what was registered with the communicator, and
 * land there unless they are to be reduced. */

/* Writes the address of `size` bytes of zeroed memory, aligned to a page (to 2 MiB if it is that long), which ranks of the
 * same user on this node can read and write without a copy. Allocated and touched at once, in huge pages where the system can be made to
 * give them, so this takes time (0.2 s for 64 MiB was seen); and one file descriptor. Belongs to the process, not to a
 * communicator; give it back with horingMemFree. A size of 0 gives NULL. A forked child shares the pages with its parent, as any
 * shared mapping: what it writes there, the parent sees; its own collectives take them for ordinary memory. Any thread. Errors:
 * horingInvalidArgument (ptr NULL, more than the machine has), horingSystemError (no memory, no descriptor). */
HORING_API horingResult_t horingMemAlloc(void** ptr, size_t size);

/* Gives back what horingMemAlloc gave; NULL is nothing. No collective may be using it. The pages go back to the system at once,
 * even if peers have them mapped. Any thread. Errors: horingInvalidArgument (no such address, or freed before),
 * horingInvalidUsage (forked child). */
HORING_API horingResult_t horingMemFree(void* ptr);

/* Says that buff will be used with comm, and tells whether that gains anything: *handle is NULL for memory that is
 * served as without registration, by copying through shared memory or sockets; it is not NULL if all of buff lies in memory
 * from horingMemAlloc, which is served without that copy, registered or not, or if comm has RDMA, to whose devices buff (to be
 * read and written) is known from its first use on: memory of a GPU if its driver makes a dma-buf of it, which horingSend and
 * horingRecv of 64 KiB and more then move without the host's, if the devices take it. Local, not collective. Give the handle back
 * with horingCommDeregister, before buff is freed; ending the communicator does so, too. Any thread. Errors:
 * horingInvalidArgument (a pointer NULL, size 0), horingInvalidUsage (forked child, too many). */
HORING_API horingResult_t horingCommRegister(const horingComm_t comm, void* buff, size_t size, void** handle);

/* Ends a registration; a NULL handle is nothing. The buffer stays as it is. Any thread. Errors: horingInvalidArgument (not a
 * live handle of comm), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingCommDeregister(const horingComm_t comm, void* handle);

/* ---- Reduction operations of one's own ---- */

/* Writes an operation that sums the inputs of all ranks, each multiplied by its rank's scalar: ranks may have different
 * ones, and each makes its own. Products and sums are computed in float32, in float64 for that type; integers wrap around.
 * `scalar` is the address of one element of `datatype`, with which alone the operation may be used, on this communicator
 * alone. Give it back with horingRedOpDestroy; ending the communicator does so, too. Local, not collective. Any thread.
 *
 * A scalar with horingScalarDevice is read whenever an operation begins. Where the buffers are on a GPU, it may be in memory of
 * that GPU, managed, or pinned: then what a stream writes there before the operation counts, and replays of a graph read it
 * anew. From other memory of the host it is read when the operation is called. Where the host has the buffers, it must have the
 * scalar, too. On a GPU it may be read until the operation is complete, so it must not lie in what that writes.
 *
 * Errors: horingInvalidArgument (a pointer NULL, an unknown type or residence), horingInvalidUsage (forked child, too many;
 * of the operation: a scalar on another GPU). */
HORING_API horingResult_t horingRedOpCreatePreMulSum(horingRedOp_t* op, void* scalar,
                                                     horingDataType_t datatype,
                                                     horingScalarResidence_t residence, horingComm_t comm);

/* Gives an operation back. Calls that have returned, or been queued on a stream, still complete with it; of
 * horingScalarDevice, the scalar must live as long. Any thread. Errors: horingInvalidArgument (not a live operation of
 * comm), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingRedOpDestroy(horingRedOp_t op, horingComm_t comm);

/* ---- Collectives. n is the number of ranks; conventions (3) to (8) hold for all. ----
 *
 * Errors of all: horingInvalidArgument (comm NULL, a buffer NULL with count > 0, an unknown type or
 * operation, a root outside 0 .. n-1, a count whose bytes overflow, a partial overlap), horingInvalidUsage (a stream, two threads, a
 * forked child, ranks that called different collectives), horingRemoteError (a peer died, or stopped with an
 * error; named), horingTimeout, horingSystemError (no memory or descriptors for a link).
 *
 * Between groups of ranks with slow links they run the hierarchical overlapping ring (arXiv 2310.06003,
 * section HO-Ring), else a ring or a direct exchange; HORING_ALGO forces one. With M groups and D bytes of
 * all ranks' data, D(M-1)/M bytes leave each group's link for all-gather and reduce-scatter, twice that for
 * all-reduce. */

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

/* The order of the blocks in the buffer that has one for each rank. Extension. */
typedef enum {
  horingRankMajor = 0, /* by rank */
  horingRailMajor =
      1 /* by local index, then by group: the block of a rank is number local * groups + group. With g groups,
                          each g blocks that follow each other are those of one rail. Needs groups of one size. */
} horingBlockOrder_t;

/* Extension. Writes the number of `rank`'s block in that order. Groups are numbered in the order of their lowest rank, the
 * local indices in a group by rank, or, where ranks are bound to NUMA nodes, in the order of the ring that joins them. Any
 * thread. Errors: horingInvalidArgument (a pointer NULL, no such order, a rank outside 0 .. n-1), horingInvalidUsage (groups
 * of different sizes; forked child). */
HORING_API horingResult_t horingCommBlock(const horingComm_t comm, horingBlockOrder_t order, int rank,
                                          int* block);

/* Extension. Writes the number of the group that `rank` is in, and its local index there, numbered as for horingCommBlock; groups
 * may differ in size. Any thread. Errors: horingInvalidArgument (a pointer NULL, a rank outside 0 .. n-1), horingInvalidUsage
 * (forked child). */
HORING_API horingResult_t horingCommGroup(const horingComm_t comm, int rank, int* group, int* localIndex);

/* Extension. As horingReduceScatter and horingAllGather, with blocks in that order, b(r) the number of rank r's: rank k gets
 * block b(k) of the reduction; recvbuff[b(r)*sendcount + i] = sendbuff_r[i]. In place: recvbuff == sendbuff +
 * b(rank)*recvcount; sendbuff == recvbuff + b(rank)*sendcount. All ranks pass the same order. Errors, besides: those of
 * horingCommBlock. */
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

/* recvbuff[i] = op over all ranks r of sendbuff_r[i], for i in 0 .. count-1, on the root. recvbuff is used on the
 * root only. In place: recvbuff == sendbuff. */
HORING_API horingResult_t horingReduce(const void* sendbuff, void* recvbuff, size_t count,
                                       horingDataType_t datatype, horingRedOp_t op, int root,
                                       horingComm_t comm, horingStream_t stream);

/* recvbuff[r*count + i] = sendbuff_r[i], for every rank r and i in 0 .. count-1, on the root. recvbuff has n*count
 * elements and is used on the root only. In place: sendbuff == recvbuff + root*count. */
HORING_API horingResult_t horingGather(const void* sendbuff, void* recvbuff, size_t count,
                                       horingDataType_t datatype, int root, horingComm_t comm,
                                       horingStream_t stream);

/* Rank k gets block k of the root's buffer: recvbuff[i] = sendbuff_root[k*count + i], for i in 0 .. count-1.
 * sendbuff has n*count elements and is used on the root only. In place: recvbuff == sendbuff + root*count. */
HORING_API horingResult_t horingScatter(const void* sendbuff, void* recvbuff, size_t count,
                                        horingDataType_t datatype, int root, horingComm_t comm,
                                        horingStream_t stream);

/* recvbuff[r*count + i] = sendbuff_r[rank*count + i], for every rank r and i in 0 .. count-1: block k of a rank's
 * sendbuff goes to rank k. Both buffers have n*count elements and must not overlap. */
HORING_API horingResult_t horingAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                                         horingDataType_t datatype, horingComm_t comm, horingStream_t stream);

/* ---- Collectives with blocks of different sizes. Extension. ----
 *
 * Block r has counts[r] elements, from element displs[r] of its buffer on; displs NULL: one block after the other. The
 * arrays are copied. Blocks may be empty, and must not overlap where they are received. Errors as for the other collectives;
 * ranks that disagree on the size of a block get horingInvalidUsage, also where one of them thinks that it is empty. */

/* recvbuff[recvdispls[r] + i] = sendbuff_r[i], for every rank r and i in 0 .. recvcounts[r]-1, on every rank. All ranks
 * pass the same recvcounts, and recvcounts[rank] == sendcount. In place: sendbuff == recvbuff + recvdispls[rank]. */
HORING_API horingResult_t horingAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                           const size_t* recvcounts, const size_t* recvdispls,
                                           horingDataType_t datatype, horingComm_t comm,
                                           horingStream_t stream);

/* Rank k gets block k of the reduction: recvbuff[i] = op over all ranks r of sendbuff_r[senddispls[k] + i], for i in
 * 0 .. sendcounts[k]-1. All ranks pass the same sendcounts. In place: recvbuff == sendbuff + senddispls[rank]. */
HORING_API horingResult_t horingReduceScatterV(const void* sendbuff, const size_t* sendcounts,
                                               const size_t* senddispls, void* recvbuff,
                                               horingDataType_t datatype, horingRedOp_t op, horingComm_t comm,
                                               horingStream_t stream);

/* recvbuff[recvdispls[r] + i] = sendbuff_r[i], for every rank r and i in 0 .. recvcounts[r]-1, on the root. Elsewhere
 * recvbuff, recvcounts and recvdispls are not used. In place: sendbuff == recvbuff + recvdispls[root]. */
HORING_API horingResult_t horingGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                        const size_t* recvcounts, const size_t* recvdispls,
                                        horingDataType_t datatype, int root, horingComm_t comm,
                                        horingStream_t stream);

/* Rank k gets block k of the root's buffer: recvbuff[i] = sendbuff_root[senddispls[k] + i], for i in 0 ..
 * recvcount-1, and recvcount == sendcounts[k]. Elsewhere sendbuff, sendcounts and senddispls are not used. In place:
 * recvbuff == sendbuff + senddispls[root]. */
HORING_API horingResult_t horingScatterV(const void* sendbuff, const size_t* sendcounts,
                                         const size_t* senddispls, void* recvbuff, size_t recvcount,
                                         horingDataType_t datatype, int root, horingComm_t comm,
                                         horingStream_t stream);

/* recvbuff[recvdispls[r] + i] = sendbuff_r[senddispls_r[rank] + i], for every rank r and i in 0 .. recvcounts[r]-1:
 * what a rank sends to another is what that one receives from it, and only those two need to know how much. The
 * buffers must not overlap. */
HORING_API horingResult_t horingAlltoAllV(const void* sendbuff, const size_t* sendcounts,
                                          const size_t* senddispls, void* recvbuff, const size_t* recvcounts,
                                          const size_t* recvdispls, horingDataType_t datatype,
                                          horingComm_t comm, horingStream_t stream);

/* ---- Collectives of lists. Extension. ----
 *
 * One call for many buffers: for each i in 0 .. length-1 as the collective without List of sendbuffs[i], recvbuffs[i] and
 * counts[i], in place or not. Small entries travel together, so that a list of many costs about as much as one call of their
 * bytes; large ones are not copied. As kernels on a GPU each is a call of its own, up to eight of them in a launch. The arrays are copied; all ranks pass the same length and counts. Entries of count 0 are
 * skipped, and a length of 0 is no call. No two buffers that are written may overlap. Errors as for the collective, with the
 * number of the entry; horingInvalidArgument (an array NULL). */

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
 * The first send from a to b meets the first receive of b from a, the second the second, and so on; they must agree on
 * the number of bytes. On GPUs, collectives come between the messages of two ranks at the same place at both, and of the messages
 * of one group 192 progress at once; with more, only those do that are the first few of each pair. A rank may send itself messages inside a group. Errors: horingInvalidArgument (comm NULL, a peer
 * outside 0 .. n-1, a buffer NULL with count > 0, an unknown type), horingInvalidUsage (sizes that differ; a message to
 * the own rank without its counterpart in the same group), and those of collectives. */

/* Sends `count` elements to `peer`. Complete when sendbuff may be used again, which may need the peer's receive: ranks
 * that send to each other do so in a group. */
HORING_API horingResult_t horingSend(const void* sendbuff, size_t count, horingDataType_t datatype, int peer,
                                     horingComm_t comm, horingStream_t stream);

/* Receives `count` elements from `peer`. */
HORING_API horingResult_t horingRecv(void* recvbuff, size_t count, horingDataType_t datatype, int peer,
                                     horingComm_t comm, horingStream_t stream);

/* ---- Groups ----
 *
 * Calls of one thread between start and end are launched together by the end: sends and receives that need each other,
 * operations of several communicators (the ranks that one thread drives, say), and horingCommInitRank, horingCommSplit
 * or horingCommShrink for several ranks. Buffers and comm pointers are used from the end on. The sends and receives of a
 * communicator all progress at once, after its collectives, which run in the order of the calls. They may be on several streams:
 * they begin when what is before them on each of these is complete, and what comes later on any waits for all of them. All are on
 * streams of CUDA, or all on ones of horingStreamCreate or none (horingInvalidUsage); those of CUDA all record the same graph, or
 * none of them records. Where GPUs do not reach each other's memory (of two nodes, say), messages, and all-to-all, gather and scatter
 * with blocks that differ, are recorded by all ranks that take part or by none of them, in communicators of 33 ranks at most, fewer
 * with a large HORING_WINDOW (horingInvalidUsage). Operations of different communicators have
 * no order among them where there is one on a GPU. Groups
 * nest; the outermost end launches. If one communicator of a group cannot be made, the others that it made are aborted: calls on
 * them return an error, their other ranks hear of it, and what is left is to end them. */

HORING_API horingResult_t horingGroupStart(void);

/* Returns when all operations with stream NULL are complete and the others have been handed to their streams. Errors:
 * horingInvalidUsage (no group is open), that of the first call in the group that was refused (nothing is launched
 * then), or the first of an operation. */
HORING_API horingResult_t horingGroupEnd(void);

/* ---- Streams of host operations. Extension: CUDA's streams serve device memory. Any thread. As communicators, they belong to
 * the process that made them: horingInvalidUsage in a forked child. ---- */

/* An in-order queue of operations, carried out by threads of the library. Belongs to the caller. Errors:
 * horingInvalidArgument (NULL). */
HORING_API horingResult_t horingStreamCreate(horingStream_t* stream);

/* Waits as horingStreamSynchronize, and gives the stream back. */
HORING_API horingResult_t horingStreamDestroy(horingStream_t stream);

/* Blocks until all operations issued on the stream are complete, no longer than their deadlines. Returns the first
 * error among them since the last call. Errors of its own: horingInvalidArgument (NULL), horingInvalidUsage (not a
 * stream). */
HORING_API horingResult_t horingStreamSynchronize(horingStream_t stream);

/* horingInProgress while operations issued on the stream are not complete; else as horingStreamSynchronize. */
HORING_API horingResult_t horingStreamQuery(horingStream_t stream);

typedef void (*horingStreamCallback_t)(horingStream_t stream, horingResult_t status, void* userData);

/* Calls back once, when all operations issued on the stream so far are complete, with the first error among them: on a
 * thread of the library, or on the calling thread if they are complete already. In the callback all that waits for
 * operations, or ends a communicator or a stream, returns horingInvalidUsage, and so does horingCommAbort: the thread that runs the
 * callback is one that an abort waits for. Let another thread abort. New operations on streams may be issued, and wait for no
 * room there; but on a stream of CUDA they return horingInvalidUsage while operations on the GPU that were issued on streams of
 * horingStreamCreate are queued on the same communicator, behind which they belong. */
HORING_API horingResult_t horingStreamAddCallback(horingStream_t stream, horingStreamCallback_t callback,
                                                  void* userData);

#ifdef __cplusplus
}
#endif

#endif /* HORING_HORING_H_ */
