/* Groups of calls. A part of horing.h, whose rules hold. */
#ifndef HORING_GROUPS_H_
#define HORING_GROUPS_H_

#include "horing/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Groups ----
 *
 * Calls of one thread between start and end are launched together by the end: sends and receives that need each other,
 * operations of several communicators (the ranks that one thread drives, for instance), and horingCommInitRank,
 * horingCommSplit or horingCommShrink for several ranks. Buffers and comm pointers are used from the end on. Exception:
 * horingCommInitRank writes *comm at once; until the end, horingCommGetAsyncError gives horingInProgress for it, and
 * every other call on it returns horingInvalidUsage. If the communicator cannot be made, the end sets *comm to NULL.
 * Groups nest; the outermost end launches.
 *
 * The sends and receives of a communicator all progress at once, after its collectives, which run in the order of the
 * calls. They may be on several streams: all messages begin when the earlier work on each of these streams is complete,
 * and later work on any of these streams waits for all messages. Either all or none of the messages are on CUDA streams
 * (horingInvalidUsage). The CUDA streams all record the same graph, or none records. Where GPUs do not reach each
 * other's memory (on two nodes, for instance), messages, and all-to-all, gather and scatter with blocks that differ in
 * size, can be recorded in communicators of at most 33 ranks (horingInvalidUsage); where RDMA joins any two ranks,
 * either all ranks that take part record or none does. Operations of different communicators are not ordered if any of
 * the operations is on a GPU.
 *
 * If one communicator of a group cannot be made, the communicators that the group did make are aborted: calls on them
 * return an error, their other ranks are told, and they can only be destroyed or aborted. */

/* Opens a group for the calls of this thread, or one more level of nesting. */
HORING_API horingResult_t horingGroupStart(void);

/* Returns when all operations with stream NULL are complete and the other operations have been handed to their streams.
 * horingInProgress: the group makes communicators with config.blocking = 0, and nothing has failed. Errors:
 * horingInvalidUsage (no group is open); the error of the first call in the group that was refused (then nothing is
 * launched); or the first error of an operation. */
HORING_API horingResult_t horingGroupEnd(void);

/* The result of horingGroupSimulateEnd and horingGroupExplainEnd. HORING_SIM_INFO_INITIALIZER sets the first three fields. */
typedef struct {
  size_t size;
  unsigned int magic, version;
  float estimatedTime; /* microseconds */
} horingSimInfo_t;
#define HORING_SIM_INFO_INITIALIZER \
  { sizeof(horingSimInfo_t), 0x74685283, HORING_VERSION_CODE, HORING_UNDEF_FLOAT }

/* Closes the group that horingGroupStart opened, in place of horingGroupEnd. Launches nothing, but writes to simInfo,
 * unless it is NULL, how long the group would take; a nested level writes nothing. Collectives are simulated on the
 * machine that HORING_CALIBRATE measured or names, else on the default machine of horing-sim; a message takes the time
 * that its link needs. Local. Errors: horingInvalidUsage (no group is open; the group makes communicators),
 * horingInvalidArgument (simInfo not initialised; a call that cannot be simulated), or the error of a call that was
 * refused. */
HORING_API horingResult_t horingGroupSimulateEnd(horingSimInfo_t* simInfo);

/* Extension. As horingGroupSimulateEnd, and writes to buffer what bounds the time of the group's longest operation, as a
 * text for people such as "links between nodes: every node sends at 93 % of its rate": at most length bytes, with the
 * terminating zero. Its first word is links, memory, cores, algorithm, latency or slots (docs/speed.md); of more than
 * 16 MiB, what bounds 16 MiB. Empty: the group takes no time, or a nested level was closed. Errors: also
 * horingInvalidArgument (buffer is NULL or length 0), horingInvalidUsage (groups of different sizes). */
HORING_API horingResult_t horingGroupExplainEnd(horingSimInfo_t* simInfo, char* buffer, size_t length);

/* Extension. Closes the group that horingGroupStart opened, in place of horingGroupEnd, and drops its calls, as if they
 * had never been made; enclosing levels can then only be closed without launching anything. For callers that cannot
 * finish a group: half a group might wait for the other half until the deadline. Errors: horingInvalidUsage (no group
 * is open). */
HORING_API horingResult_t horingGroupDiscard(void);

#ifdef __cplusplus
}
#endif

#endif /* HORING_GROUPS_H_ */
