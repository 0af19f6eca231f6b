#pragma once
// What the fake driver runs as kernels: functions of the test.
#include <cstddef>

namespace horing::fake {

struct Kernels {
  bool (*has)(const char* name);
  // Runs a grid to its end, with the kernel's only parameter and the third size of the grid. On the thread of a stream.
  void (*run)(const char* name, const void* parameter, int ranks);
  size_t parameter_bytes;
};

}  // namespace horing::fake
