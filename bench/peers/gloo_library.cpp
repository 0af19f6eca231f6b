// peer_gloo: Gloo over TCP, its only transport without RDMA, inside a node too. Ranks meet through files in a folder
// (GLOO_STORE) and use the interface GLOO_INTERFACE; RANK and WORLD_SIZE say who is who.
//
// All-reduce (a ring) and all-gather are the functions of its current interface; reduce-scatter it has only as halving and
// doubling in place, an object for each size, which is kept.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>

#include "peers/turns.h"

namespace horing::bench {
namespace {

constexpr std::chrono::minutes kTimeout{2};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

class Gloo final : public Library {
 public:
  Gloo()
      : context_(std::make_shared<gloo::rendezvous::Context>(std::atoi(variable("RANK").c_str()),
                                                             std::atoi(variable("WORLD_SIZE").c_str()))) {
    gloo::transport::tcp::attr where;
    where.iface = variable("GLOO_INTERFACE");
    gloo::rendezvous::FileStore store(variable("GLOO_STORE"));
    context_->setTimeout(kTimeout);
    context_->connectFullMesh(store, device_ = gloo::transport::tcp::CreateDevice(where));
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  Result<const float*> run(const Call& call) override try {
    switch (call.collective) {
      case Collective::kAllReduce:
        return allReduce(call);
      case Collective::kReduceScatter:
        return reduceScatter(call);
      case Collective::kAllGather:
        return allGather(call);
      default:
        break;
    }
    return makeStatus(Code::kInvalidUsage, "not measured with Gloo: %s", collectiveName(call.collective));
  } catch (const std::exception& error) {
    return makeStatus(Code::kInternalError, "Gloo: %s", error.what());
  }

 private:
  using ReduceScatter = gloo::ReduceScatterHalvingDoubling<float>;
  using Sum = void (*)(void*, const void*, const void*, size_t);

  const float* allReduce(const Call& call) {
    gloo::AllreduceOptions options(context_);
    options.setInput(call.send, call.count);
    options.setOutput(call.receive, call.count);
    options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
    gloo::allreduce(options);
    return call.receive;
  }

  const float* allGather(const Call& call) {
    gloo::AllgatherOptions options(context_);
    options.setInput(call.send, call.count);
    options.setOutput(call.receive, call.count * static_cast<size_t>(size()));
    gloo::allgather(options);
    return call.receive;
  }

  const float* reduceScatter(const Call& call) {
    std::unique_ptr<ReduceScatter>& algorithm = reduce_scatters_[{call.send, call.count}];
    if (!algorithm) {
      const std::vector<int> counts(static_cast<size_t>(size()), static_cast<int>(call.count));
      algorithm = std::make_unique<ReduceScatter>(context_, std::vector<float*>{call.send},
                                                  static_cast<int>(call.count) * size(), counts);
    }
    algorithm->run();
    return call.send;
  }

  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::map<std::pair<float*, size_t>, std::unique_ptr<ReduceScatter>> reduce_scatters_;
};

int glooMain(int argc, char** argv) try {
  Gloo library;
  return takeTurns(library, argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "peer_gloo: %s\n", error.what());
  return 3;
}

}  // namespace
}  // namespace horing::bench

int main(int argc, char** argv) {
  return horing::bench::glooMain(argc, argv);
}
