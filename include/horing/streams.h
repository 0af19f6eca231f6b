/* Streams of host operations. A part of horing.h, whose rules hold. */
#ifndef HORING_STREAMS_H_
#define HORING_STREAMS_H_

#include "horing/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Streams of host operations. Extension: a cudaStream_t serves device memory (rule 5). ----
 *
 * Any thread. Like communicators, streams belong to the process that made them: horingInvalidUsage in a
 * forked child. */

/* Makes an in-order queue of operations, which threads of the library carry out. The stream belongs to the caller.
 * Errors: horingInvalidArgument (NULL). */
HORING_API horingResult_t horingStreamCreate(horingStream_t* stream);

/* Waits like horingStreamSynchronize, then releases the stream. Errors: as for horingStreamSynchronize. */
HORING_API horingResult_t horingStreamDestroy(horingStream_t stream);

/* Blocks until all operations issued on the stream are complete, at most until their deadlines. Returns the first error
 * of an operation since the last call. Errors of its own: horingInvalidArgument (NULL), horingInvalidUsage (not a
 * stream of horingStreamCreate; called in a callback; forked child). */
HORING_API horingResult_t horingStreamSynchronize(horingStream_t stream);

/* Extension. Like horingStreamSynchronize, but waits timeoutMs milliseconds at most, and only for the operations that
 * were issued before `mark` was written; horingInProgress if they are not complete by then. A mark of HORING_STREAM_ALL
 * stands for all operations issued so far. Errors of operations are not cleared: every later call of this function, and
 * the next horingStreamSynchronize, return them again. */
#define HORING_STREAM_ALL UINT64_MAX
HORING_API horingResult_t horingStreamWait(horingStream_t stream, uint64_t mark, int timeoutMs);

/* Extension. Writes a mark that stands for the operations issued on the stream so far. Any thread. Errors:
 * horingInvalidArgument (NULL), and as for horingStreamSynchronize. */
HORING_API horingResult_t horingStreamMark(horingStream_t stream, uint64_t* mark);

/* Extension. As cudaStreamWaitEvent: lets cudaStream, a cudaStream_t, wait until the operations that were issued on
 * `stream` before `mark` was written are complete, or have failed; cudaStream goes on at the latest when comm ends. So
 * a program on a GPU waits for an operation on host memory without blocking a thread. Returns at once. comm may be any
 * communicator, which works on the GPU of cudaStream from here on; the call is one of its calls (rule 7) until it has
 * been made once, then any thread may make it. As a wait for a signal (docs/semantics.md) this one holds back its
 * stream and those that it holds back, but no operation of ranks that share the GPU is refused. Errors:
 * horingInvalidArgument (NULL), horingInvalidUsage (not streams of these kinds; comm works on another GPU; cudaStream
 * records a graph; forked child), horingUnhandledCudaError. */
HORING_API horingResult_t horingStreamWaitOnGpu(horingStream_t stream, uint64_t mark, horingComm_t comm,
                                                horingStream_t cudaStream);

/* Returns horingInProgress while operations issued on the stream are not complete; otherwise returns what
 * horingStreamSynchronize would return. */
HORING_API horingResult_t horingStreamQuery(horingStream_t stream);

/* The callback of horingStreamAddCallback. */
typedef void (*horingStreamCallback_t)(horingStream_t stream, horingResult_t status, void* userData);

/* Calls back once, when all operations issued on the stream so far are complete, with the first error of these
 * operations: on a thread of the library, or on the calling thread if all are already complete. Inside the callback,
 * calls that wait for operations, or that end a communicator or a stream, return horingInvalidUsage; so does
 * horingCommAbort, since an abort waits for the thread that runs the callback: abort from another thread. A callback
 * may issue new operations on streams, which then do not wait for room in a full queue. On a CUDA stream a new
 * operation returns horingInvalidUsage while GPU operations issued on streams of horingStreamCreate are queued on the
 * same communicator, since it would have to run after them. Errors: horingInvalidArgument (NULL), horingInvalidUsage
 * (not a stream of horingStreamCreate; forked child). */
HORING_API horingResult_t horingStreamAddCallback(horingStream_t stream, horingStreamCallback_t callback,
                                                  void* userData);

#ifdef __cplusplus
}
#endif

#endif /* HORING_STREAMS_H_ */
