#pragma once
// The deadlines of communicators made through this library.
#include "nccl/face.h"

namespace horing::nccl {

// While this object exists, communicators that the calling thread makes get the deadlines of this library, unless horing's variables are
// set: none for operations, since callers have their own timeouts; half an hour for ranks to arrive, since frameworks make groups minutes
// apart.
class FaceDeadlines {
 public:
  FaceDeadlines() noexcept;
  ~FaceDeadlines();
  FaceDeadlines(const FaceDeadlines&) = delete;
  FaceDeadlines& operator=(const FaceDeadlines&) = delete;

 private:
  horingOptions_t former_ =
      HORING_OPTIONS_INITIALIZER;  // the thread's options, which override these deadlines
};

}  // namespace horing::nccl
