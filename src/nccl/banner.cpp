#include "nccl/banner.h"

#include "nccl/nccl.h"

namespace horing::nccl {

#define NCCL_TEXT_OF(x) #x
#define NCCL_TEXT(x) NCCL_TEXT_OF(x)
// With the version of CUDA whose types the interface has; no CUDA library is linked. A file of its own, since a compiler that sees it
// where it is used takes it to pieces.
const char kBanner[] =
    "NCCL version " NCCL_TEXT(NCCL_MAJOR) "." NCCL_TEXT(NCCL_MINOR) "." NCCL_TEXT(NCCL_PATCH) "+cuda13.0";

}  // namespace horing::nccl
