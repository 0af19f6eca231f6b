#pragma once
// What the three *_perf programs have in common: everything but the collective.
#include "base/types.h"

namespace horing::perf {

// Runs the program to its end and returns the exit code (perf/options.h).
int perfMain(Collective collective, const char* program, int argc, const char* const* argv);

}  // namespace horing::perf
