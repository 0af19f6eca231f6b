#include "ho_ring/job_layout.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace horing::bench {

namespace {

constexpr int kConnectMs = 30'000;
constexpr size_t kMaxStreams = 8;

struct NodeLabel {
  char text[72];
};

NodeLabel ownLabel() {
  NodeLabel label{};
  if (const char* node = std::getenv("HORING_RUN_NODE")) {
    std::snprintf(label.text, sizeof label.text, "%s", node);
    return label;
  }
  (void)gethostname(label.text, sizeof label.text - 1);
  return label;
}

struct Listening {
  StreamAddress streams[kMaxStreams];
};

}  // namespace

Result<JobLayout> findLayout(perf::Ranks& ranks) {
  const NodeLabel mine = ownLabel();
  HORING_ASSIGN(const std::vector<char> bytes, ranks.gather(&mine, sizeof mine));
  JobLayout layout;
  std::vector<std::string> nodes;
  std::vector<int> members;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const std::string label = bytes.data() + static_cast<size_t>(rank) * sizeof(NodeLabel);
    const auto node = static_cast<size_t>(std::find(nodes.begin(), nodes.end(), label) - nodes.begin());
    if (node == nodes.size()) {
      nodes.push_back(label);
      layout.leaders.push_back(rank);
      members.push_back(0);
    }
    ++members[node];
    if (rank != ranks.rank()) continue;
    layout.node = static_cast<int>(node);
    layout.is_leader = layout.leaders[node] == rank;
  }
  layout.shape = {static_cast<int>(nodes.size()), ranks.size()};
  layout.even = std::all_of(members.begin(), members.end(), [&](int m) { return m == members[0]; });
  return layout;
}

Result<std::vector<DuplexStream>> connectNeighbours(perf::Ranks& ranks, const JobLayout& layout,
                                                    const std::vector<std::string>& interfaces) {
  std::vector<StreamListener> listeners;
  Listening mine{};
  if (layout.is_leader && layout.shape.nodes > 1) {
    HORING_ASSIGN(const std::vector<in_addr> addresses, interfaceAddresses(interfaces));
    for (size_t i = 0; i < std::min(addresses.size(), kMaxStreams); ++i) {
      HORING_ASSIGN(StreamListener listener, StreamListener::open(addresses[i]));
      mine.streams[i] = listener.address();
      listeners.push_back(std::move(listener));
    }
  }
  HORING_ASSIGN(const std::vector<char> bytes, ranks.gather(&mine, sizeof mine));
  std::vector<DuplexStream> streams;
  const auto next_node = static_cast<size_t>((layout.node + 1) % layout.shape.nodes);
  Listening next;
  std::memcpy(&next, bytes.data() + static_cast<size_t>(layout.leaders[next_node]) * sizeof next,
              sizeof next);
  const SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, kConnectMs);
  for (size_t i = 0; i < listeners.size(); ++i) {
    DuplexStream stream;
    HORING_ASSIGN(stream.out, connectStream(next.streams[i], deadline));  // completes before the peer accepts
    HORING_ASSIGN(stream.in, listeners[i].accept(deadline));
    streams.push_back(std::move(stream));
  }
  return streams;
}

}  // namespace horing::bench
