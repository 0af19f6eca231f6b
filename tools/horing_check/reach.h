#pragma once
// Which nodes a TCP connection reaches. The library's first call between two nodes that do not would wait as long as the whole check.
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "base/endpoint.h"
#include "horing_check/node_port.h"

namespace horing::check {

// The addresses of a node's port; port 0: no more. Sent between nodes as it is.
using Doors = std::array<Endpoint, 16>;
// All that others may connect to; none, if they are too many.
Doors doorsOf(const NodePort& port);

// The lower node first.
using NodePair = std::pair<int, int>;

// By node, whether a connection to any of its doors came about, at the first or the second try, each of `within`; also true if that cannot
// be told: it has no door, or this process has no descriptor left.
std::vector<bool> connectToAll(const std::vector<Doors>& nodes, std::chrono::milliseconds within);

inline constexpr const char* kReachAdvice =
    "a firewall between them, or an interface that does not lead there? HORING_SOCKET_IFNAME chooses the "
    "interfaces, HORING_PORTS the "
    "ports";

// The nodes to leave out so that none of `blocked` is left: one after the other the node with the most, never node 0. Ascending. Pure.
std::vector<int> leftOut(std::vector<NodePair> blocked);

}  // namespace horing::check
