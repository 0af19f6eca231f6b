#include "ho_ring/bounds.h"

namespace horing::bench {

namespace {

double passes(Collective collective) {
  return collective == Collective::kAllReduce ? 2 : 1;
}

}  // namespace

double wireBytes(Collective collective, const JobShape& shape, uint64_t whole_bytes) {
  return passes(collective) * static_cast<double>(whole_bytes) * (shape.nodes - 1) / shape.nodes;
}

double ringWireBytes(Collective collective, const JobShape& shape, uint64_t whole_bytes) {
  if (shape.nodes == 1) return 0;
  return passes(collective) * static_cast<double>(whole_bytes) * (shape.ranks - 1) / shape.ranks;
}

double theoreticalSpeedup(const JobShape& shape) {
  if (shape.nodes == 1) return 1;
  return (shape.ranks - 1) / static_cast<double>(shape.members() * (shape.nodes - 1));
}

double wireTimeMs(double bytes, double rate_mbit) {
  return rate_mbit > 0 ? bytes * 8 / (rate_mbit * 1e3) : 0;
}

}  // namespace horing::bench
