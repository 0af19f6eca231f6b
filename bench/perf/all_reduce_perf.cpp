#include "perf/driver.h"

int main(int argc, char** argv) {
  return horing::perf::perfMain(horing::Collective::kAllReduce, "all_reduce_perf", argc, argv);
}
