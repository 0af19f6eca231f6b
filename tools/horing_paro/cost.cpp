#include "horing_paro/cost.h"

#include <algorithm>
#include <numeric>

#include "common/quantity.h"

namespace horing::paro {

namespace {

// Both halves of an all-reduce.
void setMoves(CostTable& costs, horingParoScope_t scope, CollectiveCost one_way) {
  costs.at(scope, horingParoAllGather) = one_way;
  costs.at(scope, horingParoReduceScatter) = one_way;
  costs.at(scope, horingParoAllReduce) = {2 * one_way.latency_seconds, 2 * one_way.seconds_per_byte};
}

// A ring or direct exchange of m ranks: V(m-1)/m bytes into each.
CollectiveCost groupCost(const Grid& grid, const Links& links) {
  const double hops = grid.most - 1;
  return {hops * links.fast_hop_seconds, hops / grid.most * 8 / links.fast_bits_per_second};
}

// All rails at once: m V(M-1)/M bytes into the node, through its interfaces.
CollectiveCost railCost(const Grid& grid, const Links& links) {
  const double hops = grid.groups - 1;
  const double interfaces = links.interfaces > 0 ? links.interfaces : grid.members;
  return {hops * links.slow_hop_seconds,
          grid.members / interfaces * hops / grid.groups * 8 / links.slow_bits_per_second};
}

}  // namespace

Grid gridOf(const std::vector<int>& sizes) {
  const auto [least, most] = std::ranges::minmax(sizes);
  return {static_cast<int32_t>(sizes.size()), least, most, std::accumulate(sizes.begin(), sizes.end(), 0)};
}

std::string nodesText(const Grid& grid, const std::vector<int>& sizes) {
  if (sizes.empty())
    return formatString("%d node%s of %d rank%s", grid.groups, grid.groups == 1 ? "" : "s", grid.members,
                        grid.members == 1 ? "" : "s");
  std::string text = "nodes of ";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + " ranks";
}

CostTable hoRingCosts(const Grid& grid, const Links& links) {
  const CollectiveCost group = groupCost(grid, links);
  const CollectiveCost rail = railCost(grid, links);
  const double slow = rail.seconds_per_byte / grid.members;  // a rail carries V/m
  const double outer = static_cast<double>(grid.groups - 1) / grid.groups;
  CostTable costs;
  setMoves(costs, horingParoGroup, group);
  setMoves(costs, horingParoRail, rail);
  setMoves(costs, horingParoGlobal,
           {group.latency_seconds + rail.latency_seconds,
            std::max(slow, group.seconds_per_byte * outer) + group.seconds_per_byte / grid.groups});
  return costs;
}

CostTable flatRingCosts(const Grid& grid, const Links& links) {
  CostTable costs;
  setMoves(costs, horingParoGroup, groupCost(grid, links));
  setMoves(costs, horingParoRail, railCost(grid, links));
  const double hops = grid.ranks - 1;
  const bool one_node = grid.groups == 1;
  setMoves(costs, horingParoGlobal,
           {hops * (one_node ? links.fast_hop_seconds : links.slow_hop_seconds),
            hops / grid.ranks * 8 / (one_node ? links.fast_bits_per_second : links.slow_bits_per_second)});
  return costs;
}

double communicationSeconds(const horingParoEstimate_t& estimate, const CostTable& costs) {
  double seconds = 0;
  for (int i = 0; i < estimate.numOperations; ++i) {
    const horingParoOperation_t& operation = estimate.operations[i];
    const CollectiveCost& cost = costs.at(operation.scope, operation.collective);
    seconds += operation.times *
               (cost.latency_seconds + static_cast<double>(operation.bytes) * cost.seconds_per_byte);
  }
  return seconds;
}

}  // namespace horing::paro
