// Folding with the instructions that every machine of the architecture has.
#include "engine/host/fold_isa.h"
#include "engine/host/fold_kernels.h"

namespace horing {
namespace {

struct Plain : Vectors<16> {
  static constexpr bool kConvertsHalf = false;
};

}  // namespace

FoldFunction foldFunctionPlain(DataType type, RedOp op) {
  return foldFunctionOf<Plain>(type, op);
}

}  // namespace horing
