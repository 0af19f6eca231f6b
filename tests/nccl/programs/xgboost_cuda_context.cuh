// In place of XGBoost's: without memory pools.
#pragma once
#include "cuda_stream.h"

namespace xgboost {
struct CUDAContext {
  auto Stream() const { return curt::DefaultStream(); }
};
}  // namespace xgboost
