/* horing: collective communication between the ranks of a job. C99 and C++.
 *
 * The rules in short; docs/semantics.md has each at length, under the same number.
 *
 *  (1) Names, signatures and numbers are NCCL's after renaming (README.md has the sed). What NCCL does not have is
 *      marked "Extension".
 *  (2) A function returns a horingResult_t and writes outputs only if it succeeds; horingGetLastError() says more.
 *  (3) Sizes are counts of elements, 0 included. A communicator of one rank copies.
 *  (4) Buffers belong to the caller, are aligned to an element, and are left alone until the operation is complete.
 *      Two buffers overlap exactly as "in place" says, or not at all. In one call, the buffers of all ranks are in
 *      host memory, or all are on GPUs.
 *  (5) With a stream of NULL an operation is complete on return. With a stream of horingStreamCreate, or a
 *      cudaStream_t for memory of a GPU, the call returns at once, and the stream orders the operation.
 *  (6) All ranks call the same collectives in the same order with the same count, type and operation, and get the
 *      same bits.
 *  (7) One communicator is used by one thread at a time; different ones by different threads at once.
 *  (8) An error that left the ranks out of step sticks to the communicator.
 *  (9) Every wait has a deadline (HORING_INIT_TIMEOUT_MS, HORING_TIMEOUT_MS), and ends at once when a rank is lost.
 * (10) A forked child cannot use the parent's communicators; it may make its own.
 * (11) No exception leaves the library, no signal handler is installed, and the library prints only if HORING_DEBUG
 *      says so.
 */
#ifndef HORING_HORING_H_
#define HORING_HORING_H_

#include "horing/collectives.h"
#include "horing/communicators.h"
#include "horing/groups.h"
#include "horing/memory.h"
#include "horing/messages.h"
#include "horing/one_sided.h"
#include "horing/reductions.h"
#include "horing/streams.h"
#include "horing/types.h"
#include "horing/version.h"

#endif /* HORING_HORING_H_ */
