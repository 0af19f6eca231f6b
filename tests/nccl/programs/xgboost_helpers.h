// In place of those of XGBoost's tests: what the tests of NCCL take from them.
#pragma once
#include <xgboost/context.h>

#include <filesystem>
#include <string>

inline bool FileExists(const std::string& name) {
  return std::filesystem::exists(name);
}

namespace xgboost {
inline Context MakeCUDACtx(int device) {
  Context made;
  made.UpdateAllowUnknown(Args{{"device", "cuda:" + std::to_string(device)}});
  return made;
}
}  // namespace xgboost
