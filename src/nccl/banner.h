#pragma once
// The line that tools look for, in what the library prints and in its file.

namespace horing::nccl {

extern const char kBanner[];

}  // namespace horing::nccl
