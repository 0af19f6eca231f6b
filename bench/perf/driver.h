#pragma once
// What the *_perf programs have in common: everything but the collective.

namespace horing::perf {

// Runs the program of the collective of that name (perf/collectives.h) to its end and returns the exit code (perf/options.h).
int perfMain(const char* collective, int argc, const char* const* argv);

}  // namespace horing::perf
