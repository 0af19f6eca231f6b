/* horing/paro.h: sharded data-parallel training (PaRO, arXiv 2310.06003) on top of horing.h. C99 and C++.
 *
 * Parameters, gradients and optimizer state are each kept whole by every rank (N), shared out among the ranks of a
 * group (I), or shared out among all ranks (G). A strategy names the three in this order: III keeps everything
 * inside a group, so slow links carry gradients once per optimizer step; GGG (ZeRO-3) has the least memory and the
 * most slow traffic. Groups are those of the communicator (nodes, or HORING_GROUP).
 *
 * One optimizer step:
 *
 *   for each micro-step:
 *     horingParoGatherParams(p, bucket) ... horingParoGetParam ... horingParoReleaseParams(p, bucket)  forward and backward
 *     horingParoOpenGrads(p, bucket)    ... horingParoGetGrad ... horingParoReduceGrads(p, bucket)    backward
 *   horingParoSyncGrads(p);
 *   for each trainable bucket: horingParoGetShard(p, bucket, &shard), update shard.master from shard.grads
 *   horingParoSyncParams(p);
 *
 * Words. An element's *wire type* is the type of its parameter, which gradients have too. A *bucket* is a vector of
 * parameters of one type that are moved together, all of them trainable or all frozen. *State* is what the optimizer
 * keeps of each trainable element: the *master* copy of the parameter and a number of further values (two for Adam),
 * float32, or float64 where that is the wire type.
 *
 * Conventions. Calls return a horingResult_t; horingParoGetLastError has the full story. All ranks of the
 * communicator make the same calls in the same order. Calls that move data (Gather, Reduce, Sync) return at once,
 * and what needs the data waits for it (GetParam, GetShard, and OpenGrads if both gradient buffers are still under
 * way): so a gather that is called early is a prefetch. An horingParo_t is used by one thread at a time. A call out
 * of order is refused with horingInvalidUsage, names the call that was expected, and changes nothing. An error of
 * the communicator sticks: what is left is horingParoDestroy. /
 */
#ifndef HORING_PARO_H_
#define HORING_PARO_H_

#include "horing/horing.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Strategies: data, not code ---- */

typedef enum {
  horingParoAuto =
      -1, /* of those that fit the memory limit: the fewest slow bytes, then the fewest fast ones, then the least memory */
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

/* Among whom something is shared out. */
typedef enum {
  horingParoWhole = 0,   /* N: every rank has all of it */
  horingParoByGroup = 1, /* I: among the ranks of a group */
  horingParoByAll = 2    /* G: among all ranks */
} horingParoPartition_t;

/* A row of the table of strategies. */
typedef struct {
  const char* name;  /* "IIG" */
  const char* alias; /* "ZeRO-1", or "" */
  horingParoPartition_t params, grads, state;
} horingParoStrategyInfo_t;

/* Writes the row of a strategy. Static. Any thread. Errors: horingInvalidArgument (NULL, not one of the 14). */
HORING_API horingResult_t horingParoGetStrategy(horingParoStrategy_t strategy,
                                                const horingParoStrategyInfo_t** info);

/* Writes the strategy of that name or alias, in any case ("iig", "zero-3", "auto"). Any thread. Errors:
 * horingInvalidArgument (NULL, no such name: all are listed). */
HORING_API horingResult_t horingParoFindStrategy(const char* name, horingParoStrategy_t* strategy);

/* ---- What a strategy costs ---- */

/* A model on a machine. */
typedef struct {
  int groups, ranksPerGroup;
  uint64_t params;    /* elements */
  uint64_t trainable; /* elements of these */
  int microSteps;     /* gradient accumulations per optimizer step, 1 to 2^20 */
  int wireBytes;      /* of one element of parameter or gradient */
  int stateBytes; /* of one element's state that is not stored as its parameter: 12 for Adam with a 16-bit wire type. With
                         float32 and float64 the stored parameter is the master: 8, 16 */
} horingParoModel_t;

typedef enum {
  horingParoPhaseGather = 0,     /* horingParoGatherParams, twice in each micro-step */
  horingParoPhaseReduce = 1,     /* horingParoReduceGrads, in each micro-step */
  horingParoPhaseSyncGrads = 2,  /* once */
  horingParoPhaseSyncParams = 3, /* once */
  horingParoNumPhases = 4
} horingParoPhase_t;

typedef enum {
  horingParoAllGather = 0,
  horingParoReduceScatter = 1,
  horingParoAllReduce = 2
} horingParoCollective_t;

typedef enum {
  horingParoGroup = 0, /* the ranks of one group: fast links only */
  horingParoRail = 1,  /* the ranks of one local index, one of each group: slow links only */
  horingParoGlobal = 2 /* all ranks, by HO-Ring */
} horingParoScope_t;

/* A collective that a strategy needs. */
typedef struct {
  horingParoPhase_t phase;
  horingParoCollective_t collective;
  horingParoScope_t scope;
  int times; /* per optimizer step */
  uint64_t
      bytes; /* of the whole vector: what all-reduce reduces, all-gather receives, reduce-scatter sends */
  uint64_t slowBytes,
      fastBytes; /* that each rank sends between groups, and inside its group, in one such collective */
} horingParoOperation_t;

#define HORING_PARO_MAX_OPERATIONS 5

typedef struct {
  uint64_t memoryBytes; /* of parameters, gradients and state that each rank keeps */
  uint64_t slowBytes,
      fastBytes; /* that each rank sends between groups, and inside its group, per optimizer step */
  int numOperations;
  horingParoOperation_t
      operations[HORING_PARO_MAX_OPERATIONS]; /* by phase, and in the order in which they run */
} horingParoEstimate_t;

/* Writes what a strategy costs: memory = wireBytes * params / d(p) + wireBytes * trainable / d(g) + stateBytes *
 * trainable / d(os), where d is 1 for N, ranksPerGroup for I, and the number of ranks for G; a node's link carries
 * ranksPerGroup * slowBytes each way. Without memory for the gathered parameters in use (as many buckets as are
 * gathered at once) and two gradient buckets. Any thread. Errors: horingInvalidArgument (a pointer NULL, not one of
 * the 14, a number out of range). */
HORING_API horingResult_t horingParoGetEstimate(horingParoStrategy_t strategy, const horingParoModel_t* model,
                                                horingParoEstimate_t* estimate);

/* ---- The client ---- */

/* One rank's part of a sharded model. */
typedef struct horingParo* horingParo_t;

/* A parameter: a tensor, say. */
typedef struct {
  size_t count;          /* elements; may be 0 */
  horingDataType_t type; /* horingFloat16, horingBfloat16, horingFloat32 or horingFloat64 */
  int trainable;         /* 0: frozen, without gradient and state */
} horingParoParam_t;

/* Begin with HORING_PARO_CONFIG_INITIALIZER, then assign what shall differ. */
typedef struct {
  size_t size;                   /* of the initialiser; another one is refused */
  horingParoStrategy_t strategy; /* horingParoAuto unless assigned */
  uint64_t memoryLimit;          /* bytes of horingParoEstimate_t.memoryBytes that a rank has; 0: no limit */
  size_t
      bucketBytes; /* of wire type after which a bucket is full, 0: 32 MiB. A longer parameter has one of its own */
  int average;     /* 1: gradients are averaged over ranks, each scaled before it is sent; 0: summed */
  int stateValues; /* per trainable element besides the master: 0 to HORING_PARO_MAX_STATE, 2 for Adam */
  int microSteps;  /* expected, 1 to 2^20: weighs the traffic when horingParoAuto chooses, and nothing else */
} horingParoConfig_t;

#define HORING_PARO_MAX_STATE 4
/* clang-format off */
#define HORING_PARO_CONFIG_INITIALIZER { sizeof(horingParoConfig_t), horingParoAuto, 0, 0, 1, 2, 1 }
/* clang-format on */

/* Makes this rank's part of a model of numParams parameters, all 0. Collective over comm, which must outlive it and
 * may be used for other calls when none of these is running; makes up to two communicators of it. config NULL: the
 * initialiser. Both arguments may be freed afterwards. Groups of different sizes are no grid: then only strategies
 * without an I exist. All ranks get an error if one does. Errors: horingInvalidArgument (NULL, a type or number that
 * is not allowed, no such strategy, one that does not fit: by how much), horingInvalidUsage (ranks that disagree:
 * which, and in what; no grid), horingSystemError (no memory), and those of horingCommSplit. */
HORING_API horingResult_t horingParoCreate(horingParo_t* paro, horingComm_t comm,
                                           const horingParoConfig_t* config, const horingParoParam_t* params,
                                           size_t numParams);

/* Waits for what is under way and gives everything back, but for comm. Errors: horingInvalidArgument (NULL). */
HORING_API horingResult_t horingParoDestroy(horingParo_t paro);

/* The text of the calling thread's latest failed call of this header. "" if there was none. Never NULL; valid until
 * the thread's next call. */
HORING_API const char* horingParoGetLastError(void);

/* ---- Asking ---- */

typedef struct {
  horingParoStrategy_t strategy; /* never horingParoAuto */
  int groups, ranksPerGroup;     /* 0 and 0 where groups are no grid */
  int numBuckets;
  uint64_t params, trainable; /* elements */
} horingParoInfo_t;

HORING_API horingResult_t horingParoGetInfo(horingParo_t paro, horingParoInfo_t* info);

/* Where a parameter is: in the order given, buckets are filled with parameters of their kind. */
typedef struct {
  int bucket;
  size_t offset; /* elements */
  size_t count;
} horingParoPlace_t;

HORING_API horingResult_t horingParoGetPlace(horingParo_t paro, size_t param, horingParoPlace_t* place);

typedef struct {
  horingDataType_t type;
  int trainable;
  size_t count; /* elements */
} horingParoBucket_t;

HORING_API horingResult_t horingParoGetBucket(horingParo_t paro, int bucket, horingParoBucket_t* info);

/* Of this client alone. Memory is counted as it is taken, without that of communicators. Bytes sent are those of the
 * collectives that were issued, each as HO-Ring moves it; where groups are no grid, all of them count as slow. */
typedef struct {
  uint64_t stateBytes;      /* parameters, gradients and state kept; each bucket rounded up to whole shards */
  uint64_t gradBufferBytes; /* the two buffers of horingParoOpenGrads */
  uint64_t gatheredBytes;   /* held for gathered parameters: as many buckets as were gathered at once */
  uint64_t slowBytes, fastBytes; /* sent between groups, and inside the group, so far */
} horingParoUsage_t;

HORING_API horingResult_t horingParoGetUsage(horingParo_t paro, horingParoUsage_t* usage);

/* ---- Parameters ---- */

/* Sets a parameter (and its master) to `values`, which are `count` elements, all that it has, of its own type or float32;
 * other ranks must be given the same. The buffer is the caller's. Not between horingParoOpenGrads and
 * horingParoSyncParams, nor while its bucket is gathered. Errors: horingInvalidArgument (NULL, no such parameter, another
 * count or type), horingInvalidUsage (at another time). */
HORING_API horingResult_t horingParoSetParam(horingParo_t paro, size_t param, const void* values,
                                             size_t count, horingDataType_t type);

/* Begins to gather a bucket's parameters from whoever has them. Errors: horingInvalidArgument (no such bucket),
 * horingInvalidUsage (gathered already; not between horingParoSyncGrads and horingParoSyncParams). */
HORING_API horingResult_t horingParoGatherParams(horingParo_t paro, int bucket);

/* Waits for the bucket, if need be, and writes where the parameter's elements are: read only, until
 * horingParoReleaseParams. Errors: horingInvalidUsage (its bucket is not gathered), and those of collectives. */
HORING_API horingResult_t horingParoGetParam(horingParo_t paro, size_t param, const void** values);

/* Gives the gathered bucket back. Errors: horingInvalidUsage (not gathered). */
HORING_API horingResult_t horingParoReleaseParams(horingParo_t paro, int bucket);

/* ---- Gradients ---- */

/* Opens a buffer for one micro-step's gradients of a trainable bucket, all 0. There are two buffers: waits for the
 * reduction of an earlier one if both are under way. Errors: horingInvalidUsage (open already, or two others are;
 * frozen; between horingParoSyncGrads and horingParoSyncParams), and those of collectives. */
HORING_API horingResult_t horingParoOpenGrads(horingParo_t paro, int bucket);

/* Writes where the parameter's gradient is to be put, of its type, until horingParoReduceGrads. Errors:
 * horingInvalidUsage (not open). */
HORING_API horingResult_t horingParoGetGrad(horingParo_t paro, size_t param, void** values);

/* Takes the open gradients: reduces them among those who share them out, and adds them to what earlier micro-steps
 * gave. The sum over micro-steps is never averaged. Errors: horingInvalidUsage (not open), and those of collectives. */
HORING_API horingResult_t horingParoReduceGrads(horingParo_t paro, int bucket);

/* Gives the open gradients back as if they had never been opened: nothing is reduced. All ranks do so, or none. Errors:
 * horingInvalidUsage (not open). */
HORING_API horingResult_t horingParoDiscardGrads(horingParo_t paro, int bucket);

/* Ends the micro-steps: begins to reduce the gradients of every trainable bucket to the optimizer's shards. Errors:
 * horingInvalidUsage (a bucket is open, or was reduced more often than another, or never), and those of collectives. */
HORING_API horingResult_t horingParoSyncGrads(horingParo_t paro);

/* Writes the 2-norm of the whole model's gradient, computed in float64, and 1 to *overflow if an element is infinite
 * or NaN (the norm is then, too), else 0. Either pointer may be NULL. Collective; after horingParoSyncGrads, for
 * which it waits, until horingParoSyncParams. Errors: horingInvalidUsage (at another time), and those of
 * collectives. */
HORING_API horingResult_t horingParoGetGradNorm(horingParo_t paro, double* norm, int* overflow);

/* ---- The optimizer ---- */

/* Elements `first` to `first + count` of a bucket, that this rank updates. count may be 0. */
typedef struct {
  size_t first, count;
  horingDataType_t gradType; /* the wire type */
  void* grads;               /* reduced over ranks and micro-steps */
  horingDataType_t stateType;
  void* master; /* the parameters; where wire type and state type are one, they are stored here alone */
  void* state[HORING_PARO_MAX_STATE]; /* the optimizer's own, 0 at first; NULL beyond config.stateValues */
} horingParoShard_t;

/* Waits for the bucket's gradients and writes where the shard is, valid until horingParoSyncParams. Errors:
 * horingInvalidUsage (frozen; not between horingParoSyncGrads and horingParoSyncParams), and those of collectives. */
HORING_API horingResult_t horingParoGetShard(horingParo_t paro, int bucket, horingParoShard_t* shard);

/* Ends the optimizer step: rounds the masters to the wire type (nearest, ties to even), begins to bring them to
 * those who store the parameters, and forgets the gradients. A step that is skipped (overflow) calls it, too.
 * Errors: horingInvalidUsage (before horingParoSyncGrads; a bucket is gathered), and those of collectives. */
HORING_API horingResult_t horingParoSyncParams(horingParo_t paro);

/* ---- Checkpoints ---- */

/* Proves, before the work is done, that horingParoSave can write into a folder: makes it if need be, lets each rank write
 * a file there that rank 0 must see, and removes the files. Space is not proven. Collective. Errors: those of
 * horingParoSave. */
HORING_API horingResult_t horingParoCheckFolder(horingParo_t paro, const char* folder);

/* Saves parameters and state in a folder that all ranks see, made if need be, with `step`, a number of the caller's.
 * Collective, between optimizer steps, with nothing gathered. The folder holds the last checkpoint until the new one
 * is complete and on the disk, whoever dies meanwhile; then the last one is removed. Errors: horingInvalidUsage
 * (within a step; a folder that rank 0 sees without what others have written), horingSystemError (no space, no
 * permission: the rank and the file are named on all ranks), and those of collectives. */
HORING_API horingResult_t horingParoSave(horingParo_t paro, const char* folder, uint64_t step);

/* Loads what horingParoSave has saved, by any strategy on any number of ranks, of a model with the same parameters
 * and stateValues; writes its step, unless step is NULL. Collective, between optimizer steps, with nothing gathered.
 * Each rank reads an equal share, and what is kept by several is sent to them. All is proven by checksums before anything
 * is changed. Errors: horingInvalidUsage (within a
 * step; ranks that see different checkpoints), horingInvalidArgument (truncated or damaged: which file and where;
 * another model: the first difference), horingSystemError (a file that cannot be read), and those of collectives. A file
 * that cannot be read any more after it was proven leaves half a checkpoint loaded: that error sticks. */
HORING_API horingResult_t horingParoLoad(horingParo_t paro, const char* folder, uint64_t* step);

/* Copies `count` elements from one floating point type to another (nearest, ties to even): half precision gradients
 * to float32, say. Any thread. Errors: horingInvalidArgument (a pointer NULL with count > 0, a type that parameters
 * cannot have). */
HORING_API horingResult_t horingParoConvert(const void* from, horingDataType_t fromType, void* to,
                                            horingDataType_t toType, size_t count);

#ifdef __cplusplus
}
#endif

#endif /* HORING_PARO_H_ */
