#pragma once
// For programs that end at the first error.
#include <cstdio>
#include <cstdlib>

[[noreturn]] inline void fail(const char* tried, int code) {
  std::fprintf(stderr, "%s: error %d\n", tried, code);
  std::exit(1);
}
#define MUST(call) \
  if (const int code = static_cast<int>(call); code != 0) fail(#call, code)
