// The same as all_reduce.c, in C++: errors are exceptions, and the communicator ends with its scope.
#include <cstdio>
#include <horing/horing.hpp>

int main() try {
  horing::Communicator comm = horing::Communicator::fromEnvironment();
  float sum[1] = {static_cast<float>(comm.rank() + 1)};
  comm.allReduce(sum);
  std::printf("sum %g\n", sum[0]);
  const int ranks = comm.size();
  return sum[0] == static_cast<float>(ranks * (ranks + 1) / 2) ? 0 : 3;
} catch (const horing::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
