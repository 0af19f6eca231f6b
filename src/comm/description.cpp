#include "comm/description.h"

namespace horing {

namespace {

// The name in NCCL's log lines.
const char* ncclWordFor(std::string_view transport) {
  if (transport == "verbs") return "NET/IB/0";
  if (transport == "socket") return "NET/Socket/0";
  return transport == "shm" ? "SHM/direct/direct" : "P2P/direct pointer";
}

// The lines that tools parse in NCCL's log: the network, and the transport to the next rank of the ring.
void logAsNccl(const Communicator& communicator) {
  const Membership& ranks = communicator.membership();
  const GroupMap& map = ranks.placement().map();
  const int rank = ranks.rank();
  ranks.log().info("init", "Using network %s", communicator.reach().hasTransport("verbs") ? "IB" : "Socket");
  if (map.ranks() == 1) return;
  const int next = map.rankOfPosition((map.positionOfRank(rank) + 1) % map.ranks());
  ranks.log().info("init", "Channel 00/0 : %d[%d] -> %d[%d] via %s", rank, map.localIndexOf(rank), next,
                   map.localIndexOf(next), ncclWordFor(communicator.reach().transportTo(next)));
}

std::string describeRing(const GroupMap& map) {
  std::string text = "ring: ";
  for (int position = 0; position < map.ranks() && position < 64; ++position)
    text += formatString("%s%d", position ? " > " : "", map.rankOfPosition(position));
  text += map.ranks() > 64 ? " > ...\n" : " > back\n";
  if (map.groups() > 1 && map.uniform())
    text += formatString("rails: %d, each a ring through %d groups\n", map.largestGroup(), map.groups());
  return text;
}

std::string describeRank(const Communicator& communicator, int rank) {
  const Placement& placement = communicator.membership().placement();
  const std::string by = communicator.reach().transportTo(rank);
  const std::string home = placement.homeOf(rank), &rail = placement.railOf(rank);
  return formatString("rank %d: %s, group %d%s%s%s%s%s%s\n", rank,
                      placement.identityOf(rank).describe().c_str(), placement.map().groupOf(rank),
                      home.empty() ? "" : ", on ", home.c_str(), rail.empty() ? "" : ", near ", rail.c_str(),
                      by.empty() ? "" : ", by ", by.c_str());
}

std::string describeAlgorithms(const Selector& selector) {
  std::string text;
  for (const size_t bytes : {size_t{1} << 10, size_t{1} << 20, size_t{64} << 20}) {
    text += formatString("at %zu KiB:", bytes >> 10);
    for (int number = 0; number < kCollectives; ++number) {
      const auto c = static_cast<Collective>(number);
      text += formatString(" %s %s", collectiveName(c), selector.select(c, bytes).algorithm->name);
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string describe(const Communicator& communicator) {
  const Membership& ranks = communicator.membership();
  const GroupMap& map = ranks.placement().map();
  const std::string& name = ranks.options().name;
  std::string text = formatString("%s%d ranks in %s\n", name.empty() ? "" : (name + ": ").c_str(),
                                  ranks.ranks(), map.describe().c_str());
  text += describeRing(map);
  for (int rank = 0; rank < ranks.ranks() && rank < 64; ++rank) text += describeRank(communicator, rank);
  const std::shared_ptr<const Selector> selector = communicator.selector();
  if (!selector->fallback().empty()) text += selector->fallback() + '\n';
  const std::string found_at = communicator.choices().found_at;
  if (!found_at.empty()) text += "algorithms by " + found_at + '\n';
  return text + describeAlgorithms(*selector);
}

void logWhoIsWhere(const Communicator& communicator) {
  const Membership& ranks = communicator.membership();
  const Log& log = ranks.log();
  log.info("init", "rank %d of %d on %s", ranks.rank(), ranks.ranks(),
           ranks.placement().identityOf(ranks.rank()).describe().c_str());
  if (ranks.config().debug_form == "nccl") logAsNccl(communicator);
  if (ranks.rank() != 0) return;
  log.info("init", "%s", describe(communicator).c_str());
  const std::string fallback = communicator.selector()->fallback();
  if (!fallback.empty()) log.warn("init", "%s", fallback.c_str());
  for (const std::string& warning : ranks.placement().warnings()) log.warn("init", "%s", warning.c_str());
}

}  // namespace horing
