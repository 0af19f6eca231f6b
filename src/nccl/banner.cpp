#include "nccl/banner.h"

#include "nccl/nccl.h"

namespace horing::nccl {

#define NCCL_TEXT_OF(x) #x
#define NCCL_TEXT(x) NCCL_TEXT_OF(x)
// Names the CUDA version of the interface's types; no CUDA library is linked. In a separate file, since the compiler would otherwise split
// the string at its use.
const char kBanner[] =
    "NCCL version " NCCL_TEXT(NCCL_MAJOR) "." NCCL_TEXT(NCCL_MINOR) "." NCCL_TEXT(NCCL_PATCH) "+cuda13.0";

}  // namespace horing::nccl
