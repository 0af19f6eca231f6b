#pragma once
// From the figures of pairs of nodes to what is slow. Pure: no clock, no network, no randomness.
//
// The model: a message is as slow as the slowest of the sender's adapter, the receiver's adapter and the path between them. A node's
// figure is the median over its partners, so that a few slow partners or paths do not count against it, and what several nodes
// have in common is the cluster. A finding is what lies further from the cluster than the figures scatter.
#include <cstdint>
#include <vector>

namespace horing::check {

// What one node received from another in one measurement.
struct Sample {
  int from = 0, to = 0;
  double bytes_per_s = 0;
  double latency_s = 0;  // half of a round trip, the same in both directions
  uint64_t wrong_bytes = 0;
};

struct Figures {
  int nodes = 0;
  std::vector<Sample> samples;
};

enum class Quantity { kRate, kLatency, kData };
// Of a node what it sends, or what it receives; or the path from one node to another, and neither of both.
enum class Part { kSends, kReceives, kPath };

struct Finding {
  Quantity quantity = Quantity::kRate;
  Part part = Part::kSends;
  int node = 0;
  int to = -1;        // where the path leads; -1: no path
  double factor = 1;  // of the cluster's rate or latency; 1 for data
  int partners = 0;   // with which it was seen
  // Measured often enough to blame it. What is not is to be measured again (rounds.h).
  bool confirmed = false;
};

struct Verdict {
  double bytes_per_s = 0, latency_s = 0;  // of the cluster; 0: not measured
  double scatter = 0;                     // of the rates, as a share of them: 1.48 median absolute deviations
  // A node that has lost less of the rate than this share cannot be detected.
  double least_loss = 0;
  // By node; of a node first what it sends.
  std::vector<Finding> findings;
};

// Any number of samples, of any pairs. Samples without a rate or latency above 0 count for data alone.
Verdict diagnose(const Figures& figures);

}  // namespace horing::check
