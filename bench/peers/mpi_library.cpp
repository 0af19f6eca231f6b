// peer_openmpi and peer_mpich: one source, compiled once with each MPI. The settings with which libraries.py starts it choose the
// algorithms.
#include <mpi.h>

#include <cstdio>

#include "peers/turns.h"

namespace horing::bench {
namespace {

class Mpi final : public Library {
 public:
  Mpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Result<const float*> run(const Call& call) override {
    const int count = static_cast<int>(call.count);
    switch (call.collective) {
      case Collective::kAllReduce:
        return outcome(call,
                       MPI_Allreduce(call.send, call.receive, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
      case Collective::kReduceScatter:
        return outcome(call, MPI_Reduce_scatter_block(call.send, call.receive, count, MPI_FLOAT, MPI_SUM,
                                                      MPI_COMM_WORLD));
      case Collective::kAllGather:
        return outcome(
            call, MPI_Allgather(call.send, count, MPI_FLOAT, call.receive, count, MPI_FLOAT, MPI_COMM_WORLD));
      default:
        break;
    }
    return makeStatus(Code::kInvalidUsage, "not measured with MPI: %s", collectiveName(call.collective));
  }

 private:
  // By default MPI ends the program at an error; this is for programs that make it return errors.
  static Result<const float*> outcome(const Call& call, int code) {
    if (code != MPI_SUCCESS) return makeStatus(Code::kInternalError, "MPI returned %d", code);
    return call.receive;
  }

  int rank_ = 0;
  int size_ = 0;
};

}  // namespace
}  // namespace horing::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int code = 0;
  {
    horing::bench::Mpi library;
    code = horing::bench::takeTurns(library, argc, argv);
  }
  MPI_Finalize();
  return code;
}
