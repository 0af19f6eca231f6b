// peer_horing: horing itself, in the comparison with its peers. Rank, size and rendezvous address come from the environment, as for
// any program. With PEERS_MEMALLOC set, buffers are from horingMemAlloc.
#include <cstdio>
#include <cstdlib>

#include "horing/horing.h"
#include "peers/turns.h"
#include "perf/ranks.h"

namespace horing::bench {
namespace {

class Horing final : public Library {
 public:
  explicit Horing(perf::Ranks ranks) : ranks_(ranks) {}

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }

  Result<Memory> allocate(size_t bytes) override {
    if (!std::getenv("PEERS_MEMALLOC")) return Library::allocate(bytes);
    void* memory = nullptr;
    HORING_TRY(perf::called(horingMemAlloc(&memory, bytes), nullptr, "horingMemAlloc"));
    return Memory(static_cast<float*>(memory), horingMemFree);
  }

  Result<const float*> run(const Call& call) override {
    HORING_TRY(launch(call));
    return call.receive;
  }

 private:
  Status launch(const Call& call) {
    const horingComm_t comm = ranks_.comm();
    switch (call.collective) {
      case Collective::kAllReduce:
        return perf::called(
            horingAllReduce(call.send, call.receive, call.count, horingFloat32, horingSum, comm, nullptr),
            comm, "horingAllReduce");
      case Collective::kReduceScatter:
        return perf::called(
            horingReduceScatter(call.send, call.receive, call.count, horingFloat32, horingSum, comm, nullptr),
            comm, "horingReduceScatter");
      case Collective::kAllGather:
        return perf::called(
            horingAllGather(call.send, call.receive, call.count, horingFloat32, comm, nullptr), comm,
            "horingAllGather");
      default:
        break;
    }
    return makeStatus(Code::kInvalidUsage, "not measured with horing: %s", collectiveName(call.collective));
  }

  perf::Ranks ranks_;
};

Result<perf::Ranks> join() {
  horingComm_t comm = nullptr;
  HORING_TRY(perf::called(horingCommInitFromEnv(&comm), nullptr, "horingCommInitFromEnv"));
  return perf::Ranks::of(comm);
}

}  // namespace
}  // namespace horing::bench

int main(int argc, char** argv) {
  const horing::Result<horing::perf::Ranks> ranks = horing::bench::join();
  if (!ranks.ok()) {
    std::fprintf(stderr, "peer_horing: %s\n", ranks.status().message().c_str());
    return 3;
  }
  horing::bench::Horing library(ranks.value());
  const int code = horing::bench::takeTurns(library, argc, argv);
  horingCommDestroy(ranks.value().comm());
  return code;
}
