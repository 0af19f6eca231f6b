#pragma once
// What the fake driver runs as kernels: functions of the test.
#include <cstddef>

namespace horing::fake {

struct Grid {
  int x, y, z;
};

struct Kernels {
  bool (*has)(const char* name);
  // Runs a grid to its end, with the kernel's only parameter. On the thread of a stream.
  void (*run)(const char* name, const void* parameter, const Grid& grid);
  size_t parameter_bytes;
};

}  // namespace horing::fake
