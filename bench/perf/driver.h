#pragma once
// What the *_perf programs have in common: everything but the collective.
#include "perf/collectives.h"

namespace horing::perf {

// Runs the program to its end and returns the exit code (perf/options.h).
int perfMain(const CollectiveTest& test, int argc, const char* const* argv);

}  // namespace horing::perf
