/* Windows, puts and signals. A part of horing.h, whose rules hold. */
#ifndef HORING_ONE_SIDED_H_
#define HORING_ONE_SIDED_H_

#include "horing/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- One-sided operations ----
 *
 * A put writes into a window of another rank, which makes no call for it, and then signals that rank. A rank that has
 * waited for the signal sees the data. Puts and signals from one rank to another arrive in the order in which they
 * begin: a rank that has waited for the n-th signal of a rank sees the data of that rank's first n puts. Puts of
 * different ranks into the same bytes have no order.
 *
 * A put is complete when localbuff may be reused; the data may still be on their way. The target takes the data while
 * its host carries out any operation of the communicator; kernels take none. Otherwise, data for which the connection
 * has no slots wait; after 0.2 s a thread of the target's library begins to take them, in portions. Data for a window
 * in memory of GPUs wait for nobody. The deadline holds for each put and each wait.
 *
 * Like messages with tags, one-sided operations progress concurrently with other operations of the communicator: only
 * streams order them. In a group, those of one communicator keep their order: puts and signals without a wait between
 * them progress at once. What follows a wait begins when that is complete. The first wait comes after the collectives
 * and messages of the group.
 *
 * Signals of one rank with different indices (sigIdx) are counted separately; there are config.numRmaSig of them, by
 * default one, of index 0. All ranks ask for the same number. Context and flags are 0, whatever numRmaCtx asks for.
 *
 * Windows are in host memory, or in memory of GPUs that reach each other. A put into the latter needs a cudaStream_t,
 * and data in memory of the stream's GPU or in pinned memory. Other buffers are in host memory; on a cudaStream_t,
 * localbuff may be in memory of the stream's GPU.
 *
 * Errors: horingInvalidArgument (comm NULL, a peer outside 0 .. n-1, a buffer NULL with count > 0, an unknown type, not a window of comm, a put that
 * leaves the window, a sigIdx outside 0 .. numRmaSig-1, a context or flag that is not 0), horingInvalidUsage (a buffer on a GPU, except so; a stream
 * that records a graph; on a GPU that ranks of the process share, a wait on a stream that holds a call of another rank back which goes on, or a call that
 * such a wait holds back: on a default stream, or one made without cudaStreamNonBlocking), and as for collectives. A put that arrives after its window was
 * deregistered writes nothing, except perhaps into memory of a GPU, and ends the communicator: horingInvalidUsage on the target, horingRemoteError on the other
 * ranks. */

/* Memory of every rank of a communicator that the other ranks put into. */
typedef struct horingWindow* horingWindow_t;
/* For horingCommWindowRegister. */
#define HORING_WIN_DEFAULT 0x00
#define HORING_WIN_COLL_SYMMETRIC 0x01

/* Registers `size` bytes at buff, from 1 on, as this rank's part of a window. Collective: all ranks register their
 * windows in the same order. Sizes may differ. *win is NULL, on all ranks, if the buff of some rank is in memory of a
 * GPU, unless all are, each of a GPU that kernels of all ranks reach. winFlags are ignored. In a group *win is written
 * by the group's end. buff belongs to the caller and must stay until the window is deregistered, on all ranks if it is
 * in memory of a GPU, or the communicator has ended there. horingCommSuspend ends windows in memory of GPUs. The first
 * window that is not NULL connects every rank with every other one. Errors: horingInvalidArgument (buff or win NULL,
 * size 0), horingInvalidUsage (65536 windows; ranks that register different windows), and as for collectives. */
HORING_API horingResult_t horingCommWindowRegister(horingComm_t comm, void* buff, size_t size,
                                                   horingWindow_t* win, int winFlags);

/* Ends a window on this rank: buff is written no more. Not collective: a rank calls it when it has waited for the signals of all puts into its
 * part: not in the group of such a wait, which comes last there. In memory of GPUs, it, or the end of its group, waits at most a second for this
 * rank's puts to be written, and then, unless comm has an error, for other processes to deregister it; what is left is logged, and ends in a later
 * call. NULL, and a window that a suspension has ended, do nothing, also before horingCommResume. Errors: horingInvalidArgument (not a window of
 * comm), horingInvalidUsage (a put into it is arriving; this sticks). */
HORING_API horingResult_t horingCommWindowDeregister(horingComm_t comm, horingWindow_t win);

/* Writes to *outUserPtr the buff of this rank. Any thread. Errors: horingInvalidArgument (outUserPtr NULL, not a window
 * of comm). */
HORING_API horingResult_t horingWinGetUserPtr(horingComm_t comm, horingWindow_t win, void** outUserPtr);

/* Writes `count` elements from localbuff into the part of `peer`, peerWinOffset bytes behind its beginning, then signals
 * the peer. The peer may be the own rank. peerWin is this rank's handle of the window. */
HORING_API horingResult_t horingPutSignal(const void* localbuff, size_t count, horingDataType_t datatype,
                                          int peer, horingWindow_t peerWin, size_t peerWinOffset, int sigIdx,
                                          int ctx, unsigned int flags, horingComm_t comm,
                                          horingStream_t stream);

/* Signals the peer, which may be the own rank. Needs no window; without one, the target takes signals from its first
 * horingSignal or horingWaitSignal with this rank on. */
HORING_API horingResult_t horingSignal(int peer, int sigIdx, int ctx, unsigned int flags, horingComm_t comm,
                                       horingStream_t stream);

/* opCnt signals, 1 or more, of `peer`, which may be the own rank. */
typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx; /* 0 */
} horingWaitSignalDesc_t;

/* Complete when all these signals have arrived, each counted once: a later wait needs later signals. Waits for one rank
 * and sigIdx get their signals in the order in which they begin. The descriptors are read before the call returns. Errors: also
 * horingInvalidArgument (nDesc below 1, signalDescs NULL, opCnt below 1). */
HORING_API horingResult_t horingWaitSignal(int nDesc, horingWaitSignalDesc_t* signalDescs, horingComm_t comm,
                                           horingStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* HORING_ONE_SIDED_H_ */
