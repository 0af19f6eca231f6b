/* Reduction operations of the user. A part of horing.h, whose rules hold. */
#ifndef HORING_REDUCTIONS_H_
#define HORING_REDUCTIONS_H_

#include "horing/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- User-defined reduction operations ---- */

/* Makes an operation that sums the inputs of all ranks, each multiplied by its rank's scalar. Each rank makes its own
 * operation, and scalars may differ. Products and sums are computed in float32 (in float64 for horingFloat64); integers
 * wrap around. `scalar` is the address of one element of `datatype`; the operation may be used with `datatype` and
 * `comm` only. Release it with horingRedOpDestroy; ending the communicator releases it, too. Local, not collective. Any
 * thread.
 *
 * With horingScalarDevice the scalar is read each time an operation begins. Where the buffers are on a GPU, the scalar
 * may be in memory of that GPU, or in managed or pinned memory: it is then read in stream order, and by each replay of
 * a graph. A scalar in other host memory is read when the operation is called. Where the buffers are in host memory,
 * the scalar must be, too. On a GPU the scalar may be read until the operation is complete, so it must not lie in
 * memory that the operation writes.
 *
 * Errors: horingInvalidArgument (a pointer NULL, an unknown type or residence), horingInvalidUsage (forked child, too
 * many operations; when the operation is used: a scalar on another GPU). */
HORING_API horingResult_t horingRedOpCreatePreMulSum(horingRedOp_t* op, void* scalar,
                                                     horingDataType_t datatype,
                                                     horingScalarResidence_t residence, horingComm_t comm);

/* Releases an operation. Calls already issued, also those queued on a stream, still complete; with horingScalarDevice
 * the scalar must stay allocated until they have. Any thread. Errors: horingInvalidArgument (not a live operation of
 * comm), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingRedOpDestroy(horingRedOp_t op, horingComm_t comm);

#ifdef __cplusplus
}
#endif

#endif /* HORING_REDUCTIONS_H_ */
