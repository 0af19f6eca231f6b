#pragma once
// The collectives that the *_perf programs measure, as a table: the buffers of a size, the expected results, and the calls.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "horing/horing.h"
#include "perf/traffic.h"

namespace horing::perf {

// Elements first .. first + count - 1 of an operation. An operation numbers the elements of all its send buffers; where
// data is reduced, the elements that become one have the same number.
struct Stretch {
  uint64_t first = 0;
  size_t count = 0;
};

// One operation as one of its ranks sees it. In place, an element that a rank sends and receives has one address.
struct Layout {
  size_t argument = 0;           // the count handed to the collective
  uint64_t bytes = 0;            // the "size" of the table, the same on every rank
  Stretch send;                  // the send buffer
  std::vector<Stretch> receive;  // the receive buffer, front to back
  // Elements for and from each rank; only where they differ.
  std::vector<size_t> send_counts;
  std::vector<size_t> receive_counts;

  size_t receiveCount() const;
};

// What a layout depends on.
struct Job {
  DataType type = DataType::kFloat32;
  int ranks = 1;
  int rank = 0;
  uint64_t bytes = 0;                // the operation is the largest that is not larger
  const Traffic* traffic = nullptr;  // for blocks given by a traffic
};

// One call.
struct Call {
  const void* send = nullptr;
  void* receive = nullptr;
  const Layout& layout;
  horingDataType_t type = horingFloat32;
  horingRedOp_t op = horingSum;
  int root = 0;
  horingComm_t comm = nullptr;
  int rank = 0;
  int ranks = 1;
  void* stream = nullptr;  // of the GPU that the buffers are on; null: they are on the host
};

enum class Root {
  kNone,
  kSends,     // the others' send buffers are not used
  kReceives,  // the others' receive buffers must stay as they are
};

// A row of the table.
struct CollectiveTest {
  const char* name = nullptr;      // "all_reduce": the program is all_reduce_perf
  const char* function = nullptr;  // the called function, for messages
  bool reduces = false;
  bool in_place = false;  // whether it can be called in place
  Root root = Root::kNone;
  bool in_steps = false;      // of several groups of messages, each after the one before
  bool power_of_two = false;  // whether the number of ranks must be one
  bool by_traffic = false;    // whether a traffic gives the blocks
  // What a link has to carry for each byte of size, so that figures of different numbers of ranks compare.
  double (*bus_factor)(int ranks) = nullptr;
  Layout (*layout)(const Job& job) = nullptr;
  horingResult_t (*launch)(const Call& call) = nullptr;

  bool rooted() const { return root != Root::kNone; }
  bool sends(int rank, int root_rank) const { return root != Root::kSends || rank == root_rank; }
  bool receives(int rank, int root_rank) const { return root != Root::kReceives || rank == root_rank; }
};

std::span<const CollectiveTest> collectiveTests();
// By name, which must be in the table.
const CollectiveTest& collectiveTest(std::string_view name);

}  // namespace horing::perf
