#pragma once
// The machine as a graph: a tree of where things are (packages, NUMA nodes, PCI bridges, GPUs, NICs) and, beside the
// tree, direct links between GPUs (NVLink, xGMI). What the ring search walks, and what horing-topo draws.
//
// All bandwidths are GB/s (1e9 bytes) in one direction; 0 means that nobody said.
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
  double gbytes_per_s = 0;       // of the way up to the parent
  double port_gbytes_per_s = 0;  // of a NIC's line
  std::string bus;               // PCI address, "0000:3b:00.0"; empty: not on PCI
  std::vector<int32_t> cpus;     // of a NUMA node, ascending; empty: nobody said
  std::string detail;            // for people: a model, other names of a NIC
  bool operator==(const GraphNode&) const = default;
};

// Between two GPUs, or a GPU and a fabric (of switches) that joins many. a < b.
struct GraphLink {
  int32_t a = 0;
  int32_t b = 0;
  double gbytes_per_s = 0;
  bool operator==(const GraphLink&) const = default;
};

// How two nodes reach each other, best first.
enum class PathKind : uint8_t { kSame, kDirect, kBridge, kNuma, kPackage, kMachine };
// "in one place", "direct link", "one PCIe switch", "one NUMA node", "one package", "across the machine".
const char* pathKindName(PathKind kind);

struct GraphPath {
  PathKind kind = PathKind::kSame;
  double gbytes_per_s = 0;  // of the narrowest part that is known
  int32_t hops = 0;         // edges of the tree, or 1
};

// Nobody says how wide the ways between NUMA nodes and between packages are. Only their order matters to the search.
inline constexpr double kAssumedNumaGBytesPerS = 32;
inline constexpr double kAssumedPackageGBytesPerS = 16;

inline constexpr size_t kMaxGraphNodes = 4096;
inline constexpr size_t kMaxGraphLinks = 8192;
inline constexpr size_t kMaxFabrics = 16;
inline constexpr size_t kMaxNodeNameBytes = 63;
inline constexpr double kMaxGBytesPerS = 1e5;

// An immutable value. Thread safe as such.
class MachineGraph {
 public:
  // Checks all that the fields above promise; node 0 is the machine. Text that a terminal would not show as it is
  // makes it fail. `lines`: of the file that the nodes come from, for errors; 0, or fewer than nodes: nobody knows.
  static Result<MachineGraph> make(std::vector<GraphNode> nodes, std::vector<GraphLink> links,
                                   std::span<const int32_t> lines = {});

  // What whoever reads the file should tell its user: sentences, of what was left out or understood otherwise.
  const std::vector<std::string>& remarks() const { return remarks_; }
  void setRemarks(std::vector<std::string> remarks) { remarks_ = std::move(remarks); }

  std::span<const GraphNode> nodes() const { return nodes_; }
  std::span<const GraphLink> links() const { return links_; }
  const GraphNode& node(int32_t index) const { return nodes_[static_cast<size_t>(index)]; }
  std::optional<int32_t> find(NodeKind kind, std::string_view name) const;
  // In the order of the tree, every subtree as one piece.
  std::vector<int32_t> ofKind(NodeKind kind) const;
  std::vector<int32_t> childrenOf(int32_t index) const;
  // Place in a walk of the tree that finishes a subtree before the next begins.
  int32_t treePosition(int32_t index) const { return tree_position_[static_cast<size_t>(index)]; }
  // Nearest ancestor, or itself, of one kind; -1: none.
  int32_t within(int32_t index, NodeKind kind) const;
  // A direct link where there is one that is not slower than the way through the tree.
  GraphPath path(int32_t from, int32_t to) const;

  // Remarks do not count.
  bool operator==(const MachineGraph& other) const {
    return nodes_ == other.nodes_ && links_ == other.links_;
  }

 private:
  void walkTree();
  GraphPath treePath(int32_t from, int32_t to) const;
  double linkGBytesPerS(int32_t from, int32_t to) const;
  double directGBytesPerS(int32_t from, int32_t to) const;

  std::vector<GraphNode> nodes_;
  std::vector<GraphLink> links_;  // sorted by their ends
  std::vector<int32_t> fabrics_;
  std::vector<int32_t> tree_position_;
  std::vector<std::string> remarks_;
};

// What one lane of PCIe moves, times the lanes. `giga_transfers` as the link says: 2.5, 5, 8, 16, 32, 64.
double pcieGBytesPerS(double giga_transfers, int lanes);

}  // namespace horing
