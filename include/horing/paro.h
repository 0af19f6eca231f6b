/* horing/paro.h: sharded data-parallel training (PaRO, arXiv 2310.06003) on top of horing.h. C99 and C++.
 *
 * Parameters, gradients and optimizer state are each kept whole by every rank (N), sharded among the ranks of a group
 * (I), or sharded among all ranks (G). A strategy names the three in this order: III keeps everything inside a group,
 * so slow links carry gradients once per optimizer step; GGG (ZeRO-3) needs the least memory and moves the most over
 * slow links. The groups are the communicator's groups (nodes, or HORING_GROUP), of any sizes.
 *
 * One optimizer step:
 *
 *   for each micro-step:
 *     horingParoGatherParams(p, bucket) ... GetParam ... horingParoReleaseParams(p, bucket)  forward and back
 *     horingParoOpenGrads(p, bucket)    ... GetGrad  ... horingParoReduceGrads(p, bucket)    back
 *       or, where they are computed in memory of the caller, horingParoReduceGradsOf(p, bucket, ...)
 *   horingParoSyncGrads(p);
 *   for each trainable bucket: horingParoGetShard(p, bucket, &shard), update shard.master from shard.grads
 *   horingParoSyncParams(p);
 *
 * Terms. The *wire type* of an element is the type of its parameter, or gatherType if that is narrower; gradients have the
 * wire type, or float32 where that is 16 bits wide and gradsInFloat32 is set. A *bucket* is a
 * vector of parameters of one type that are moved together, either all trainable or all frozen. *State* is what the
 * optimizer stores for each trainable element: the *master* copy of the parameter and further values (two for Adam), in
 * float32, or in float64 for parameters of float64. Frozen parameters have a master, too, if their wire type is narrower
 * than they are: it keeps their own values.
 *
 * Conventions. Calls return a horingResult_t; horingParoGetLastError has the details. All ranks of the communicator
 * make the same calls in the same order. Calls that move data (Gather, Reduce, Sync) return at once, and calls that
 * need the data wait for it (GetParam, GetShard, and OpenGrads if all gradient buffers are still in use), so an early
 * gather is a prefetch. A horingParo_t is used by one thread at a time. A call out of order is refused with
 * horingInvalidUsage, names the expected call, and changes nothing. An error of the communicator sticks; of the
 * calls that move data or change anything, only horingParoDestroy remains. Every wait has the communicator's timeout, as
 * it is when the call is made (horingCommSetTimeout).
 *
 * Structures with a `size` start with the initialiser of their name; then assign the fields that are to differ. If the
 * program was compiled with the header of an older library, the missing fields count as in the initialiser, and results
 * have the fields that the program knows; if with the header of a newer library, the fields that this library does not
 * know must be 0, and results leave them alone. Another size is refused: horingInvalidArgument.
 */
#ifndef HORING_PARO_H_
#define HORING_PARO_H_

#include "horing/horing.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Strategies: data, not code ---- */

/* How parameters, gradients and optimizer state are kept, in this order: N whole on every rank, I sharded inside
 * each group, G sharded over all ranks. */
typedef enum {
  horingParoAuto =
      -1, /* of the strategies that fit: the fastest by rates that are measured (horingParoMeasure);
                          of those that take at most 2 % longer, the one with the least memory */
  horingParoNNN = 0, /* DDP */
  horingParoNNI = 1,
  horingParoNII = 2,
  horingParoINI = 3,
  horingParoIII = 4, /* MiCS; FSDP's hybrid sharding */
  horingParoNNG = 5, /* ZeRO-1 */
  horingParoNIG = 6,
  horingParoNGG = 7, /* ZeRO-2 */
  horingParoING = 8,
  horingParoIIG = 9,
  horingParoIGG = 10,
  horingParoGNG = 11,
  horingParoGIG = 12,
  horingParoGGG = 13, /* ZeRO-3, FSDP */
  horingParoNumStrategies = 14
} horingParoStrategy_t;

/* The ranks among which something is sharded. */
typedef enum {
  horingParoWhole = 0,   /* N: every rank has all of it */
  horingParoByGroup = 1, /* I: among the ranks of each group */
  horingParoByAll = 2    /* G: among all ranks */
} horingParoPartition_t;

/* A row of the table of strategies. Static, read only. */
typedef struct {
  const char* name;  /* "IIG" */
  const char* alias; /* "ZeRO-1", or "" */
  horingParoPartition_t params, grads, state;
} horingParoStrategyInfo_t;

/* Writes the row of a strategy, which is static. Any thread. Errors: horingInvalidArgument (NULL, not one of
 * the 14). */
HORING_API horingResult_t horingParoGetStrategy(horingParoStrategy_t strategy,
                                                const horingParoStrategyInfo_t** info);

/* Writes the strategy with that name or alias, in any case ("iig", "zero-3", "auto"). Any thread. Errors:
 * horingInvalidArgument (NULL, no such name: the text lists all). */
HORING_API horingResult_t horingParoFindStrategy(const char* name, horingParoStrategy_t* strategy);

/* ---- The cost of a strategy ---- */

/* A model on a machine. Start with HORING_PARO_MODEL_INITIALIZER: zeros. */
typedef struct {
  size_t size; /* from the initialiser */
  int groups, ranksPerGroup;
  uint64_t params;    /* elements */
  uint64_t trainable; /* elements, of these */
  int microSteps;     /* gradient accumulations per optimizer step, 1 to 2^20 */
  int wireBytes;      /* of one element of a parameter */
  int stateBytes;     /* of one element's state that is not stored as its parameter: 12 for Adam with a 16-bit
                         wire type; 8 with float32 and 16 with float64, where the parameter is the master */
  int gradBytes;      /* of one element of a gradient; 0: wireBytes */
  /* Of groups of different sizes: the ranks of each, in place of ranksPerGroup; the caller's. Else NULL. */
  const int* groupSizes;
  int group, localIndex; /* with groupSizes: the rank that is meant, as horingCommGroup numbers it */
  int isBucket; /* 1: all of it is one bucket of horingParoCreate, and all or nothing of it trainable: rounded up and cut
                   as there, with stateBytes also of what is frozen, so that memory is exact; at most 65535 ranks.
                   0: as the formulas say */
  int reserved; /* 0 */
} horingParoModel_t;
/* clang-format off */
#define HORING_PARO_MODEL_INITIALIZER { sizeof(horingParoModel_t), 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0 }
/* clang-format on */

/* The phase in which a collective of a strategy runs. */
typedef enum {
  horingParoPhaseGather = 0,     /* horingParoGatherParams, twice per micro-step */
  horingParoPhaseReduce = 1,     /* horingParoReduceGrads, once per micro-step */
  horingParoPhaseSyncGrads = 2,  /* once per optimizer step */
  horingParoPhaseSyncParams = 3, /* once per optimizer step */
  horingParoNumPhases = 4
} horingParoPhase_t;

/* The kinds of collectives of a strategy. */
typedef enum {
  horingParoAllGather = 0,
  horingParoReduceScatter = 1,
  horingParoAllReduce = 2
} horingParoCollective_t;

/* The ranks among which a collective runs. */
typedef enum {
  horingParoGroup = 0, /* the ranks of one group: fast links only */
  /* The ranks with one local index, one of each group: slow links only. Where groups differ in size, the ranks of other
   * groups whose parts overlap this rank's. */
  horingParoRail = 1,
  horingParoGlobal = 2 /* all ranks, by HO-Ring */
} horingParoScope_t;

/* A collective that a strategy needs. */
typedef struct {
  horingParoPhase_t phase;
  horingParoCollective_t collective;
  horingParoScope_t scope;
  int times; /* per optimizer step */
  /* Of the whole vector, the longest one: reduced, received (all-gather) or sent (reduce-scatter). */
  uint64_t bytes;
  uint64_t slowBytes, /* that the rank sends between groups in one collective of this kind */
      fastBytes;      /* ... and inside its group */
} horingParoOperation_t;

/* The largest number of operations of any strategy. */
#define HORING_PARO_MAX_OPERATIONS 5

/* The cost of a strategy for one rank. Start with HORING_PARO_ESTIMATE_INITIALIZER. */
typedef struct {
  size_t size;                 /* from the initialiser */
  uint64_t memoryBytes;        /* of parameters, gradients and state kept by the rank */
  uint64_t largestMemoryBytes; /* ... by the rank that keeps the most: the same where groups have one size */
  uint64_t slowBytes,          /* that the rank sends between groups per optimizer step */
      fastBytes;               /* ... and inside its group */
  int numOperations;
  horingParoOperation_t operations[HORING_PARO_MAX_OPERATIONS]; /* in the order in which they run */
} horingParoEstimate_t;
/* clang-format off */
#define HORING_PARO_ESTIMATE_INITIALIZER \
  { sizeof(horingParoEstimate_t), 0, 0, 0, 0, 0, {{horingParoPhaseGather, horingParoAllGather, horingParoGroup, 0, 0, 0, 0}} }
/* clang-format on */

/* Writes the cost of a strategy: memory = wireBytes * params / d(p) + gradBytes * trainable / d(g) +
 * stateBytes * trainable / d(os), where d is 1 for N, the ranks of the group for I, and the number of ranks for G; the
 * link of a node carries the sum of its ranks' slowBytes. In groups of different sizes a strategy with both I and G may
 * give a rank more or less than that of what is G, but never more than its share of its group. Padding, and masters of
 * frozen parameters, are included with isBucket only: what a client keeps is the sum over its buckets. Memory for gathered
 * parameters in use (as many buckets as are gathered at once) and for gradient buffers is not included. Any thread.
 * Errors:
 * horingInvalidArgument (a pointer NULL, not one of the 14, a number out of range). */
HORING_API horingResult_t horingParoGetEstimate(horingParoStrategy_t strategy, const horingParoModel_t* model,
                                                horingParoEstimate_t* estimate);

/* The time of a collective: latencySeconds + secondsPerByte * bytes, where bytes are as in horingParoOperation_t. */
typedef struct {
  double latencySeconds, secondsPerByte;
} horingParoRate_t;

/* Of a machine. */
typedef struct {
  horingParoRate_t of[3][3]; /* by horingParoCollective_t and horingParoScope_t */
} horingParoRates_t;

/* Measures the rates, on vectors of float32 of 4 KiB and of `bytes`, at most 4 MiB, the same on all ranks: the median
 * of three or more runs. Takes 4 s on 2 nodes with links of 100 Mbit/s. Collective; makes up to two communicators and
 * destroys them. All ranks get the same. Errors: horingInvalidArgument (NULL), and those of collectives. */
HORING_API horingResult_t horingParoMeasure(horingComm_t comm, size_t bytes, horingParoRates_t* rates);

/* Writes the time that the collectives of an estimate take one after the other, each of them on `vectors` vectors of
 * equal length, such as buckets. Any thread. Errors: horingInvalidArgument (NULL, a number out of range). */
HORING_API horingResult_t horingParoGetSeconds(const horingParoEstimate_t* estimate, int vectors,
                                               const horingParoRates_t* rates, double* seconds);

/* ---- The client ---- */

/* One rank's part of a sharded model. */
typedef struct horingParo* horingParo_t;

/* A parameter, such as a tensor. */
typedef struct {
  size_t count;          /* elements; may be 0 */
  horingDataType_t type; /* horingFloat16, horingBfloat16, horingFloat32 or horingFloat64 */
  int trainable;         /* 0: frozen, with neither gradient nor state */
} horingParoParam_t;

/* Where a client keeps everything. Start with HORING_PARO_MEMORY_INITIALIZER: memory of the host, from the library.
 *
 * On a GPU, `stream` takes the place of the calling thread. Work on the data (conversions, sums, copies) is enqueued on it, and
 * calls that wait (GetParam, GetShard, OpenGrads, ...) return at once and let the stream wait: what the program enqueues there
 * afterwards, such as kernels that compute with the parameters, finds the data. So the program enqueues everything that
 * touches the client's memory on this stream, and gives gradients (horingParoReduceGradsOf) in memory of the GPU. Collectives
 * run on two further streams of the client. Only creation, horingParoSetParam from host memory, horingParoGetGradNorm,
 * checkpoints and horingParoDestroy wait on the host, and calls that allocate or free memory: horingParoGatherParams if more
 * buckets are gathered at once than ever before, horingParoOpenGrads if as many more are open and gradients are whole,
 * horingParoGatherMasters, and horingParoReleaseParams after it. These wait until all ranks are in the call and nothing of
 * their clients is under way, since a driver may let them wait for kernels; if one rank has no memory, all get its error. All
 * other memory stays until the client is destroyed. So that no communicator allocates later, creation lets each add up a
 * number. An error of a collective comes out of a later call, and one of the GPU sticks, too. While the
 * stream records a graph, calls are refused with horingInvalidUsage and change nothing. Needs a library with kernels.
 * Beside what horingParoGetUsage counts, 262,144 bytes are for partial sums of the gradient norm.
 * (GPUs: run on an emulated driver only, and compiled; not on a GPU yet.) */
typedef struct {
  size_t size; /* from the initialiser */
  int onGpu;   /* 1: on the GPU of `stream`; 0: on the host */
  /* A cudaStream_t, which must outlive the client, but not cudaStreamPerThread; NULL: the default stream of the current
   * GPU. */
  void* stream;
  /* Memory of the caller in place of the library's, both or neither NULL. `allocate` gives `bytes` bytes, aligned to 64, of
   * the host or of that GPU, or NULL if there are none; the client writes zeros there. `release` gets them back when no
   * work uses them any more. Called by the thread that calls the client; with `context`, and for all memory but copies that
   * are saved, which are the host's. */
  void* (*allocate)(size_t bytes, void* context);
  void (*release)(void* memory, size_t bytes, void* context);
  void* context;
} horingParoMemory_t;
/* clang-format off */
#define HORING_PARO_MEMORY_INITIALIZER { sizeof(horingParoMemory_t), 0, NULL, NULL, NULL, NULL }
/* clang-format on */

/* The settings of a client. Start with HORING_PARO_CONFIG_INITIALIZER. */
typedef struct {
  size_t size;                   /* from the initialiser */
  horingParoStrategy_t strategy; /* horingParoAuto unless assigned */
  uint64_t memoryLimit; /* bytes of horingParoEstimate_t.memoryBytes that every rank has; 0: no limit */
  size_t bucketBytes; /* of wire type at which a bucket is full; 0: 32 MiB. A longer parameter has its own */
  int average;        /* 1: gradients are averaged over ranks, each scaled before it is sent; 0: summed */
  int stateValues;    /* per trainable element besides the master: 0 to HORING_PARO_MAX_STATE, 2 for Adam */
  int microSteps;     /* expected, 1 to 2^20; used only by horingParoAuto, for the time */
  const int* units;   /* a number for each parameter: parameters of different units, such as the layers of a
                         model, share no bucket. NULL: all are of one unit */
  int gradsInFloat32; /* 1: gradients of 16-bit parameters are float32 from horingParoGetGrad on: reduced, added up over
                         micro-steps and given to the optimizer in it, at twice the bytes */
  const char* const*
      names; /* a name for each parameter, which errors say beside its number: UTF-8 of 1 to 1024 bytes
                               without control characters, each different. NULL: no names */
  int gatherType; /* horingBfloat16, horingFloat16 or horingFloat32: parameters of wider types are gathered in it, and
                     their gradients have it, while masters keep the parameters' own type; checkpoints do not depend on
                     it. 0: every parameter is gathered in its own type */
  int gradBuffers; /* of the longest bucket each, for gradients on their way: 2 to HORING_PARO_MAX_GRAD_BUFFERS, or 0 for 2.
                      More let the backward pass go on where a long bucket is reduced before several short ones */
  const horingParoMemory_t*
      memory; /* NULL: memory of the host, from the library. onGpu must be the same on all ranks */
} horingParoConfig_t;
#define HORING_PARO_MAX_STATE 4
#define HORING_PARO_MAX_GRAD_BUFFERS 64
/* clang-format off */
#define HORING_PARO_CONFIG_INITIALIZER { sizeof(horingParoConfig_t), horingParoAuto, 0, 0, 1, 2, 1, NULL, 0, NULL, 0, 0, NULL }
/* clang-format on */

/* Makes this rank's part of a model of numParams parameters, all 0. Collective over comm, which must outlive *paro;
 * comm may be used for other calls while no call on *paro is running. Makes up to two communicators from comm. config
 * NULL: the initialiser. The arrays may be freed afterwards. If one rank gets an error, all do. Errors:
 * horingInvalidArgument (NULL, a type or number that is not allowed, an unknown strategy, a strategy that does not fit:
 * the text says by how much),
 * horingInvalidUsage (ranks that disagree: the text says which, and on what), horingSystemError (no memory: what it was for),
 * horingUnhandledCudaError (onGpu, and there is no driver, or no kernel), and as for horingCommSplit. */
HORING_API horingResult_t horingParoCreate(horingParo_t* paro, horingComm_t comm,
                                           const horingParoConfig_t* config, const horingParoParam_t* params,
                                           size_t numParams);

/* Waits for operations in progress, a save too, and releases everything except comm. Errors: horingInvalidArgument (NULL),
 * horingInvalidUsage (memory.stream records a graph: nothing is released). */
HORING_API horingResult_t horingParoDestroy(horingParo_t paro);

/* The text of the calling thread's latest failed call of this header; "" if there was none. Never NULL; owned
 * by the library, valid until the thread's next call. Any thread. */
HORING_API const char* horingParoGetLastError(void);

/* ---- Querying. Errors: horingInvalidArgument (a pointer NULL, no such parameter or bucket). ---- */

/* The strategy, shape and sizes of a client. Start with HORING_PARO_INFO_INITIALIZER. */
typedef struct {
  size_t size;                   /* from the initialiser */
  horingParoStrategy_t strategy; /* never horingParoAuto */
  int groups, ranksPerGroup;     /* ranksPerGroup is 0 where groups differ in size */
  int numBuckets;
  uint64_t params, trainable; /* elements */
  /* Of parameters, gradients and state: of this rank, and of the rank that keeps the most. Each bucket is rounded up to
   * a multiple of 16 bytes of its wire type for each rank. */
  uint64_t memoryBytes, largestMemoryBytes;
} horingParoInfo_t;
/* clang-format off */
#define HORING_PARO_INFO_INITIALIZER { sizeof(horingParoInfo_t), horingParoNNN, 0, 0, 0, 0, 0, 0, 0 }
/* clang-format on */

/* Writes the strategy, shape and sizes of the client. */
HORING_API horingResult_t horingParoGetInfo(horingParo_t paro, horingParoInfo_t* info);

/* The place of a parameter. A bucket takes parameters of one kind and unit, in the order of the parameters. */
typedef struct {
  int bucket;
  size_t offset; /* elements */
  size_t count;
} horingParoPlace_t;

/* Writes the place of parameter number `param`. */
HORING_API horingResult_t horingParoGetPlace(horingParo_t paro, size_t param, horingParoPlace_t* place);

/* The parameters of a bucket. */
typedef struct {
  horingDataType_t type; /* the wire type: of horingParoGetParam */
  int trainable;
  size_t count;                /* elements */
  horingDataType_t gradType;   /* of horingParoGetGrad; without a meaning where frozen */
  horingDataType_t masterType; /* of horingParoGetParam after horingParoGatherMasters */
} horingParoBucket_t;

/* Writes what bucket number `bucket` holds. */
HORING_API horingResult_t horingParoGetBucket(horingParo_t paro, int bucket, horingParoBucket_t* info);

/* Usage of this client alone. Memory is counted as it is allocated, without the memory of communicators. Bytes sent are
 * counted for each collective as HO-Ring moves them. Start with HORING_PARO_USAGE_INITIALIZER. */
typedef struct {
  size_t size; /* from the initialiser */
  /* Parameters, gradients and state kept; each bucket rounded up to whole shards. */
  uint64_t stateBytes;
  /* The buffers of horingParoOpenGrads, also used by horingParoSyncGrads: gradBuffers; where gradients are whole, as many as
   * were opened at once. */
  uint64_t gradBufferBytes;
  /* Held for gathered parameters: as many buckets as were gathered at once; on a GPU each of the longest's size. */
  uint64_t gatheredBytes;
  /* Sent between groups, and inside the group, so far. */
  uint64_t slowBytes, fastBytes;
  /* Copies for horingParoStartSave: this rank's share of parameters and state among all ranks. */
  uint64_t snapshotBytes;
} horingParoUsage_t;
/* clang-format off */
#define HORING_PARO_USAGE_INITIALIZER { sizeof(horingParoUsage_t), 0, 0, 0, 0, 0, 0 }
/* clang-format on */

/* Writes what the client has used until now. */
HORING_API horingResult_t horingParoGetUsage(horingParo_t paro, horingParoUsage_t* usage);

/* ---- Parameters ---- */

/* Sets a parameter (and its master) to `values`: `count` elements, which must be all of the parameter, of its
 * own type or float32. All ranks must pass the same values. The buffer remains the caller's, and has been
 * read on return; in memory of the client's GPU when its stream gets there. Not allowed between horingParoOpenGrads and
 * horingParoSyncParams, nor while the parameter's bucket is gathered. Errors: horingInvalidArgument (NULL, no such
 * parameter, another count or type, memory of another GPU), horingInvalidUsage (at another time). */
HORING_API horingResult_t horingParoSetParam(horingParo_t paro, size_t param, const void* values,
                                             size_t count, horingDataType_t type);

/* Starts to gather the parameters of a bucket from the ranks that store them. Errors: horingInvalidArgument
 * (no such bucket), horingInvalidUsage (gathered already; between horingParoSyncGrads and
 * horingParoSyncParams), horingSystemError (no memory), and as for collectives. */
HORING_API horingResult_t horingParoGatherParams(horingParo_t paro, int bucket);

/* As horingParoGatherParams, in the masters' type and from the masters, which are sent to all ranks: exact values, for reading
 * and not for every micro-step; horingParoReleaseParams frees their memory. Frozen parameters that have no master are
 * gathered as they are. */
HORING_API horingResult_t horingParoGatherMasters(horingParo_t paro, int bucket);

/* Waits for the bucket if necessary and writes the address of the parameter's elements, in the wire type, or the masters'
 * if horingParoGatherMasters gathered them: read only, valid until horingParoReleaseParams. Errors: horingInvalidUsage (its
 * bucket is not gathered), and those of collectives. */
HORING_API horingResult_t horingParoGetParam(horingParo_t paro, size_t param, const void** values);

/* Releases the gathered bucket. Errors: horingInvalidUsage (not gathered). */
HORING_API horingResult_t horingParoReleaseParams(horingParo_t paro, int bucket);

/* ---- Gradients ---- */

/* Opens a buffer, all 0, for the gradients of a trainable bucket in one micro-step. There are gradBuffers of them; if all are
 * in use, waits for the earliest reduction. Errors: horingInvalidUsage (open already, or as many others are open;
 * frozen; between horingParoSyncGrads and horingParoSyncParams), horingSystemError (no memory, where gradients are whole),
 * and as for collectives. */
HORING_API horingResult_t horingParoOpenGrads(horingParo_t paro, int bucket);

/* Writes the address of the buffer for the parameter's gradient, of the bucket's gradType; valid until
 * horingParoReduceGrads. Errors: horingInvalidUsage (not open). */
HORING_API horingResult_t horingParoGetGrad(horingParo_t paro, size_t param, void** values);

/* Takes the open gradients, reduces them among the ranks that shard them, and adds them to the gradients of earlier
 * micro-steps. The sum over micro-steps is never averaged. Errors: horingInvalidUsage (not open), and those of
 * collectives. */
HORING_API horingResult_t horingParoReduceGrads(horingParo_t paro, int bucket);

/* As horingParoOpenGrads, a copy of these gradients, and horingParoReduceGrads, with fewer passes over memory: gradients
 * that each rank keeps whole are added up from where they are. `grads[i]` are those of the bucket's i-th parameter, in the
 * order of the parameters: all of its elements, of the bucket's gradType, not in memory of this client; NULL: zeros. They
 * have been read on return; in memory of a GPU when the stream gets there. Errors: horingInvalidArgument (NULL, not memory of
 * the GPU, a `numGrads` other than the number of the bucket's parameters), and those of the two calls. */
HORING_API horingResult_t horingParoReduceGradsOf(horingParo_t paro, int bucket, const void* const* grads,
                                                  size_t numGrads);

/* Discards the open gradients, as if they had never been opened: nothing is reduced. All ranks call it, or
 * none. Errors: horingInvalidUsage (not open). */
HORING_API horingResult_t horingParoDiscardGrads(horingParo_t paro, int bucket);

/* Ends the micro-steps: starts to reduce the gradients of every trainable bucket to the optimizer's shards. In groups of
 * different sizes a strategy with an I adds up here what comes from other groups: the call returns when that is done.
 * Errors: horingInvalidUsage (a bucket is open, or was reduced more often than another, or never), and as
 * for collectives. */
HORING_API horingResult_t horingParoSyncGrads(horingParo_t paro);

/* Writes the 2-norm of the whole model's gradient, computed in float64, and sets *overflow to 1 if an element
 * is infinite or NaN (the norm then is, too), else to 0. Either pointer may be NULL. Collective; called after
 * horingParoSyncGrads, for which it waits, and before horingParoSyncParams. On a GPU squares are added up in another order
 * than on the host, the same on every GPU. Errors: horingInvalidUsage (at another time), and as for collectives. */
HORING_API horingResult_t horingParoGetGradNorm(horingParo_t paro, double* norm, int* overflow);

/* ---- The optimizer ---- */

/* Elements `first` to `first + count` of a bucket, which this rank updates. count may be 0; else `first` is a multiple of 16
 * bytes of the bucket's wire type, and so of gradients and state. All addresses are aligned to 16 bytes, so that vectors can be
 * read from the first element on; those of state, and of masters whose type is not the wire type, to 64. Start with
 * HORING_PARO_SHARD_INITIALIZER. */
typedef struct {
  size_t size; /* from the initialiser */
  size_t first, count;
  horingDataType_t gradType; /* the bucket's */
  void* grads;               /* reduced over ranks and micro-steps */
  horingDataType_t stateType;
  void* master; /* the parameters; where wire type and state type are the same, their only copy here */
  void* state[HORING_PARO_MAX_STATE]; /* the optimizer's own values, initially 0; NULL beyond stateValues */
} horingParoShard_t;
/* clang-format off */
#define HORING_PARO_SHARD_INITIALIZER { sizeof(horingParoShard_t), 0, 0, horingFloat32, NULL, horingFloat32, NULL, {NULL} }
/* clang-format on */

/* Waits for the bucket's gradients and writes the shard, valid until horingParoSyncParams. Errors:
 * horingInvalidUsage (frozen; not between horingParoSyncGrads and horingParoSyncParams), and those of
 * collectives. */
HORING_API horingResult_t horingParoGetShard(horingParo_t paro, int bucket, horingParoShard_t* shard);

/* Writes the shard without its gradients (`grads` is NULL), at any time; waits while its parameters move. The addresses
 * of master and state are the same as in horingParoGetShard and never change. master and state may be changed only
 * between horingParoSyncGrads and horingParoSyncParams. Errors: horingInvalidUsage (frozen), and as for collectives. */
HORING_API horingResult_t horingParoGetMaster(horingParo_t paro, int bucket, horingParoShard_t* shard);

/* Ends the optimizer step: rounds the masters to the wire type (to nearest, ties to even), starts to bring
 * them to the ranks that store the parameters, and drops the gradients. A step that is skipped (overflow)
 * calls it, too. Errors: horingInvalidUsage (before horingParoSyncGrads; a bucket is gathered), and those of
 * collectives. */
HORING_API horingResult_t horingParoSyncParams(horingParo_t paro);

/* ---- Checkpoints ---- */

/* Checks in advance that horingParoSave can write into a folder: creates it if necessary, lets each rank
 * write a file there that rank 0 must see, and removes the files. Does not check for space. Collective.
 * Errors: horingInvalidUsage (a save is under way), and as for horingParoSave. */
HORING_API horingResult_t horingParoCheckFolder(horingParo_t paro, const char* folder);

/* Saves parameters and state in a folder that all ranks see, created if necessary, together with `step`, a
 * number chosen by the caller. Collective, between optimizer steps, with nothing gathered. The folder keeps
 * the previous checkpoint until the new one is complete and on disk, whichever rank dies meanwhile; then the
 * previous one is removed. Errors: horingInvalidUsage (within a step; a folder in which rank 0 does not see
 * the files of other ranks), horingSystemError (no space, no permission: the rank and the file are named on
 * all ranks), and as for collectives. */
HORING_API horingResult_t horingParoSave(horingParo_t paro, const char* folder, uint64_t step);

/* As horingParoSave, on a thread: returns when parameters and state are copied, and training may go on. Until
 * horingParoWaitSave no other checkpoint is saved or loaded. Collective; the first makes a communicator of all ranks.
 * Errors: horingInvalidUsage (within a step, or a save is under way), horingSystemError (no memory), and those of
 * collectives. */
HORING_API horingResult_t horingParoStartSave(horingParo_t paro, const char* folder, uint64_t step);

/* Waits for horingParoStartSave and returns its result, the same on all ranks that live; success if there was none.
 * Only after success the checkpoint is complete. At any time; not collective. Errors: as for horingParoSave. */
HORING_API horingResult_t horingParoWaitSave(horingParo_t paro);

/* Loads a checkpoint of horingParoSave, saved by any strategy on any number of ranks, of a model with the
 * same parameters and stateValues; writes its step, unless step is NULL. Collective, between optimizer steps,
 * with nothing gathered. Each rank reads an equal share; data that several ranks keep is sent to them.
 * Everything is verified by checksums before anything is changed. Errors: horingInvalidUsage (within a step;
 * ranks that see different checkpoints), horingInvalidArgument (truncated or damaged: which file and where;
 * another model: the first difference), horingSystemError (a file that cannot be read), and those of
 * collectives. If a file becomes unreadable after it was verified, half a checkpoint is loaded; that error
 * sticks. */
HORING_API horingResult_t horingParoLoad(horingParo_t paro, const char* folder, uint64_t* step);

/* As horingParoLoad, of the parameters that have the same names (config.names, when the checkpoint was saved, too), in any
 * order and of any types: elements are converted, to nearest. A parameter may be trainable here and frozen there; state that
 * the checkpoint lacks for it becomes 0. `strict`: 1: every parameter of either side is one of the other; 0: those that the
 * checkpoint lacks keep their values and state, and others that it has are left out. `loaded`, unless NULL: as many numbers
 * as there are parameters; a 1 is written for each that was loaded, a 0 for each other. Errors: as for horingParoLoad, but
 * the order, types and state may differ, and horingInvalidUsage (this client has no names), horingInvalidArgument (the
 * checkpoint has no names; a parameter with another number of elements; with `strict`, one that a side lacks: all by name). */
HORING_API horingResult_t horingParoLoadByName(horingParo_t paro, const char* folder, int strict, int* loaded,
                                               uint64_t* step);

/* Copies `count` elements from one floating-point type to another (to nearest, ties to even), such as
 * half-precision gradients to float32. Any thread. Errors: horingInvalidArgument (a pointer NULL with count >
 * 0, a type that parameters cannot have). */
HORING_API horingResult_t horingParoConvert(const void* from, horingDataType_t fromType, void* to,
                                            horingDataType_t toType, size_t count);

#ifdef __cplusplus
}
#endif

#endif /* HORING_PARO_H_ */
