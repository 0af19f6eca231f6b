#include "perf/driver.h"

int main(int argc, char** argv) {
  return horing::perf::perfMain(horing::Collective::kAllGather, "all_gather_perf", argc, argv);
}
