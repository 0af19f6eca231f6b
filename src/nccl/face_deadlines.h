#pragma once
// The deadlines of communicators that are made through this face.
#include "nccl/face.h"

namespace horing::nccl {

// While it lives, communicators that the calling thread makes have the deadlines of this face, unless horing's variables are set:
// operations none, since callers have their own, and ranks half an hour to come, since frameworks make groups minutes apart.
class FaceDeadlines {
 public:
  FaceDeadlines() noexcept;
  ~FaceDeadlines();
  FaceDeadlines(const FaceDeadlines&) = delete;
  FaceDeadlines& operator=(const FaceDeadlines&) = delete;

 private:
  horingOptions_t former_ =
      HORING_OPTIONS_INITIALIZER;  // of the thread, which count but for the deadlines that they leave open
};

}  // namespace horing::nccl
