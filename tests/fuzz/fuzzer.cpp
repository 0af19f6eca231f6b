// The entry point for libFuzzer: the environment variable FUZZ_TARGET names the target.
#include <cstdio>
#include <cstdlib>

#include "targets.h"

namespace {

const horing::fuzz::Target& chosenTarget() {
  const char* name = std::getenv("FUZZ_TARGET");
  const horing::fuzz::Target* target = horing::fuzz::findTarget(name ? name : "");
  if (!target) {
    std::fprintf(stderr, "set FUZZ_TARGET to one of:");
    for (const auto& each : horing::fuzz::targets()) std::fprintf(stderr, " %s", each.name);
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  return *target;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const horing::fuzz::Target& target = chosenTarget();
  target.run(std::as_bytes(std::span(data, size)));
  return 0;
}
