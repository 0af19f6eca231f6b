#pragma once
// What the fake driver and its callers hand to each other.
#include <cstdint>

namespace horing::fake {

enum Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kUnsupportedInCapture = 900,
  kCaptureInvalidated = 901,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905
};

struct Context {
  int device;
  Context* primary = nullptr;  // of a green one, whose streams it is for
};

// The contents of an allocation's handle: its file, for other processes.
struct IpcHandle {
  static constexpr uint64_t kMagic = 0x6370692d656b6166;
  uint64_t magic;
  int64_t process;
  uint64_t bytes;
  int32_t pages;
  int32_t device;
  char rest[32];
};
static_assert(sizeof(IpcHandle) == 64);  // as CUipcMemHandle

}  // namespace horing::fake
