#pragma once
// HORING_CHECK: an invariant of our own code. If it does not hold, the program stops and prints both operands.
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace horing::check_detail {

template <typename A, typename B>
[[noreturn]] void failed(const char* file, int line, const char* text, const A& a, const B& b) {
  std::ostringstream out;
  out << file << ':' << line << ": check failed: " << text << " (" << a << " vs " << b << ")\n";
  std::fputs(out.str().c_str(), stderr);
  std::abort();
}

}  // namespace horing::check_detail

#define HORING_CHECK(condition)                                                          \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

#define HORING_CHECK_OP(a, op, b)                                                                \
  do {                                                                                           \
    const auto& horing_a = (a);                                                                  \
    const auto& horing_b = (b);                                                                  \
    if (!(horing_a op horing_b))                                                                 \
      ::horing::check_detail::failed(__FILE__, __LINE__, #a " " #op " " #b, horing_a, horing_b); \
  } while (false)
#define HORING_CHECK_EQ(a, b) HORING_CHECK_OP(a, ==, b)
#define HORING_CHECK_LT(a, b) HORING_CHECK_OP(a, <, b)
#define HORING_CHECK_LE(a, b) HORING_CHECK_OP(a, <=, b)
