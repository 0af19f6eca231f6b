/* Memory that the other ranks of a node, and RDMA, can reach. A part of horing.h, whose rules hold. */
#ifndef HORING_MEMORY_H_
#define HORING_MEMORY_H_

#include "horing/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Memory that the other ranks of a node can reach ----
 *
 * Ordinary memory works everywhere; memory of horingMemAlloc is faster.
 *
 * All-reduce, reduce-scatter and all-gather read the sendbuff of every rank in place when it lies in such memory on all
 * ranks of a communicator and all of them are on one node (for ranks of horingCommInitAll any memory will do). If, in
 * addition, each rank is a process, all-reduce and all-gather write their results straight into every recvbuff that
 * lies in such memory on all ranks. When such a call fails, ranks that might still write lose access to the whole pages
 * of its recvbuff; the contents stay. From then on the allocation is used as ordinary memory.
 *
 * Over RDMA, messages of 64 KiB and more, also the messages of collectives, are zero-copy: they are sent from memory of
 * horingMemAlloc, or from memory registered with the communicator, and are received into it. Data to be reduced is not
 * received in place, and a reduction in place (recvbuff is sendbuff) neither sends from its input nor receives into it.
 * Over TCP, messages of this size are received straight into any memory. */

/* Writes the address of `size` bytes of zeroed memory, aligned to a page (to 2 MiB if size is 2 MiB or more). Ranks of
 * the same user on this node can read and write the memory without a copy. The memory is allocated and touched at once,
 * in huge pages where the system can provide them, so the call takes time (2 GiB: 0.12 to 1.2 s); each
 * allocation holds one file descriptor. The memory belongs to the process, not to a communicator; release it with
 * horingMemFree. A size of 0 gives NULL. A forked child shares the pages with its parent, as with any shared mapping:
 * the parent sees what the child writes there. The child's own collectives treat the pages as ordinary memory. Any
 * thread. Errors: horingInvalidArgument (ptr NULL, more than the machine has), horingSystemError (no memory, no
 * descriptor). */
HORING_API horingResult_t horingMemAlloc(void** ptr, size_t size);

/* Releases memory of horingMemAlloc; NULL does nothing. No collective may be using the memory. The pages return to the
 * system at once, even if peers have them mapped. Any thread. Errors: horingInvalidArgument (an unknown address, or
 * freed before), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingMemFree(void* ptr);

/* Registers buff for use with comm. *handle is NULL if registration gains nothing: buff is then copied through shared
 * memory, as without registration. *handle is not NULL if all of buff lies in memory from horingMemAlloc, which needs
 * no copy whether registered or not, or if RDMA joins this rank to another rank. RDMA devices register buff for reading
 * and writing at its first use. With RDMA, buff may be GPU memory if the GPU driver exports a dma-buf, or
 * nvidia-peermem is loaded: horingSend and horingRecv of 64 KiB and more then move it without staging in host memory,
 * if the devices accept it. Local, not collective. Release the handle with horingCommDeregister before buff is freed;
 * ending the communicator releases it, too. Any thread. Errors: horingInvalidArgument (a pointer NULL, size 0),
 * horingInvalidUsage (forked child, too many). */
HORING_API horingResult_t horingCommRegister(const horingComm_t comm, void* buff, size_t size, void** handle);

/* Ends a registration; a NULL handle does nothing. The buffer itself is unchanged. Any thread. Errors:
 * horingInvalidArgument (not a live handle of comm), horingInvalidUsage (forked child). */
HORING_API horingResult_t horingCommDeregister(const horingComm_t comm, void* handle);

#ifdef __cplusplus
}
#endif

#endif /* HORING_MEMORY_H_ */
