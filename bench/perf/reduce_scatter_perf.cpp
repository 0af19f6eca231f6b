#include "perf/driver.h"

int main(int argc, char** argv) {
  return horing::perf::perfMain(horing::Collective::kReduceScatter, "reduce_scatter_perf", argc, argv);
}
