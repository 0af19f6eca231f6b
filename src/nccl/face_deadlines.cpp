#include "nccl/face_deadlines.h"

#include <cstdlib>

namespace horing::nccl {

namespace {

constexpr int kNoDeadline = 0;
constexpr int kRanksComeMs = 1'800'000;

void setUnlessKnown(int& deadline_ms, const char* variable, int value) {
  const char* const set = std::getenv(variable);
  if (deadline_ms == HORING_CONFIG_UNDEF_INT && !(set && *set)) deadline_ms = value;
}

}  // namespace

FaceDeadlines::FaceDeadlines() noexcept {
  [[maybe_unused]] horingResult_t set = horingSetThreadOptions(nullptr, &former_);
  horingOptions_t options = former_;
  setUnlessKnown(options.timeoutMs, "HORING_TIMEOUT_MS", kNoDeadline);
  setUnlessKnown(options.initTimeoutMs, "HORING_INIT_TIMEOUT_MS", kRanksComeMs);
  set = horingSetThreadOptions(&options, nullptr);
}

FaceDeadlines::~FaceDeadlines() {
  [[maybe_unused]] const horingResult_t restored = horingSetThreadOptions(&former_, nullptr);
}

}  // namespace horing::nccl
