#pragma once
// What the fake driver runs as kernels: functions of the test.
#include <cstddef>

namespace horing::fake {

struct Grid {
  int x, y, z;
};

struct Kernels {
  // Of the kernel's only parameter; 0: there is no such kernel.
  size_t (*parameter_bytes)(const char* name);
  // Runs a grid to its end. On the thread of a stream.
  void (*run)(const char* name, const void* parameter, const Grid& grid);
};

}  // namespace horing::fake
