#pragma once
// ho_ring against ring, and both against the wire, in turns: each repetition times every competitor once, so that a slow moment of
// the machine affects all of them.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "ho_ring/duplex_stream.h"
#include "ho_ring/job_layout.h"
#include "perf/ranks.h"
#include "perf/sweep.h"

namespace horing::bench {

struct ContestOptions {
  std::vector<uint64_t> sizes;  // D, in bytes
  std::vector<Collective> collectives;
  int repetitions = 7;
  int warmup = 1;
  double rate_mbit = 0;  // of a node, all its links together; 0: not known
};

// Times in milliseconds, of the slowest rank, one for each repetition.
struct Samples {
  std::vector<double> times_ms;
  std::vector<double> link_bytes;  // the busiest direction of the busiest node's links

  double median() const;
  double least() const;
  double most() const;
  double medianLinkBytes() const;
};

struct Match {
  Collective collective = Collective::kAllGather;
  uint64_t bytes = 0;  // D, as it was measured
  Samples ring;
  Samples ho_ring;
};

struct SizeResult {
  uint64_t bytes = 0;
  double raw_bytes = 0;  // that each raw stream moved: D(M-1)/M per node
  Samples raw;           // empty with one node
  std::vector<Match> matches;
};

class Contest {
 public:
  // Both communicators have the same ranks; neither is owned. The streams come from connectNeighbours().
  Contest(perf::Ranks ring, perf::Ranks ho_ring, JobLayout layout, std::vector<DuplexStream> streams)
      : ring_(ring), ho_ring_(ho_ring), layout_(std::move(layout)), streams_(std::move(streams)) {}

  using Progress = std::function<void(const std::string& text)>;

  // Collective. Checks that results are right first: kInternalError if not. Otherwise the library's errors.
  Result<std::vector<SizeResult>> run(const ContestOptions& options, const Progress& progress);

 private:
  struct Operation {
    const perf::CollectiveTest& test;
    perf::Layout layout;
  };

  Status allocate(const ContestOptions& options);
  Operation operationOf(Collective collective, uint64_t bytes) const;
  Result<SizeResult> runSize(uint64_t bytes, const ContestOptions& options, const Progress& progress);
  Status repeat(SizeResult& result, bool kept, int turn);
  Status checkData(perf::Ranks& ranks, const Operation& operation);
  Status timeOperation(perf::Ranks& ranks, const Operation& operation, Samples* samples);
  Status timeRaw(double bytes, Samples* samples);
  Status launch(perf::Ranks& ranks, const Operation& operation);

  perf::Ranks ring_;
  perf::Ranks ho_ring_;
  JobLayout layout_;
  std::vector<DuplexStream> streams_;
  perf::Buffer send_;
  perf::Buffer receive_;
};

}  // namespace horing::bench
