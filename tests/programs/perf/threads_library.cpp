#include "threads_library.h"

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "horing/horing.h"
#include "perf/element.h"

namespace {

using horing::DataType;

struct Team {
  explicit Team(int n)
      : size(n), barrier(n), send(static_cast<size_t>(n)), send_counts(static_cast<size_t>(n)) {}
  int size;
  std::barrier<> barrier;
  std::vector<const void*> send;
  std::vector<const size_t*> send_counts;  // of an all-to-all
};

double combine(horingRedOp_t op, double a, double b) {
  switch (op) {
    case horingProd:
      return a * b;
    case horingMax:
      return a > b ? a : b;
    case horingMin:
      return a < b ? a : b;
    default:
      return a + b;
  }
}

// In integers modulo 2^64, of which every narrower type is a remainder; order only needs the sign.
uint64_t combineBits(DataType type, horingRedOp_t op, uint64_t a, uint64_t b) {
  if (op == horingProd) return a * b;
  if (op == horingBitAnd) return a & b;
  if (op == horingBitOr) return a | b;
  if (op == horingBitXor) return a ^ b;
  if (op != horingMax && op != horingMin) return a + b;
  const bool less = horing::perf::decodeElement(type, a) < horing::perf::decodeElement(type, b);
  return less == (op == horingMax) ? b : a;
}

uint64_t load(const void* from, size_t index, size_t width) {
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(from) + index * width, width);
  return bits;
}

uint64_t reduceFloat(const Team& team, size_t index, DataType type, horingRedOp_t op) {
  const size_t width = dataTypeBytes(type);
  double value = horing::perf::decodeElement(type, load(team.send[0], index, width));
  for (size_t r = 1; r < team.send.size(); ++r)
    value = combine(op, value, horing::perf::decodeElement(type, load(team.send[r], index, width)));
  return horing::perf::encodeElement(type, op == horingAvg ? value / team.size : value);
}

uint64_t reduceInteger(const Team& team, size_t index, DataType type, horingRedOp_t op) {
  const size_t width = dataTypeBytes(type);
  uint64_t value = load(team.send[0], index, width);
  for (size_t r = 1; r < team.send.size(); ++r)
    value = combineBits(type, op, value, load(team.send[r], index, width));
  if (op != horingAvg) return value;
  const uint64_t mask = width == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * width)) - 1;
  const bool is_signed = type == DataType::kInt8 || type == DataType::kInt32 || type == DataType::kInt64;
  if (!is_signed) return (value & mask) / static_cast<uint64_t>(team.size);
  const int unused = static_cast<int>(64 - 8 * width);
  const int64_t total = static_cast<int64_t>(value << unused) >> unused;
  return static_cast<uint64_t>(total / team.size);
}

}  // namespace

struct horingComm {
  std::shared_ptr<Team> team;
  int rank;
};

namespace horing::testing {

Faults& faults() {
  static Faults instance;
  return instance;
}

}  // namespace horing::testing

namespace {

constexpr size_t kLarge = 2048;

void spoil(std::vector<char>& result) {
  if (horing::testing::faults().corrupt) result[result.size() / 2] ^= 0x10;
  if (horing::testing::faults().shift) std::rotate(result.begin(), result.end() - 16, result.end());
}

// Lets all ranks publish their input, computes this rank's result aside, and writes it when no rank reads any more.
horingResult_t together(horingComm_t comm, const void* send, void* receive, size_t bytes,
                        const std::function<void(std::vector<char>&)>& compute) {
  Team& team = *comm->team;
  team.send[static_cast<size_t>(comm->rank)] = send;
  team.barrier.arrive_and_wait();
  std::vector<char> result(bytes);
  compute(result);
  team.barrier.arrive_and_wait();
  const bool large = bytes > kLarge;
  if (large) spoil(result);
  if (bytes > 0) std::memcpy(receive, result.data(), bytes);
  team.barrier.arrive_and_wait();
  return large && horing::testing::faults().fail_collectives ? horingRemoteError : horingSuccess;
}

// Who plays the root.
size_t rootOf(horingComm_t comm, int root, size_t bytes) {
  const auto ranks = comm->team->send.size();
  return (static_cast<size_t>(root) + (bytes > kLarge && horing::testing::faults().other_root ? 1 : 0)) %
         ranks;
}

// The part that this rank receives of `bytes` for the root.
size_t ofRoot(horingComm_t comm, int root, size_t bytes) {
  const bool touched = bytes > kLarge && horing::testing::faults().touch_others;
  return touched || static_cast<size_t>(comm->rank) == rootOf(comm, root, bytes) ? bytes : 0;
}

// `bytes` from the buffer that rank `of` sends, to the result.
struct Move {
  size_t of;
  size_t from;
  size_t to;
  size_t bytes;
};

horingResult_t move(horingComm_t comm, const void* send, void* receive, size_t result_bytes,
                    const std::function<std::vector<Move>()>& moves) {
  return together(comm, send, receive, result_bytes, [&](std::vector<char>& result) {
    if (result.empty()) return;
    for (const Move& m : moves())
      if (m.bytes > 0)
        std::memcpy(result.data() + m.to, static_cast<const char*>(comm->team->send[m.of]) + m.from, m.bytes);
  });
}

horingResult_t reduce(horingComm_t comm, const void* send, void* receive, size_t first, size_t count,
                      const std::pair<DataType, horingRedOp_t>& kind) {
  const size_t width = dataTypeBytes(kind.first);
  return together(comm, send, receive, count * width, [&](std::vector<char>& result) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = isFloatingPoint(kind.first)
                                ? reduceFloat(*comm->team, first + i, kind.first, kind.second)
                                : reduceInteger(*comm->team, first + i, kind.first, kind.second);
      std::memcpy(result.data() + i * width, &bits, width);
    }
  });
}

size_t bytesOf(size_t count, horingDataType_t type) {
  return count * dataTypeBytes(static_cast<DataType>(type));
}
size_t ranksOf(horingComm_t comm) {
  return comm->team->send.size();
}

// The first `bytes` of each rank, in rank order.
std::function<std::vector<Move>()> oneOfEach(horingComm_t comm, size_t bytes) {
  return [comm, bytes] {
    std::vector<Move> moves;
    for (size_t r = 0; r < ranksOf(comm); ++r) moves.push_back({r, 0, r * bytes, bytes});
    return moves;
  };
}

std::function<std::vector<Move>()> single(const Move& one) {
  return [one] { return std::vector<Move>{one}; };
}

size_t sumOf(const size_t* counts, size_t n) {
  return std::accumulate(counts, counts + n, size_t{0});
}

// What a thread has called since horingGroupStart(); one communicator, and at most one receive from each peer.
struct Group {
  std::map<size_t, std::vector<char>> sends;  // by peer
  struct Receive {
    size_t peer;
    void* buffer;
    size_t bytes;
  };
  std::vector<Receive> receives;
  horingComm_t comm = nullptr;
};
thread_local Group group;

}  // namespace

extern "C" {

horingResult_t horingGetVersion(int* version) {
  *version = HORING_VERSION_CODE;
  return horingSuccess;
}
const char* horingGetErrorString(horingResult_t) {
  return "remote error";
}
const char* horingGetLastError(horingComm_t) {
  return "rank 1 is gone, as the test wished";
}
horingResult_t horingGetUniqueId(horingUniqueId* id) {
  std::memset(id, 7, sizeof *id);
  return horingSuccess;
}
horingResult_t horingCommInitRank(horingComm_t*, int, horingUniqueId, int) {
  return horingInvalidUsage;
}
horingResult_t horingCommInitFromEnv(horingComm_t*) {
  return horingInvalidUsage;
}
horingResult_t horingCommInitAll(horingComm_t* comms, int ndev, const int*) {
  auto team = std::make_shared<Team>(ndev);
  for (int r = 0; r < ndev; ++r) comms[r] = new horingComm{team, r};
  return horingSuccess;
}
horingResult_t horingCommDestroy(horingComm_t comm) {
  delete comm;
  return horingSuccess;
}
horingResult_t horingCommAbort(horingComm_t comm) {
  return horingCommDestroy(comm);
}
horingResult_t horingCommCount(const horingComm_t comm, int* count) {
  *count = comm->team->size;
  return horingSuccess;
}
horingResult_t horingCommUserRank(const horingComm_t comm, int* rank) {
  *rank = comm->rank;
  return horingSuccess;
}
horingResult_t horingCommMemoryBytes(const horingComm_t, uint64_t* bytes) {
  *bytes = 1 << 20;
  return horingSuccess;
}
horingResult_t horingMemAlloc(void** ptr, size_t size) {
  *ptr = std::calloc(1, size);
  return *ptr ? horingSuccess : horingSystemError;
}
horingResult_t horingMemFree(void* ptr) {
  std::free(ptr);
  return horingSuccess;
}
horingResult_t horingCommRegister(const horingComm_t, void*, size_t, void** handle) {
  *handle = nullptr;
  return horingSuccess;
}
horingResult_t horingAllReduce(const void* send, void* receive, size_t count, horingDataType_t type,
                               horingRedOp_t op, horingComm_t comm, horingStream_t) {
  return reduce(comm, send, receive, 0, count, {static_cast<DataType>(type), op});
}
horingResult_t horingReduceScatter(const void* send, void* receive, size_t count, horingDataType_t type,
                                   horingRedOp_t op, horingComm_t comm, horingStream_t) {
  return reduce(comm, send, receive, static_cast<size_t>(comm->rank) * count, count,
                {static_cast<DataType>(type), op});
}
horingResult_t horingAllGather(const void* send, void* receive, size_t count, horingDataType_t type,
                               horingComm_t comm, horingStream_t) {
  const size_t block = bytesOf(count, type);
  return move(comm, send, receive, block * ranksOf(comm), oneOfEach(comm, block));
}
horingResult_t horingBroadcast(const void* send, void* receive, size_t count, horingDataType_t type, int root,
                               horingComm_t comm, horingStream_t) {
  const size_t bytes = bytesOf(count, type);
  return move(comm, send, receive, bytes, single({rootOf(comm, root, bytes), 0, 0, bytes}));
}
horingResult_t horingReduce(const void* send, void* receive, size_t count, horingDataType_t type,
                            horingRedOp_t op, int root, horingComm_t comm, horingStream_t) {
  const size_t received = ofRoot(comm, root, bytesOf(count, type)) > 0 ? count : 0;
  return reduce(comm, send, receive, 0, received, {static_cast<DataType>(type), op});
}
horingResult_t horingGather(const void* send, void* receive, size_t count, horingDataType_t type, int root,
                            horingComm_t comm, horingStream_t) {
  const size_t block = bytesOf(count, type);
  return move(comm, send, receive, ofRoot(comm, root, block * ranksOf(comm)), oneOfEach(comm, block));
}
horingResult_t horingScatter(const void* send, void* receive, size_t count, horingDataType_t type, int root,
                             horingComm_t comm, horingStream_t) {
  const size_t block = bytesOf(count, type);
  const size_t mine = static_cast<size_t>(comm->rank) * block;
  return move(comm, send, receive, block, single({rootOf(comm, root, block), mine, 0, block}));
}
horingResult_t horingAlltoAll(const void* send, void* receive, size_t count, horingDataType_t type,
                              horingComm_t comm, horingStream_t stream) {
  const std::vector<size_t> counts(ranksOf(comm), count);
  return horingAlltoAllV(send, counts.data(), nullptr, receive, counts.data(), nullptr, type, comm, stream);
}
// Only blocks one after the other.
horingResult_t horingAlltoAllV(const void* send, const size_t* send_counts, const size_t*, void* receive,
                               const size_t* receive_counts, const size_t*, horingDataType_t type,
                               horingComm_t comm, horingStream_t) {
  Team& team = *comm->team;
  const auto me = static_cast<size_t>(comm->rank);
  team.send_counts[me] = send_counts;
  const auto moves = [&] {
    std::vector<Move> all;
    size_t to = 0;
    for (size_t r = 0; r < ranksOf(comm); ++r) {
      // The sender's size: a program that expects another one must see the difference.
      const size_t bytes = std::min(bytesOf(team.send_counts[r][me], type), bytesOf(receive_counts[r], type));
      all.push_back({r, bytesOf(sumOf(team.send_counts[r], me), type), to, bytes});
      to += bytesOf(receive_counts[r], type);
    }
    return all;
  };
  return move(comm, send, receive, bytesOf(sumOf(receive_counts, ranksOf(comm)), type), moves);
}

horingResult_t horingSetDefault(const char*, const char*) {
  return horingInvalidArgument;
}

horingResult_t horingGroupStart() {
  group = Group();
  return horingSuccess;
}
horingResult_t horingSend(const void* send, size_t count, horingDataType_t type, int peer, horingComm_t comm,
                          horingStream_t) {
  const auto* bytes = static_cast<const char*>(send);
  group.comm = comm;
  group.sends[static_cast<size_t>(peer)].assign(bytes, bytes + bytesOf(count, type));
  return horingSuccess;
}
horingResult_t horingRecv(void* receive, size_t count, horingDataType_t type, int peer, horingComm_t comm,
                          horingStream_t) {
  group.comm = comm;
  group.receives.push_back({static_cast<size_t>(peer), receive, bytesOf(count, type)});
  return horingSuccess;
}
horingResult_t horingGroupEnd() {
  const auto me = static_cast<size_t>(group.comm->rank);
  const std::vector<Group::Receive> receives = group.receives;
  horingResult_t first_error = horingSuccess;
  for (const Group::Receive& r : receives) {
    const horingResult_t result =
        together(group.comm, &group, r.buffer, r.bytes, [&](std::vector<char>& message) {
          const auto* peer = static_cast<const Group*>(group.comm->team->send[r.peer]);
          message = peer->sends.at(me);
        });
    if (first_error == horingSuccess) first_error = result;
  }
  return first_error;
}
// Threads that are no library have no simulator; perf_programs_test asks the real one.
horingResult_t horingGroupExplainEnd(horingSimInfo_t*, char*, size_t) {
  group = Group();
  return horingInvalidUsage;
}

}  // extern "C"
