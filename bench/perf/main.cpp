// The main of every *_perf program; the build selects the collective.
#include "perf/driver.h"

int main(int argc, char** argv) {
  return horing::perf::perfMain(HORING_PERF_COLLECTIVE, argc, argv);
}
