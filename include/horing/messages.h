/* Messages between two ranks. A part of horing.h, whose rules hold. */
#ifndef HORING_MESSAGES_H_
#define HORING_MESSAGES_H_

#include "horing/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Messages between two ranks ----
 *
 * The first send from a to b matches the first receive of b from a, the second the second, and so on; the two must
 * agree on the number of bytes. On GPUs, collectives must fall between the messages of two ranks at the same place at
 * both; 192 messages of one group progress at once; in a larger group only the first few messages of each pair of ranks
 * do. A rank may send messages to itself inside a group. Errors: horingInvalidArgument (comm NULL, a peer outside 0 ..
 * n-1, a buffer NULL with count > 0, an unknown type), horingInvalidUsage (sizes that differ; a message to the caller's
 * own rank without its counterpart in the same group), and as for collectives. */

/* Sends `count` elements to `peer`. Complete when sendbuff may be reused, which may need the peer's receive:
 * ranks that send to each other do so in a group. */
HORING_API horingResult_t horingSend(const void* sendbuff, size_t count, horingDataType_t datatype, int peer,
                                     horingComm_t comm, horingStream_t stream);

/* Receives `count` elements from `peer`. */
HORING_API horingResult_t horingRecv(void* recvbuff, size_t count, horingDataType_t datatype, int peer,
                                     horingComm_t comm, horingStream_t stream);

/* ---- Messages with tags. Extension. ----
 *
 * A receive names a tag and a rank, or any rank. A message goes to the first receive issued that names its tag and its
 * sender; messages from one rank to another with the same tag do not overtake each other. Both ends agree on the number
 * of bytes. An unexpected message, for which no receive is posted yet, is kept by the receiver, up to 64 MiB in all. A
 * message that does not fit waits at the sender, and so do the messages behind it.
 *
 * Messages with tags progress concurrently with each other and with other operations of the communicator, and each
 * completes by itself: only streams order them. Messages on different streams do not wait for each other, nor do
 * collectives on another stream wait for them. With stream NULL the call returns when its own message is complete. The
 * deadline holds for each message. A deadlock among messages on streams is not reported before the deadline, since the
 * program may still issue more messages.
 *
 * A receive from any rank fails once another rank has ended the communicator. Buffers are in host memory;
 * horingStreamWaitOnGpu lets a stream of CUDA wait for a message. A rank sends no message with a tag to itself.
 * Messages with a tag never match receives without one, and the other way round. Errors: as for horingSend and
 * horingRecv, and horingInvalidUsage (buffers on a GPU). */

/* In place of a peer: any rank. */
#define HORING_ANY_RANK (-1)

/* Sends `count` elements to `peer`. Complete when sendbuff may be reused. */
HORING_API horingResult_t horingSendTagged(const void* sendbuff, size_t count, horingDataType_t datatype,
                                           int peer, uint64_t tag, horingComm_t comm, horingStream_t stream);

/* Receives `count` elements from `peer`, or HORING_ANY_RANK. If source is not NULL, *source is the rank of the sender
 * once the operation is complete. */
HORING_API horingResult_t horingRecvTagged(void* recvbuff, size_t count, horingDataType_t datatype, int peer,
                                           uint64_t tag, int* source, horingComm_t comm,
                                           horingStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* HORING_MESSAGES_H_ */
