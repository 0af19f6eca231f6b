/* Collectives. A part of horing.h, whose rules hold. */
#ifndef HORING_COLLECTIVES_H_
#define HORING_COLLECTIVES_H_

#include "horing/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Collectives. n is the number of ranks; rules (3) to (8) hold for all. ----
 *
 * Errors of all: horingInvalidArgument (comm NULL, a buffer NULL with count > 0, an unknown type or
 * operation, a root outside 0 .. n-1, a count whose bytes overflow, a partial overlap), horingInvalidUsage (a
 * stream or buffers that rules 4 and 5 do not allow, two threads, a forked child, ranks that called
 * different collectives), horingRemoteError (a peer died, or stopped with an error; named), horingTimeout,
 * horingSystemError (no memory or descriptors for a link).
 *
 * Between groups of ranks with slow links, collectives run the hierarchical overlapping ring (arXiv 2310.06003, section
 * HO-Ring), or an algorithm that suits the size better; inside a group they run a ring or a direct exchange.
 * HORING_ALGO forces one. With M groups and D bytes of all ranks' data, HO-Ring moves D(M-1)/M bytes over each group's
 * link for all-gather and reduce-scatter (D less the group's own share where groups differ in size), 2D(M-1)/M for
 * all-reduce. */

/* Extension. Sets the options of the collectives that the calling thread calls from now on, also in a group, on any
 * communicator; NULL: none. A call keeps those that it was made with. Writes the previous options to *former, unless
 * former is NULL. Errors: horingInvalidArgument (not initialised, a timeout out of range, an algorithm without closing 0).
 * Calls then also return: horingInvalidArgument (an unknown algorithm), horingInvalidUsage (one that has not this collective,
 * that needs groups of one size where they differ, that needs buffers which all ranks reach (peer_read, peer_write), or
 * that is not reproducible, of reductions on a reproducible communicator; buffers in memory of a GPU, or pinned, managed or
 * none on a cudaStream_t). */
HORING_API horingResult_t horingSetCallOptions(const horingCallOptions_t* options,
                                               horingCallOptions_t* former);

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

/* Extension. The order of the blocks in a buffer that has one block for each rank. Rail-major is by local index, then
 * by group: the number of a rank's block is local * groups + group. With g groups, each g consecutive blocks belong to
 * one rail. Rail-major order needs groups of equal size. */
typedef enum {
  horingRankMajor = 0, /* by rank */
  horingRailMajor = 1  /* by local index, then by group */
} horingBlockOrder_t;

/* Extension. Writes the number of `rank`'s block in `order`. Groups are numbered by their lowest rank; the local
 * indices in a group follow the ranks or, where ranks are bound to NUMA nodes, the ring that joins them. Any thread,
 * any time. Errors: horingInvalidArgument (a pointer NULL, an unknown order, a rank outside 0 .. n-1),
 * horingInvalidUsage (groups of different sizes; forked child). */
HORING_API horingResult_t horingCommBlock(const horingComm_t comm, horingBlockOrder_t order, int rank,
                                          int* block);

/* Extension. Writes the number of `rank`'s group, and its local index there, numbered as for horingCommBlock;
 * groups may differ in size. Any thread, any time. Errors: horingInvalidArgument (a pointer NULL, a rank
 * outside 0 .. n-1), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingCommGroup(const horingComm_t comm, int rank, int* group, int* localIndex);

/* Extension. Like horingReduceScatter and horingAllGather, with the blocks in `order`, where b(r) is the number of rank
 * r's block: rank k gets block b(k) of the reduction; recvbuff[b(r)*sendcount + i] = sendbuff_r[i]. In place: recvbuff
 * == sendbuff + b(rank)*recvcount; sendbuff == recvbuff + b(rank)*sendcount. All ranks pass the same order. Errors:
 * also as for horingCommBlock. */
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
 * Block r has counts[r] elements, starting at element displs[r] of its buffer; with displs NULL the blocks follow each
 * other. The arrays are copied. A block may be empty, with any displs. Blocks must not overlap in a receive buffer.
 * Errors as for the other collectives; ranks that disagree on the size of a block get horingInvalidUsage, even if one
 * of them considers it empty. */

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
 * One call for many buffers: for each i in 0 .. length-1 like the collective without List on sendbuffs[i], recvbuffs[i]
 * and counts[i], in place or not. Small entries travel together, so that a long list costs about as much as one call
 * with the same bytes; large ones are not copied. On a GPU, kernels treat each entry as a call of its own, up to eight
 * of them in a launch. The arrays are copied; all ranks pass the same length and counts. Entries of count 0 are
 * skipped, and a call with a length of 0 does nothing. No two buffers that are written may overlap. Errors as for the
 * collective, with the number of the entry; horingInvalidArgument (an array NULL).
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

#ifdef __cplusplus
}
#endif

#endif /* HORING_COLLECTIVES_H_ */
