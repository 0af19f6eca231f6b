#pragma once
// Several emulated nodes on one machine, joined by links of a given speed.
//
// Node i has on each rail k an interface r<k> with the address 10.77.k.(i+1), whose other end is a port of the rail's bridge in a namespace
// of its own. Each link is shaped at both ends, so in both directions. Nodes that share an uplink have a bridge of their own, which one
// shaped link joins to the rail's. Nothing has a name outside, so any number of networks can coexist,
// and nothing survives the process that made them.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "horing_run/isolated_node.h"
#include "horing_run/uplink.h"

namespace horing::run {

struct NetworkSpec {
  int nodes = 1;
  int rails = 1;
  // Speed of the links of each node in each direction; 0: unshaped.
  std::vector<int> rates_mbit{0};
  // Size of each node's /dev/shm; 0: the kernel's default.
  int shm_mib = 0;
  // Disjoint.
  std::vector<Uplink> uplinks{};
};

struct InterfaceCounters {
  int node = 0;
  std::string interface;
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
};

// A resource: nodes, links and every process on the nodes end with it.
class EmulatedNetwork {
 public:
  // Needs gainNamespacePrivileges().
  static Result<std::unique_ptr<EmulatedNetwork>> create(const NetworkSpec& spec);

  const NetworkSpec& spec() const { return spec_; }
  const IsolatedNode& node(int index) const { return *nodes_[static_cast<size_t>(index)]; }
  // The slowest rate of any link; 0: none is shaped.
  int slowestRate() const;
  std::string address(int node, int rail) const;
  std::string interface(int rail) const;

  // Changes the speed of the node's links, in both directions. Only from one rate to another.
  Status setRate(int node, int rate_mbit);

  // The bytes that crossed each interface since it was made, by node and rail, including headers.
  Result<std::vector<InterfaceCounters>> readCounters() const;

 private:
  explicit EmulatedNetwork(const NetworkSpec& spec) : spec_(spec) {}
  int rateOf(int node) const { return spec_.rates_mbit[static_cast<size_t>(node)]; }
  Status connectNodes();
  // The bridge to which the node's link of this rail leads.
  std::string bridgeOf(int node, int rail) const;
  Status configureNode(int node);

  NetworkSpec spec_;
  Fd switch_;
  std::vector<std::unique_ptr<IsolatedNode>> nodes_;
};

}  // namespace horing::run
