#pragma once
// Finds slow nodes and paths from the figures of pairs of nodes. Pure: no clock, no network, no randomness.
//
// The model: a message is as slow as the slowest of the sender's adapter, the receiver's adapter and the path between them. A node's figure
// is the median over its partners, so that a few slow partners or paths do not count against it, and the cluster is the median of its
// nodes. A finding differs from the cluster by more than the scatter of the figures.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace horing::check {

// One measurement of one node receiving from another.
struct Sample {
  int from = 0, to = 0;
  double bytes_per_s = 0;
  double latency_s = 0;  // half of a round trip, the same in both directions
  uint64_t wrong_bytes = 0;
  uint64_t bytes = 0;  // that arrived, and were compared
  int round = 0;
  // TCP segments that the sender's node sent meanwhile, and those of them that it sent again and that had not arrived; 0: not known.
  uint64_t segments = 0, segments_resent = 0;
  // Of each direction while both move data, the slower of both, the same in both directions; 0: not measured.
  double at_once_bytes_per_s = 0;
};

struct Figures {
  int nodes = 0;
  std::vector<Sample> samples;
  // By node, of the rate of the fastest: nodes of different kinds on purpose. Empty: all are of one kind.
  std::vector<double> shares{};

  // What a pair is expected to reach: as much as its slower node.
  double shareOf(int from, int to) const {
    return shares.empty() ? 1 : std::min(shares[static_cast<size_t>(from)], shares[static_cast<size_t>(to)]);
  }
};

// The last five inside a node (inside.h, inside_paths.h), and data there, too.
enum class Quantity { kRate, kLatency, kLoss, kData, kCopy, kFold, kShared, kRunning, kInsidePath };
// The sending or receiving side of a node; the path between two nodes that are both good; or what a node does without others.
enum class Part { kSends, kReceives, kPath, kInside };

struct Finding {
  Quantity quantity = Quantity::kRate;
  Part part = Part::kSends;
  int node = 0;
  int to = -1;  // the end of the path; -1: not a path
  // Of the cluster's rate (times the share that is expected of the nodes) or latency; of a loss, the share of segments that were resent; 1 for data.
  double factor = 1;
  int partners = 0;  // the number of partners that saw it; inside a node the number of paths, or 0
  // Measured often enough to blame it. Unconfirmed findings are measured again (rounds.h).
  bool confirmed = false;
  int rail = -1;       // with that adapter alone; -1: with all adapters of the node
  std::string what{};  // of kInsidePath, and of data inside a node: the path or part
};

// Nodes that are slow with others and not among themselves: what joins them to the others is slow, not they. Both parts are named where it
// is not known which direction is slow.
struct Uplink {
  Part part = Part::kSends;  // or kReceives
  std::vector<int> nodes;    // two or more, in ascending order
  // The median of what slow pairs across it reach, of what both nodes reach elsewhere: the cluster's rate, unless one of them is slow itself.
  double factor = 1;
  bool at_once = false;  // slow only while several of them exchange data with others
  bool confirmed = true;
  int rail = -1;
};

struct Verdict {
  // Of the cluster, the rate of nodes from which the most is expected; 0: not measured.
  double bytes_per_s = 0, latency_s = 0;
  double scatter = 0;  // of the rates, as a share of them: 1.48 median absolute deviations
  // The smallest loss of a node's rate, as a share, that can be detected.
  double least_loss = 0;
  // By node; the sending side first.
  std::vector<Finding> findings;
  std::vector<Uplink> uplinks;
  // Nodes that are slow while they send and receive at once, by themselves or behind an uplink, in ascending order.
  std::vector<int> slow_at_once{};
  // Rounds in which nearly all pairs were slow while both nodes sent, as whenever these met; and no uplink explains it.
  std::vector<int> slow_rounds{};
};

// Adds what was found with one adapter of each node alone, except what is so with each of them: that is of the node as a whole.
void addRails(Verdict& verdict, const std::vector<Verdict>& rails);
// Whether it is one adapter that explains the finding of the whole node.
bool isOfRail(const Verdict& verdict, const Finding& finding);
// Whether there is something to be measured again.
bool anyUnconfirmed(const Verdict& verdict);
// Whether it is the uplink of the node that is slow, and not the node.
bool isOfUplink(const Verdict& verdict, const Finding& finding);
// Whether it is confirmed that the node itself sends or receives slowly.
bool isSlowNode(const Verdict& verdict, const Finding& finding);

// Adds findings of other measurements, in their place.
void addFindings(Verdict& verdict, const std::vector<Finding>& findings);

// Takes any number of samples of any pairs. Samples without a positive rate or latency only count for data errors.
Verdict diagnose(const Figures& figures);

}  // namespace horing::check
