#pragma once
// The machine as a graph: a tree of its components (packages, NUMA nodes, PCI bridges, GPUs, NICs) and direct links between GPUs (NVLink,
// xGMI). Used by the ring search, and drawn by horing-topo.
//
// All bandwidths are GB/s (1e9 bytes) in one direction; 0 means unknown.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace horing {

enum class NodeKind : uint8_t { kMachine, kPackage, kNuma, kBridge, kGpu, kNic, kFabric };
inline constexpr int kNodeKinds = 7;
// "machine", "package", "numa", "bridge", "gpu", "nic", "fabric".
const char* nodeKindName(NodeKind kind);

struct GraphNode {
  NodeKind kind = NodeKind::kMachine;
  int32_t parent = -1;           // a node with a lower index; -1 for the machine only
  std::string name;              // unique among nodes of one kind: "0", "0000:3b:00.0", "mlx5_0"
  double gbytes_per_s = 0;       // of the edge to the parent
  double port_gbytes_per_s = 0;  // of a NIC's port
  std::string bus;               // PCI address, "0000:3b:00.0"; empty: not on PCI
  std::vector<int32_t> cpus;     // of a NUMA node, ascending; empty: unknown
  std::string detail;            // for display: a model, other names of a NIC
  double host_gbytes_per_s = 0;  // of a GPU's own link to its processor (NVLink-C2C), beside PCIe; 0: none
  bool operator==(const GraphNode&) const = default;
};

// A link between two GPUs, or between a GPU and a fabric of switches. a < b.
struct GraphLink {
  int32_t a = 0;
  int32_t b = 0;
  double gbytes_per_s = 0;
  bool operator==(const GraphLink&) const = default;
};

// The kind of path between two nodes, best first.
enum class PathKind : uint8_t { kSame, kDirect, kBridge, kNuma, kPackage, kMachine };
// "in one place", "direct link", "one PCIe switch", "one NUMA node", "one package", "across the machine".
const char* pathKindName(PathKind kind);

struct GraphPath {
  PathKind kind = PathKind::kSame;
  double gbytes_per_s = 0;  // the smallest known bandwidth on the path
  int32_t hops = 0;         // edges of the tree, or 1
};

// Bandwidths between NUMA nodes and packages are unknown. Only their order matters to the search.
inline constexpr double kAssumedNumaGBytesPerS = 32;
inline constexpr double kAssumedPackageGBytesPerS = 16;
// Whether a rate is one of these: what is shown of it says so.
constexpr bool isAssumedRate(double gbytes_per_s) {
  return gbytes_per_s == kAssumedNumaGBytesPerS || gbytes_per_s == kAssumedPackageGBytesPerS;
}

inline constexpr size_t kMaxGraphNodes = 4096;
inline constexpr size_t kMaxGraphLinks = 8192;
inline constexpr size_t kMaxFabrics = 16;
inline constexpr size_t kMaxNodeNameBytes = 63;
inline constexpr double kMaxGBytesPerS = 1e5;

// An immutable value. Thread safe as such.
class MachineGraph {
 public:
  // Checks the invariants of the fields above; node 0 is the machine. Fails on text with unprintable characters. `lines`: line numbers of
  // the nodes in the file, for errors; 0, or missing: unknown.
  static Result<MachineGraph> make(std::vector<GraphNode> nodes, std::vector<GraphLink> links,
                                   std::span<const int32_t> lines = {});

  // Remarks for the user of the file: sentences about parts that were skipped or interpreted differently.
  const std::vector<std::string>& remarks() const { return remarks_; }
  void setRemarks(std::vector<std::string> remarks) { remarks_ = std::move(remarks); }

  std::span<const GraphNode> nodes() const { return nodes_; }
  std::span<const GraphLink> links() const { return links_; }
  const GraphNode& node(int32_t index) const { return nodes_[static_cast<size_t>(index)]; }
  std::optional<int32_t> find(NodeKind kind, std::string_view name) const;
  // In tree order: subtrees are contiguous.
  std::vector<int32_t> ofKind(NodeKind kind) const;
  std::vector<int32_t> childrenOf(int32_t index) const;
  // The node's place in a depth-first walk.
  int32_t treePosition(int32_t index) const { return tree_position_[static_cast<size_t>(index)]; }
  // Nearest ancestor, or itself, of one kind; -1: none.
  int32_t within(int32_t index, NodeKind kind) const;
  // The direct link, if there is one that is not slower than the path through the tree, or has `enough`; otherwise the path. A GPU with a
  // link to its processor takes that, except to what shares a PCIe switch with it.
  GraphPath path(int32_t from, int32_t to, double enough = kMaxGBytesPerS) const;

  // Ignores remarks.
  bool operator==(const MachineGraph& other) const {
    return nodes_ == other.nodes_ && links_ == other.links_;
  }

 private:
  void walkTree();
  int32_t commonHolder(int32_t a, int32_t b) const;
  void climb(int32_t from, int32_t top, GraphPath& path) const;
  GraphPath treePath(int32_t from, int32_t to) const;
  double linkGBytesPerS(int32_t from, int32_t to) const;
  double directGBytesPerS(int32_t from, int32_t to) const;

  std::vector<GraphNode> nodes_;
  std::vector<GraphLink> links_;  // sorted by their ends
  std::vector<int32_t> fabrics_;
  std::vector<int32_t> tree_position_;
  std::vector<std::string> remarks_;
};

// The bandwidth of a PCIe link. `giga_transfers`: per lane: 2.5, 5, 8, 16, 32, 64.
double pcieGBytesPerS(double giga_transfers, int lanes);

}  // namespace horing
