// Threads: all ranks are threads of one process, so no launcher is needed. Each thread uses a communicator of its own.
#include <cstdio>
#include <horing/horing.hpp>
#include <thread>
#include <vector>

int main() try {
  constexpr int kRanks = 4;
  std::vector<horing::Communicator> comms = horing::Communicator::all(kRanks);
  std::vector<double> sums(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        double value[1] = {rank + 1.0};
        comms[rank].allReduce(value);
        sums[rank] = value[0];
      } catch (const horing::Error& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  bool right = true;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::printf("rank %d: sum %g\n", rank, sums[rank]);
    right = right && sums[rank] == kRanks * (kRanks + 1) / 2;
  }
  return right ? 0 : 1;
} catch (const horing::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
