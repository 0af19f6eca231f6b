// wire_bounds_bench: all-to-all and the collectives of uneven blocks, beside what the wire between nodes allows. Run it under
// horing-run:
//
//   horing-run -n 8 --nodes 2 --rate 1000 -- wire_bounds_bench [BYTES] [REPETITIONS]      default 16777216, 5
//
// A collective moves BYTES: all blocks of all-gather-v, reduce-scatter-v, gather-v and scatter-v together, or what each rank has
// to send in all-to-all. Blocks of uneven collectives are one, two or three parts large, by turns. The bound is the most that
// must cross the links of one node in one direction, at the nominal rate of its links together. A time runs from a barrier to
// the end on the slowest rank. Rank 0 prints a line of JSON for each collective. Exit code 0 when measured.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ho_ring/bounds.h"
#include "ho_ring/job_layout.h"
#include "perf/ranks.h"
#include "perf/report_json.h"

namespace horing::bench {
namespace {

using Counts = std::vector<size_t>;
constexpr int kRoot = 0;

struct Job {
  perf::Ranks& ranks;
  std::vector<int> node_of_rank;
  int nodes = 1;
  size_t elements = 0;  // float
  double rate_mbit = 0;
  std::vector<float> input, output;

  size_t size() const { return static_cast<size_t>(ranks.size()); }
  size_t rank() const { return static_cast<size_t>(ranks.rank()); }
};

// `elements` in blocks of one, two or three parts; the first in order is that of rank `first`.
Counts unevenCounts(size_t blocks, size_t elements, size_t first) {
  Counts counts(blocks);
  size_t parts = 0;
  for (size_t block = 0; block < blocks; ++block) parts += 1 + (block + first) % 3;
  for (size_t block = 0; block < blocks; ++block)
    counts[block] = elements / parts * (1 + (block + first) % 3);
  return counts;
}

Counts evenCounts(size_t blocks, size_t elements) {
  return Counts(blocks, elements / blocks);
}

// Elements that must cross the busiest node's links in its busier direction, when rank a has sent[a][b] for rank b.
size_t busiest(const Job& job, const std::vector<Counts>& sent) {
  std::vector<size_t> in(static_cast<size_t>(job.nodes)), out(in);
  for (size_t a = 0; a < job.size(); ++a)
    for (size_t b = 0; b < job.size(); ++b) {
      const auto from = static_cast<size_t>(job.node_of_rank[a]),
                 to = static_cast<size_t>(job.node_of_rank[b]);
      if (from == to) continue;
      out[from] += sent[a][b];
      in[to] += sent[a][b];
    }
  return std::max(*std::max_element(in.begin(), in.end()), *std::max_element(out.begin(), out.end()));
}

// Elements of the blocks that belong to other nodes than this one.
size_t elsewhere(const Job& job, const Counts& counts, int node) {
  size_t sum = 0;
  for (size_t rank = 0; rank < job.size(); ++rank) sum += job.node_of_rank[rank] == node ? 0 : counts[rank];
  return sum;
}
size_t mostElsewhere(const Job& job, const Counts& counts) {
  size_t most = 0;
  for (int node = 0; node < job.nodes; ++node) most = std::max(most, elsewhere(job, counts, node));
  return most;
}

struct Case {
  const char* name;
  size_t bound_elements;
  std::function<horingResult_t()> call;
};

// In `sent`, what each rank sends to each.
Case allToAllCase(Job& job, const char* name, const std::vector<Counts>& sent) {
  Counts received(job.size());
  for (size_t from = 0; from < job.size(); ++from) received[from] = sent[from][job.rank()];
  return {name, busiest(job, sent), [&job, own = sent[job.rank()], received] {
            return horingAlltoAllV(job.input.data(), own.data(), nullptr, job.output.data(), received.data(),
                                   nullptr, horingFloat32, job.ranks.comm(), nullptr);
          }};
}

std::vector<Case> casesOf(Job& job) {
  const size_t n = job.size();
  std::vector<Counts> even(n, evenCounts(n, job.elements)), uneven;
  for (size_t rank = 0; rank < n; ++rank) uneven.push_back(unevenCounts(n, job.elements, rank));
  std::vector<Case> cases = {{"all_to_all", busiest(job, even), [&job, block = even[0][0]] {
                                return horingAlltoAll(job.input.data(), job.output.data(), block,
                                                      horingFloat32, job.ranks.comm(), nullptr);
                              }}};
  cases.push_back(allToAllCase(job, "all_to_all_v", uneven));
  const Counts blocks = unevenCounts(n, job.elements, 0);
  const size_t own = blocks[job.rank()], at_root = elsewhere(job, blocks, job.node_of_rank[kRoot]);
  cases.push_back({"all_gather_v", mostElsewhere(job, blocks), [&job, blocks, own] {
                     return horingAllGatherV(job.input.data(), own, job.output.data(), blocks.data(), nullptr,
                                             horingFloat32, job.ranks.comm(), nullptr);
                   }});
  cases.push_back({"reduce_scatter_v", mostElsewhere(job, blocks), [&job, blocks] {
                     return horingReduceScatterV(job.input.data(), blocks.data(), nullptr, job.output.data(),
                                                 horingFloat32, horingSum, job.ranks.comm(), nullptr);
                   }});
  cases.push_back({"gather_v", at_root, [&job, blocks, own] {
                     return horingGatherV(job.input.data(), own, job.output.data(), blocks.data(), nullptr,
                                          horingFloat32, kRoot, job.ranks.comm(), nullptr);
                   }});
  cases.push_back({"scatter_v", at_root, [&job, blocks, own] {
                     return horingScatterV(job.input.data(), blocks.data(), nullptr, job.output.data(), own,
                                           horingFloat32, kRoot, job.ranks.comm(), nullptr);
                   }});
  return cases;
}

// Milliseconds on the slowest rank.
Result<double> timeOnce(Job& job, const Case& one) {
  const SteadyClock clock;
  HORING_TRY(job.ranks.barrier());
  const int64_t begun_ns = clock.nowNs();
  HORING_TRY(perf::called(one.call(), job.ranks.comm(), one.name));
  return job.ranks.most(static_cast<double>(clock.nowNs() - begun_ns) * 1e-6);
}

Status measure(Job& job, const Case& one, int repetitions) {
  std::vector<double> times_ms;
  HORING_TRY(timeOnce(job, one).status());  // connects
  for (int i = 0; i < repetitions; ++i) {
    HORING_ASSIGN(const double took_ms, timeOnce(job, one));
    times_ms.push_back(took_ms);
  }
  std::sort(times_ms.begin(), times_ms.end());
  const double median_ms = times_ms[times_ms.size() / 2];
  const double bound_ms = wireTimeMs(static_cast<double>(one.bound_elements * sizeof(float)), job.rate_mbit);
  if (job.rank() == 0)
    std::printf(
        "{\"collective\": \"%s\", \"nodes\": %d, \"ranks\": %zu, \"rate_mbit\": %g, \"bytes\": %zu, "
        "\"least_ms\": %.3f, \"median_ms\": %.3f, \"bound_ms\": %.3f, \"over_bound\": %.4f}\n",
        one.name, job.nodes, job.size(), job.rate_mbit, job.elements * sizeof(float), times_ms.front(),
        median_ms, bound_ms, bound_ms > 0 ? median_ms / bound_ms : 0);
  return {};
}

// Of all links of a node; 0 where horing-run shaped none.
double nodeRateMbit() {
  const char* const rate = std::getenv("HORING_RUN_RATE_MBIT");
  const char* const names = std::getenv("HORING_RUN_INTERFACES");
  const std::string interfaces = names ? names : "";
  const auto links = 1 + std::count(interfaces.begin(), interfaces.end(), ',');
  return rate ? std::atof(rate) * static_cast<double>(links) : 0;
}

Status run(size_t bytes, int repetitions) {
  horingComm_t comm = nullptr;
  HORING_TRY(perf::called(horingCommInitFromEnv(&comm), nullptr, "horingCommInitFromEnv"));
  HORING_ASSIGN(perf::Ranks ranks, perf::Ranks::of(comm));
  HORING_ASSIGN(const JobLayout layout, findLayout(ranks));
  HORING_ASSIGN(const std::vector<char> nodes, ranks.gather(&layout.node, sizeof layout.node));
  Job job{.ranks = ranks,
          .nodes = layout.shape.nodes,
          .elements = bytes / sizeof(float),
          .rate_mbit = nodeRateMbit()};
  job.node_of_rank.resize(job.size());
  std::copy(nodes.begin(), nodes.end(), reinterpret_cast<char*>(job.node_of_rank.data()));
  // A rank may receive more than it sends.
  job.input.assign(job.elements, 1.0f);
  job.output.assign(3 * job.elements, 0.0f);
  for (const Case& one : casesOf(job)) HORING_TRY(measure(job, one, repetitions));
  return perf::called(horingCommDestroy(comm), nullptr, "horingCommDestroy");
}

}  // namespace
}  // namespace horing::bench

int main(int argc, char** argv) {
  const long long bytes = argc > 1 ? std::atoll(argv[1]) : 16 << 20;
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 5;
  if (bytes < 4096 || repetitions < 1) {
    std::fprintf(
        stderr,
        "usage: horing-run -n RANKS --nodes M --rate MBIT -- wire_bounds_bench [BYTES, 4096 or more] "
        "[REPETITIONS]\n");
    return horing::perf::kExitInvalidUsage;
  }
  const horing::Status status = horing::bench::run(static_cast<size_t>(bytes), repetitions);
  if (status.ok()) return horing::perf::kExitOk;
  std::fprintf(stderr, "wire_bounds_bench: %s\n", status.message().c_str());
  return horing::perf::kExitLibrary;
}
