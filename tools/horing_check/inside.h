#pragma once
// How fast a node is without the others: memory, arithmetic, and shared memory between its ranks.
#include <string>
#include <vector>

#include "base/status.h"
#include "horing_check/diagnosis.h"
#include "horing_check/nodes.h"

namespace horing::check {

// In bytes per second but for the last; 0: not measured.
struct InsideRates {
  double copy = 0;    // one core copies memory, past the caches
  double fold = 0;    // one core sums float32 in its caches, bytes of the result
  double shared = 0;  // from one rank of the node to another
  // No rate, but the part of the time in which a core ran this program. Not measured where nodes share a machine, whose cores they share.
  double running = 0;
};

// Measures turn by turn. Disturbances only slow, so each node's best turn counts. One thread.
class InsideMeter {
 public:
  // Some turns of 0.1 s on all nodes at once, and more if some node looks slow. Collective over the nodes, which all decide the same. `kinds`:
  // by node, the same on all nodes; only nodes of the same kind are compared. Errors: the library's.
  Status measure(Nodes& nodes, const std::vector<std::string>& kinds);
  const std::vector<InsideRates>& rates() const { return rates_; }  // by node; empty before the first turn
  // What is slow. It is confirmed once `measure` has run twice.
  std::vector<Finding> findings() const;

 private:
  struct Told;

  void keepBest(const std::vector<Told>& told);

  std::vector<std::string> kinds_;
  std::vector<InsideRates> rates_;
  int times_ = 0;
};

// What is slower than other nodes of its kind, by more than these differ among each other. Pure.
std::vector<Finding> compareInside(const std::vector<InsideRates>& rates,
                                   const std::vector<std::string>& kinds, bool confirmed);

// The median over the nodes where it was measured; 0: nowhere.
double medianInside(const std::vector<InsideRates>& rates, double InsideRates::*rate);

}  // namespace horing::check
