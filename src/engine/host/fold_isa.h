#pragma once
// What each instruction set's file offers to fold.cpp. Private to src/engine/host.
#include "engine/host/fold.h"

namespace horing {

FoldFunction foldFunctionPlain(DataType type, RedOp op);
// Built for x86-64 only (HORING_FOLD_X86).
FoldFunction foldFunctionAvx2(DataType type, RedOp op);
FoldFunction foldFunctionAvx512(DataType type, RedOp op);

}  // namespace horing
