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

// 0: not measured. `source`: pages of the place that is copied from.
double rateTo(const NumaPlace& to, const FreshPages& source, double seconds) {
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

InsidePaths pathsBetween(const std::vector<NumaPlace>& places, std::chrono::steady_clock::time_point latest) {
  const std::vector<int32_t> usual = cpusOfThisThread();
  const auto pairs = static_cast<double>(places.size() * (places.size() - 1));
  const double seconds = std::min(kMostPairSeconds, kMostNumaSeconds / std::max(pairs, 1.0));
  InsidePaths paths;
  for (const NumaPlace& from : places) {
    if (!moveTo(from.cpus)) continue;
    const FreshPages source;
    for (const NumaPlace& to : places) {
      if (&from == &to) continue;
      if (std::chrono::steady_clock::now() >= latest) {
        paths.left_out = "the time was over before all were measured";
        break;
      }
      const double rate = rateTo(to, source, seconds);
      const char* const joined = from.package == to.package ? "one package" : "across packages";
      if (rate > 0)
        paths.all.push_back({std::string("memory between NUMA nodes, ") + joined, "NUMA node " + from.name,
                             "NUMA node " + to.name, rate});
    }
  }
  (void)moveTo(usual);
  return paths;
}

InsidePaths numaPaths(const MachineGraph& graph, std::chrono::steady_clock::time_point latest) {
  return pathsBetween(numaPlaces(graph, cpusOfThisThread()), latest);
}

}  // namespace horing::check
