#include "horing_check/numa_paths.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "engine/host/fold.h"
#include "horing_check/pieces.h"
#include "topology/cpu_mask.h"

namespace horing::check {

namespace {

constexpr size_t kNumaBytes = 32 << 20, kNumaPiece = 256 << 10;
// Of a pair, and of all.
constexpr double kMostPairSeconds = 0.05, kMostNumaSeconds = 1;

bool moveTo(const std::vector<int32_t>& cpus) {
  cpu_set_t* const set = CPU_ALLOC(kMaxCpus);
  const size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  if (!set) return false;
  CPU_ZERO_S(bytes, set);
  for (const int32_t cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, set);
  const bool moved = ::sched_setaffinity(0, bytes, set) == 0;
  CPU_FREE(set);
  return moved;
}

// Fresh pages, which lie where the thread that writes them first runs. A resource.
class FreshPages {
 public:
  FreshPages()
      : at_(::mmap(nullptr, kNumaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (at_ != MAP_FAILED) std::memset(at_, 1, kNumaBytes);
  }
  ~FreshPages() {
    if (at_ != MAP_FAILED) ::munmap(at_, kNumaBytes);
  }
  FreshPages(const FreshPages&) = delete;
  FreshPages& operator=(const FreshPages&) = delete;

  std::byte* data() const { return at_ == MAP_FAILED ? nullptr : static_cast<std::byte*>(at_); }

 private:
  void* const at_;
};

// 0: not measured.
double rateBetween(const NumaPlace& from, const NumaPlace& to, double seconds) {
  if (!moveTo(from.cpus)) return 0;
  const FreshPages source;
  if (!moveTo(to.cpus)) return 0;
  const FreshPages copy;
  if (!source.data() || !copy.data()) return 0;
  return rateOfPieces(kNumaPiece, seconds, [&](size_t turn) {
    const size_t at = turn * kNumaPiece % kNumaBytes;
    std::byte* const end = copy.data() + at;
    streamBytes(source.data() + at, std::span(&end, 1), kNumaPiece);
    streamFence();
  });
}

}  // namespace

std::vector<NumaPlace> numaPlaces(const MachineGraph& graph, const std::vector<int32_t>& usable) {
  std::vector<NumaPlace> places;
  for (const int32_t index : graph.ofKind(NodeKind::kNuma)) {
    const GraphNode& node = graph.node(index);
    NumaPlace place{node.name, graph.within(index, NodeKind::kPackage), {}};
    std::ranges::set_intersection(node.cpus, usable, std::back_inserter(place.cpus));
    if (!place.cpus.empty()) places.push_back(std::move(place));
  }
  return places;
}

std::vector<InsidePath> pathsBetween(const std::vector<NumaPlace>& places) {
  const std::vector<int32_t> usual = cpusOfThisThread();
  const auto pairs = static_cast<double>(places.size() * (places.size() - 1));
  const double seconds = std::min(kMostPairSeconds, kMostNumaSeconds / std::max(pairs, 1.0));
  std::vector<InsidePath> paths;
  for (const NumaPlace& from : places)
    for (const NumaPlace& to : places) {
      if (&from == &to) continue;
      const double rate = rateBetween(from, to, seconds);
      const char* const joined = from.package == to.package ? "one package" : "across packages";
      if (rate > 0)
        paths.push_back({std::string("memory between NUMA nodes, ") + joined, "NUMA node " + from.name,
                         "NUMA node " + to.name, rate});
    }
  (void)moveTo(usual);
  return paths;
}

std::vector<InsidePath> numaPaths(const MachineGraph& graph) {
  return pathsBetween(numaPlaces(graph, cpusOfThisThread()));
}

}  // namespace horing::check
