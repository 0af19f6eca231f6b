/* The version of horing. A part of horing.h. */
#ifndef HORING_VERSION_H_
#define HORING_VERSION_H_

/* The version of this header; as one number, for comparisons: HORING_VERSION_CODE >= HORING_VERSION(0, 1, 0). */
#define HORING_MAJOR 0
#define HORING_MINOR 1
#define HORING_PATCH 0
#define HORING_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define HORING_VERSION_CODE HORING_VERSION(HORING_MAJOR, HORING_MINOR, HORING_PATCH)
/* Extension. The version of NCCL whose names and numbers these headers have (rule 1), encoded as NCCL encodes it: up to
 * 2.8 with one digit fewer. */
#define HORING_NCCL_VERSION(major, minor, patch)                         \
  (((major) <= 2 && (minor) <= 8) ? (major)*1000 + (minor)*100 + (patch) \
                                  : (major)*10000 + (minor)*100 + (patch))
#define HORING_NCCL_VERSION_CODE HORING_NCCL_VERSION(2, 26, 0)

#endif /* HORING_VERSION_H_ */
