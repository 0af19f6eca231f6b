#pragma once
// The version line that tools search for, in the library's output and in its file.

namespace horing::nccl {

extern const char kBanner[];

}  // namespace horing::nccl
