/* The library, and communicators: making, ending and inspecting them. A part of horing.h, whose rules hold. */
#ifndef HORING_COMMUNICATORS_H_
#define HORING_COMMUNICATORS_H_

#include "horing/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The library ---- */

/* Writes the HORING_VERSION_CODE of the library that is loaded, which may be newer than this header. Any
 * thread. Errors: horingInvalidArgument (version NULL). */
HORING_API horingResult_t horingGetVersion(int* version);

/* A short sentence for a result code; "unknown result code" for any other number. Never NULL; static. Any
 * thread. */
HORING_API const char* horingGetErrorString(horingResult_t result);

/* The text of the latest error: of this communicator or, with NULL, of the calling thread's latest failed call. It
 * begins with the sentence of horingGetErrorString. "" if there was none. Never NULL; owned by the library, valid until
 * the calling thread calls this again. Any thread, any time. */
HORING_API const char* horingGetLastError(horingComm_t comm);

/* Extension. Sets the default of the environment variable `name` (horing-info lists all variables) for this process:
 * communicators and IDs that are made later use it where the environment does not set the variable. NULL restores the
 * built-in default. Strings are copied. Any thread. Errors: horingInvalidArgument (an unknown variable). A bad value is
 * refused when a communicator is made. */
HORING_API horingResult_t horingSetDefault(const char* name, const char* value);

/* ---- Making and ending communicators ---- */

/* Makes a new ID and opens, in this process, the port at which the ranks that have this ID meet. Call it in the process
 * of one rank, usually rank 0, and keep that process alive until all ranks are initialised. Until the first rank
 * arrives, the ID stays valid as long as the process runs, and costs the process a port, a thread and a few
 * descriptors: make no IDs that will not be used. Each call gives a new ID. Any thread. Errors: horingInvalidArgument
 * (NULL), horingSystemError (no interface, no port, no randomness, no thread). */
HORING_API horingResult_t horingGetUniqueId(horingUniqueId* uniqueId);

/* Makes the communicator of rank `rank` of `nranks`. Collective: blocks until all ranks have called it with the same ID
 * and nranks, or until HORING_INIT_TIMEOUT_MS has passed; the error then names the missing ranks. Several ranks may
 * share one process, each initialised by its own thread. *comm belongs to the caller. The placement of ranks (nodes,
 * groups) is determined here. Errors: horingInvalidArgument (comm NULL, nranks < 1, rank outside 0 .. nranks-1, a rank
 * given twice, not an ID, a bad environment variable), horingInvalidUsage (another library version, a wrong secret,
 * ranks that disagree, an ID that was used already and was made by this process), horingTimeout, horingSystemError,
 * horingRemoteError (also where the ID was used already, or the process that made it has ended). */
HORING_API horingResult_t horingCommInitRank(horingComm_t* comm, int nranks, horingUniqueId commId, int rank);

/* horingCommInitRank with settings; a config of NULL changes nothing. With config->blocking = 0 it returns
 * horingInProgress, and a thread of the library makes the communicator: *comm is written at once, and
 * horingCommGetAsyncError gives horingInProgress, then horingSuccess or the error. Until then every other call returns
 * horingInvalidArgument, as in NCCL, except horingCommAbort, which may end the communicator at any time. A communicator
 * that could not be made is released with horingCommDestroy or horingCommAbort. Collectives and horingCommDestroy block
 * as on any other communicator. Communicators made from this one are non-blocking too, unless their config says
 * blocking = 1. Errors: also horingInvalidArgument (config not initialised, a field with a wrong value). */
HORING_API horingResult_t horingCommInitRankConfig(horingComm_t* comm, int nranks, horingUniqueId commId,
                                                   int rank, horingConfig_t* config);

/* Extension. horingCommInitRankConfig with more settings; options of NULL change nothing. The options also hold for
 * communicators that are made from this one. */
HORING_API horingResult_t horingCommInitRankOptions(horingComm_t* comm, int nranks, horingUniqueId commId,
                                                    int rank, horingConfig_t* config,
                                                    const horingOptions_t* options);

/* Extension. Sets the options of communicators that the calling thread makes later by functions without an options
 * argument; NULL: no options. Writes the previous options to *former, unless former is NULL. Errors:
 * horingInvalidArgument (a wrong value). */
HORING_API horingResult_t horingSetThreadOptions(const horingOptions_t* options, horingOptions_t* former);

/* horingCommInitRankConfig with nId unique IDs (1 to nranks), made by any ranks and passed by all in the same
 * order. All ranks meet at the first ID; the processes that made the other IDs close their ports. Errors:
 * also horingInvalidArgument (nId, commIds NULL, not an ID). */
HORING_API horingResult_t horingCommInitRankScalable(horingComm_t* newcomm, int nranks, int myrank, int nId,
                                                     horingUniqueId* commIds, horingConfig_t* config);

/* Makes all `ndev` ranks of a communicator in this process; comms[i] is rank i. A collective on host buffers returns
 * only when all ranks have entered it, so each rank is driven by a thread of its own, or one thread puts the calls of
 * all into a group. Needs no network. devlist may be NULL; otherwise devlist[i] is the GPU near which rank i is placed
 * in rings. If this process has all GPUs of the list, rank i also works on that GPU. On failure no communicator is
 * made. Errors: horingInvalidArgument (comms NULL, ndev < 1, a GPU below 0), and as for horingCommInitRank. */
HORING_API horingResult_t horingCommInitAll(horingComm_t* comms, int ndev, const int* devlist);

/* Extension. Like horingCommInitRank, with rank, size and meeting point taken from the environment of horing-run,
 * mpirun (Open MPI, MPICH), srun or torchrun (RANK, WORLD_SIZE, ...). HORING_ROOT=host:port overrides the meeting
 * point. May be called again, also after a destroy: the ranks' first calls make one communicator, their second calls
 * the next. Errors: horingInvalidUsage (no launcher recognised; no secret and no HORING_INSECURE=1),
 * horingInvalidArgument (values that contradict each other), and as for horingCommInitRank. */
HORING_API horingResult_t horingCommInitFromEnv(horingComm_t* comm);

/* Splits a communicator: the ranks of each color (0 or more) become a communicator of their own, ordered by key, then
 * by their rank in comm; HORING_SPLIT_NOCOLOR gives *newcomm = NULL. Collective over all ranks of comm, ordered after
 * the operations that they have issued on comm. After HORING_INIT_TIMEOUT_MS the error names the ranks that are still
 * missing. comm is unchanged. comm and *newcomm are independent: they may run at the same time and end in any order.
 * The settings of comm also hold for *newcomm, except where config changes them; the environment is not read. In a
 * group, *newcomm is written by horingGroupEnd. config->blocking = 0 is as in horingCommInitRankConfig: the exchange
 * between the ranks is ordered among the operations issued on comm. An abort of *newcomm waits for the exchange,
 * HORING_INIT_TIMEOUT_MS at most; an abort of comm ends the exchange. A rank without a color blocks in any case.
 * Errors: horingInvalidArgument (comm or newcomm NULL, a color below 0, config), and as for horingCommInitRank. Errors
 * of the exchange between all ranks stick to comm. */
HORING_API horingResult_t horingCommSplit(horingComm_t comm, int color, int key, horingComm_t* newcomm,
                                          horingConfig_t* config);

/* Makes a communicator of the ranks of comm that are not among the excludeRanksCount ranks of the list; they keep their
 * order. All remaining ranks call it, with the same list. The excluded ranks may be dead, stopped or elsewhere, and
 * comm may be in error: the ranks meet by an address and a key that each rank gave all others when comm was made.
 * HORING_SHRINK_DEFAULT first waits for the operations that this rank has issued on comm, which stays as it is.
 * HORING_SHRINK_ABORT ends comm: calls running on it return an error, and it can only be destroyed or aborted. Waits at
 * most HORING_INIT_TIMEOUT_MS for all ranks to arrive, and at most as long again to make *newcomm. After a failure
 * (another rank has died, for instance) the call may be repeated with a longer list. Settings, groups and *newcomm as
 * for horingCommSplit; in a group, ABORT acts at once. Errors: horingInvalidArgument (a pointer NULL, no rank or all
 * ranks excluded, an unknown rank, a rank twice, the caller's rank, flags, config), horingInvalidUsage (lists that
 * differ), and as for horingCommInitRank. */
HORING_API horingResult_t horingCommShrink(horingComm_t comm, int* excludeRanksList, int excludeRanksCount,
                                           horingComm_t* newcomm, horingConfig_t* config, int shrinkFlags);

/* Makes an ID with which new ranks join the ranks of comm (horingCommGrow). Local. Errors: as for horingGetUniqueId and
 * horingCommCount. */
HORING_API horingResult_t horingCommGetUniqueId(horingComm_t comm, horingUniqueId* uniqueId);

/* Makes a communicator of nRanks ranks: all ranks of comm, which keep their rank numbers, and new ranks. A rank of comm
 * passes rank -1 and the ID of horingCommGetUniqueId or NULL; at least the rank that made the ID passes it. A new rank
 * passes comm NULL, the ID, and a rank that is at least the number of ranks of comm; its settings come from its
 * environment. Everything else is as for horingCommShrink; comm may be revoked or in error. Errors: as for
 * horingCommShrink and horingCommInitRank. */
HORING_API horingResult_t horingCommGrow(horingComm_t comm, int nRanks, const horingUniqueId* uniqueId,
                                         int rank, horingComm_t* newcomm, horingConfig_t* config);

/* Ends the operations that run on comm, as horingCommAbort does, but keeps comm: it may then be shrunk, grown,
 * destroyed or aborted, and other calls return horingInvalidUsage. Other ranks get horingRemoteError, and may revoke
 * their comm, too. Any thread. Errors: horingInvalidArgument (not a live communicator, revoked before, flags). */
HORING_API horingResult_t horingCommRevoke(horingComm_t comm, int revokeFlags);

/* Gives back the memory that comm holds, on the host and on GPUs, and its connections and descriptors but one; comm,
 * its premulsum operations and memory of horingMemAlloc stay. Collective: waits for the operations that this rank has
 * issued on comm, and until all ranks have called it; in a group, for several ranks of one thread. flags:
 * HORING_SUSPEND_MEM. GPU memory goes back to the driver once no communicator of the process uses any
 * (docs/semantics.md). Until horingCommResume only an end, horingCommGetAsyncError and horingCommMemoryBytes work;
 * other calls return horingInvalidUsage, and the death of a rank is noticed only then. Errors: as for horingCommSplit,
 * and horingInvalidUsage (suspended before; buffers, or windows in memory of the host, are registered). */
HORING_API horingResult_t horingCommSuspend(horingComm_t comm, int flags);

/* Makes comm of the same ranks again, as horingCommSuspend left it. Collective; waits at most HORING_INIT_TIMEOUT_MS
 * for all ranks. After an error of its own comm can only be ended. Errors: horingInvalidUsage (not suspended; forked
 * child), and as for horingCommInitRank. */
HORING_API horingResult_t horingCommResume(horingComm_t comm);

/* Extension. Writes 1 while comm is suspended, else 0. Any thread. Errors: horingInvalidArgument (NULL, not a live
 * communicator). */
HORING_API horingResult_t horingCommIsSuspended(const horingComm_t comm, int* suspended);

/* Waits until the operations that this rank has issued on comm are complete, and shuts comm down in good order, as
 * horingCommDestroy does. The later destroy is then local and does not wait, and every other call that moves data
 * returns horingInvalidUsage. NULL, which horingCommSplit gives without a color, succeeds. Errors:
 * horingInvalidArgument (not a live communicator; called before), horingInvalidUsage (a collective is running in
 * another thread; forked child), or the error that sticks to comm. */
HORING_API horingResult_t horingCommFinalize(horingComm_t comm);

/* Extension. Sets the communicator's HORING_TIMEOUT_MS, 0 (none) to 86400000, for operations that begin later: one
 * in a CUDA graph, when it is recorded. Each rank may have its own. Any thread, any time. Errors:
 * horingInvalidArgument (another value), and as for horingCommCount. */
HORING_API horingResult_t horingCommSetTimeout(horingComm_t comm, int timeoutMs);

/* Extension. Writes the communicator's HORING_TIMEOUT_MS as it is now; 0: none. Any thread, any time. Errors:
 * horingInvalidArgument (NULL), and as for horingCommCount. */
HORING_API horingResult_t horingCommGetTimeout(const horingComm_t comm, int* timeoutMs);

/* Extension. Writes 1 if the communicator's reductions are reproducible (HORING_REPRODUCIBLE, or options.reproducible),
 * else 0. Any thread, any time. Errors: horingInvalidArgument (NULL), and as for horingCommCount. */
HORING_API horingResult_t horingCommIsReproducible(const horingComm_t comm, int* reproducible);

/* Releases the communicator once the data that this rank has sent is delivered. Not collective: ranks may call it at
 * different times, and one thread may call it for several ranks in turn. Returns even when peers are dead. Replays of
 * graphs that contain operations of comm must have ended before; later replays are not allowed. comm is invalid
 * afterwards. NULL succeeds. Errors: horingInvalidArgument (not a live communicator), horingInvalidUsage (a collective
 * is running in another thread; forked child). */
HORING_API horingResult_t horingCommDestroy(horingComm_t comm);

/* Ends the communicator: a collective that another thread is running on it returns an error, and peers get
 * horingRemoteError. Waits for no operation, only until the other ranks are told: milliseconds as a rule
 * (docs/semantics.md). comm is invalid afterwards. Any thread, but only once. NULL succeeds. Errors:
 * horingInvalidArgument (not a live communicator), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingCommAbort(horingComm_t comm);

/* ---- Querying a communicator. Any thread, any time before it is ended. ---- */

/* Writes the number of ranks. Errors: horingInvalidArgument (NULL), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingCommCount(const horingComm_t comm, int* count);

/* Writes this rank, 0 .. count-1. Errors as for horingCommCount. */
HORING_API horingResult_t horingCommUserRank(const horingComm_t comm, int* rank);

/* Writes the error that sticks to the communicator (rule 8); horingSuccess if there is no error; horingInProgress while
 * the communicator is being made. Does not block. Errors as for horingCommCount. */
HORING_API horingResult_t horingCommGetAsyncError(horingComm_t comm, horingResult_t* asyncError);

/* Extension. Writes the rank that caused the communicator's error: it died, stopped, was cut off, was aborted, never
 * made a call or made a different call than the other ranks. horingCommShrink may exclude it. -1 while there is no
 * error, and where the error is about no single rank, about more than half of them (at a deadline), or only about the caller.
 * Also works on a communicator that could not be made (config.blocking 0). Does not block. Errors as for horingCommCount. */
HORING_API horingResult_t horingCommGetFailedRank(horingComm_t comm, int* rank);

/* ---- Inspecting a communicator. Not while a collective runs on it (rule 7). ---- */

/* Writes the CUDA number of the GPU that the communicator works on (rule 4); while there is none, that of the list that
 * horingCommInitAll was given, else -1. Errors as for horingCommCount. */
HORING_API horingResult_t horingCommCuDevice(const horingComm_t comm, int* device);

/* Extension. Writes the bytes of memory that this rank holds for the communicator: slots, shared segments, plans; 0
 * while it is suspended. Grows when a plan is first used, and when messages are larger than all before. GPU resources
 * that the library keeps of destroyed communicators (docs/semantics.md) are not counted; HORING_DEBUG=info logs them.
 * Errors as for horingCommCount. */
HORING_API horingResult_t horingCommMemoryBytes(const horingComm_t comm, uint64_t* bytes);

/* Extension. Writes a description for humans: the placement of ranks, the rings, the transports, the
 * algorithm of each collective. Lines end in '\n'; at most length bytes including the closing 0, truncated if
 * necessary. Errors as for horingCommCount, and horingInvalidArgument (length 0). */
HORING_API horingResult_t horingCommDescribe(const horingComm_t comm, char* buffer, size_t length);

#ifdef __cplusplus
}
#endif

#endif /* HORING_COMMUNICATORS_H_ */
