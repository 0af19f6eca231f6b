/* The types and numbers of horing: results, element types, reduction operations, settings. A part of horing.h, whose rules hold. */
#ifndef HORING_TYPES_H_
#define HORING_TYPES_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "horing/version.h"

/* Marks what the shared library exports. */
#if defined(__GNUC__)
#define HORING_API __attribute__((visibility("default")))
#else
#define HORING_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The result of every function. */
typedef enum {
  horingSuccess = 0,
  horingUnhandledCudaError = 1, /* a CUDA call failed */
  horingSystemError = 2,        /* a call of the operating system failed */
  horingInternalError = 3,      /* a bug in the library */
  horingInvalidArgument = 4,    /* an argument, or an environment variable, has a value that is not allowed */
  horingInvalidUsage = 5,       /* valid arguments at the wrong time or place, or ranks that disagree */
  horingRemoteError = 6,        /* a peer failed, died or closed its connection */
  horingInProgress = 7,         /* not complete yet (horingStreamQuery, config.blocking = 0) */
  horingTimeout = 8,            /* a deadline passed; the error text names the ranks that were missing */
  horingNumResults = 9
} horingResult_t;

/* Element types. Half and quarter precision are accumulated in float32 and rounded (to nearest even) each time a value
 * is sent or stored. A value that is too large becomes infinity as in IEEE 754, or 448 in float8e4m3, which has no
 * infinity. Subnormal numbers are kept, and the caller's rounding mode does not matter. */
typedef enum {
  horingInt8 = 0,
  horingChar = 0,
  horingUint8 = 1,
  horingInt32 = 2,
  horingInt = 2,
  horingUint32 = 3,
  horingInt64 = 4,
  horingUint64 = 5,
  horingFloat16 = 6,
  horingHalf = 6,
  horingFloat32 = 7,
  horingFloat = 7,
  horingFloat64 = 8,
  horingDouble = 8,
  horingBfloat16 = 9,
  horingFloat8e4m3 = 10,
  horingFloat8e5m2 = 11,
  horingNumTypes = 12
} horingDataType_t;

/* Reduction operations. Integers wrap around. Min and max give NaN if any operand is NaN. Avg of floating-point types
 * multiplies each input by 1/ranks, and rounds before it sends: the smallest float16 on each of two ranks may give 0.
 * Avg of integers divides the sum, which wraps, by ranks and rounds towards zero: two uint8 of 200 give 72. */
typedef enum {
  horingSum = 0,
  horingProd = 1,
  horingMax = 2,
  horingMin = 3,
  horingAvg = 4,
  horingNumOps = 5,
  horingBitAnd = 0x10000000, /* Extension, like the next two: bitwise, integer types only */
  horingBitOr = 0x10000001,
  horingBitXor = 0x10000002,
  horingMaxRedOp = 0x7fffffff /* the largest value; reserves the range */
} horingRedOp_t;

/* When the scalar of horingRedOpCreatePreMulSum is read. */
typedef enum {
  horingScalarDevice = 0,       /* each time an operation that uses it begins */
  horingScalarHostImmediate = 1 /* before horingRedOpCreatePreMulSum returns; host memory */
} horingScalarResidence_t;

/* The address and the key with which ranks join a communicator: whoever has the ID can join. Copy it to the ranks of
 * the job over a private channel, and nowhere else. Valid for one communicator. */
#define HORING_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[HORING_UNIQUE_ID_BYTES];
} horingUniqueId;

/* One rank's handle of a communicator. Made by the Init functions, horingCommSplit and horingCommShrink;
 * released by horingCommDestroy or horingCommAbort. */
typedef struct horingComm* horingComm_t;
#define HORING_COMM_NULL NULL

/* Values of fields and arguments. The initialisers write the UNDEF values. */
#define HORING_CONFIG_UNDEF_INT INT_MIN
#define HORING_CONFIG_UNDEF_PTR NULL
#define HORING_UNDEF_FLOAT -1.0f
#define HORING_SPLIT_NOCOLOR -1
#define HORING_CTA_POLICY_DEFAULT 0x00
#define HORING_CTA_POLICY_EFFICIENCY 0x01
#define HORING_CTA_POLICY_ZERO 0x02
#define HORING_SHRINK_DEFAULT 0x00
#define HORING_SHRINK_ABORT 0x01
#define HORING_REVOKE_DEFAULT 0x00
#define HORING_SUSPEND_MEM 0x01
#define HORING_API_MAGIC 0xcafebeef /* internal */

/* Settings of one communicator: the fields, and the layout, of NCCL 2.32. Start with HORING_CONFIG_INITIALIZER, then
 * assign the fields that shall differ from the environment's settings; strings are copied. Fields that choose other GPU
 * resources, or offloads of NICs, are ignored, but a value that NCCL refuses is refused. Settings that only horing has
 * are in horingOptions_t. If the caller was compiled with the header of an older library, the missing fields count as
 * undefined; if with the header of a newer library, the fields that this library does not know must be undefined. */
typedef struct {
  size_t size;          /* from the initialiser */
  unsigned int magic;   /* from the initialiser */
  unsigned int version; /* from the initialiser */
  int blocking;         /* 1, or 0: see horingCommInitRankConfig; undefined: 1, or the parent's */
  int cgaClusterSize;   /* ignored; 0 to 8 */
  int minCTAs;          /* ignored; from 1, at most maxCTAs */
  int maxCTAs;          /* HORING_GPU_BLOCKS, 1 to 1024; the least of all ranks counts */
  const char* netName;  /* the only network between nodes: "Socket", or "IB" (RDMA); case is ignored */
  int splitShare;       /* ignored: nothing is shared between parent and child; 0 or 1 */
  int trafficClass;     /* the communicator's HORING_IB_TC, 0 to 255 */
  const char* commName; /* begins the text of horingCommDescribe; the first 128 bytes are kept */
  int collnetEnable;    /* ignored; 0 or 1 */
  int CTAPolicy;        /* ignored; HORING_CTA_POLICY_..., or several of them */
  int shrinkShare;      /* ignored, like splitShare */
  int nvlsCTAs, nChannelsPerNetPeer;            /* ignored; from 1 */
  int nvlinkCentricSched;                       /* ignored; 0 or 1 */
  int graphUsageMode;                           /* ignored; 0 to 2 */
  int numRmaCtx, maxP2pPeers;                   /* ignored; from 1 */
  int graphStreamOrdering, launchOrderImplicit; /* ignored; 0 or 1 */
  int numRmaSig;                                /* sigIdx of one-sided operations is below (1); from 0 */
  int rmaEagerInit;                             /* ignored; 0 or 1 */
  int hostCftMode;                              /* ignored; 1 to 3 */
  int nvlsHostMode;                             /* ignored; from 0 */
} horingConfig_t;
/* clang-format off */
#define HORING_CONFIG_INITIALIZER { \
  sizeof(horingConfig_t),  HORING_API_MAGIC,        HORING_VERSION_CODE, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, \
  HORING_CONFIG_UNDEF_PTR, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_PTR, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT }
/* clang-format on */

/* Extension. Settings that NCCL does not have; like horingConfig_t, with HORING_OPTIONS_INITIALIZER. */
typedef struct {
  size_t size;                 /* from the initialiser */
  unsigned int magic, version; /* from the initialiser */
  int timeoutMs;               /* the communicator's HORING_TIMEOUT_MS, 0 (none) to 86400000 */
  int initTimeoutMs;           /* the communicator's HORING_INIT_TIMEOUT_MS, 1 to 86400000 */
  int reproducible;            /* the communicator's HORING_REPRODUCIBLE, 0 or 1; see rule (6) */
  int gpuKernels; /* 1; 0: as HORING_GPU_PATH=staged, for a communicator that takes no GPU memory */
} horingOptions_t;
/* clang-format off */
#define HORING_OPTIONS_INITIALIZER { \
  sizeof(horingOptions_t), HORING_API_MAGIC,        HORING_VERSION_CODE, \
  HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT, HORING_CONFIG_UNDEF_INT }
/* clang-format on */

/* Extension. Settings of one call of a collective (horingSetCallOptions); like horingConfig_t, with
 * HORING_CALL_OPTIONS_INITIALIZER. For buffers in memory of the host: with buffers in memory of a GPU, or pinned, managed
 * or none on a cudaStream_t, a call that has an algorithm, or another timeout than its communicator, returns
 * horingInvalidUsage. */
typedef struct {
  size_t size;                 /* from the initialiser */
  unsigned int magic, version; /* from the initialiser */
  int timeoutMs; /* in place of the communicator's HORING_TIMEOUT_MS, 0 (none) to 86400000. Each rank may have its own */
  /* The algorithm, with closing 0: a name that `horing-plan list` has, or NCCL's names, of which the first counts that
   * has the collective: "ring,tree"; no exclusions ("^nvls"). Empty: the library chooses, or HORING_ALGO. The same on all
   * ranks, else the call is horingInvalidUsage on all of them, and the text names the rank that differs. */
  char algorithm[64];
} horingCallOptions_t;
/* clang-format off */
#define HORING_CALL_OPTIONS_INITIALIZER { \
  sizeof(horingCallOptions_t), HORING_API_MAGIC, HORING_VERSION_CODE, HORING_CONFIG_UNDEF_INT, "" }
/* clang-format on */

/* Opaque: NULL, a stream of horingStreamCreate, or a cudaStream_t; see rule (5). */
typedef void* horingStream_t;

#ifdef __cplusplus
}
#endif

#endif /* HORING_TYPES_H_ */
