#include "perf/collectives.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace horing::perf {

namespace {

// ---- The layout. Blocks are multiples of 16 bytes, as in nccl-tests. ----

size_t blockOf(const Job& job) {
  const size_t element = dataTypeBytes(job.type);
  const size_t unit = 16 / element;
  return job.bytes / element / static_cast<size_t>(job.ranks) / unit * unit;
}

// Every rank has all elements before and after.
Layout same(const Job& job) {
  const size_t element = dataTypeBytes(job.type);
  const size_t count = job.bytes / element;
  return {count, count * element, {0, count}, {{0, count}}};
}

// A block before, the blocks of all ranks after.
Layout gathered(const Job& job) {
  const size_t block = blockOf(job);
  const size_t all = block * static_cast<size_t>(job.ranks);
  return {block, all * dataTypeBytes(job.type), {static_cast<uint64_t>(job.rank) * block, block}, {{0, all}}};
}

// All blocks before, one after.
Layout scattered(const Job& job) {
  Layout layout = gathered(job);
  std::swap(layout.send, layout.receive.front());
  return layout;
}

// Block k of each rank goes to rank k.
Layout exchanged(const Job& job) {
  const size_t block = blockOf(job);
  const auto ranks = static_cast<size_t>(job.ranks);
  const auto rank = static_cast<size_t>(job.rank);
  Layout layout = {block, block * ranks * dataTypeBytes(job.type), {rank * ranks * block, ranks * block}, {}};
  for (size_t r = 0; r < ranks; ++r) layout.receive.push_back({(r * ranks + rank) * block, block});
  return layout;
}

// Every rank passes its buffer to the next.
Layout passedOn(const Job& job) {
  Layout layout = same(job);
  const size_t count = layout.argument;
  layout.send.first = static_cast<uint64_t>(job.rank) * count;
  layout.receive.front().first = static_cast<uint64_t>((job.rank + job.ranks - 1) % job.ranks) * count;
  return layout;
}

// Blocks as the traffic gives them. The size is that of the rank with the most to send or to receive.
Layout exchangedByTraffic(const Job& job) {
  const size_t element = dataTypeBytes(job.type);
  const size_t block = blockOf(job);
  const uint64_t total = block * element * static_cast<size_t>(job.ranks);
  const auto ranks = static_cast<size_t>(job.ranks);
  const auto me = static_cast<size_t>(job.rank);
  std::vector<size_t> sent(ranks, 0);
  std::vector<size_t> received(ranks, 0);
  Layout layout;
  layout.argument = job.traffic->fromFile() ? 0 : block;
  for (size_t from = 0; from < ranks; ++from)
    for (size_t to = 0; to < ranks; ++to) {
      const size_t count =
          job.traffic->bytes(static_cast<int>(from), static_cast<int>(to), job.ranks, total) / element;
      if (from == me) layout.send_counts.push_back(count);
      if (to == me) layout.receive_counts.push_back(count);
      if (to == me) layout.receive.push_back({sent[from], count});
      sent[from] += count;
      received[to] += count;
    }
  const size_t most = std::max(*std::max_element(sent.begin(), sent.end()),
                               *std::max_element(received.begin(), received.end()));
  layout.bytes = most * element;
  layout.send = {me * most, sent[me]};
  for (size_t from = 0; from < ranks; ++from) layout.receive[from].first += from * most;
  return layout;
}

// ---- Collectives of more than one call ----

horingResult_t passOn(const Call& c) {
  const int next = (c.rank + 1) % c.ranks;
  const int previous = (c.rank + c.ranks - 1) % c.ranks;
  (void)horingGroupStart();
  // The end of the group returns the error of either.
  (void)horingSend(c.send, c.layout.argument, c.type, next, c.comm, c.stream);
  (void)horingRecv(c.receive, c.layout.argument, c.type, previous, c.comm, c.stream);
  return horingGroupEnd();
}

void copyOwn(const Call& c, std::byte* to, size_t bytes) {
  if (!c.stream) {
    std::memcpy(to, c.send, bytes);
    return;
  }
  (void)horingGroupStart();
  (void)horingSend(c.send, bytes, horingInt8, c.rank, c.comm, c.stream);
  (void)horingRecv(to, bytes, horingInt8, c.rank, c.comm, c.stream);
  (void)horingGroupEnd();  // an error sticks
}

// Ranks that differ in one bit of their number exchange all that they have, for each bit.
horingResult_t gatherAlongHypercube(const Call& c) {
  const size_t count = c.layout.argument;
  const size_t block_bytes = count * dataTypeBytes(static_cast<DataType>(c.type));
  auto* receive = static_cast<std::byte*>(c.receive);
  const auto block = [&](int rank) { return receive + static_cast<size_t>(rank) * block_bytes; };
  if (block(c.rank) != c.send && block_bytes > 0) copyOwn(c, block(c.rank), block_bytes);
  for (int bit = 1; bit < c.ranks; bit *= 2) {
    const int mine = c.rank & ~(bit - 1);
    const size_t all = count * static_cast<size_t>(bit);
    (void)horingGroupStart();
    (void)horingSend(block(mine), all, c.type, c.rank ^ bit, c.comm, c.stream);
    (void)horingRecv(block(mine ^ bit), all, c.type, c.rank ^ bit, c.comm, c.stream);
    const horingResult_t result = horingGroupEnd();
    if (result != horingSuccess) return result;
  }
  return horingSuccess;
}

// ---- Bus factors ----

double once(int) {
  return 1;
}
double allButOwn(int ranks) {
  return (ranks - 1) / static_cast<double>(ranks);
}
double allButOwnTwice(int ranks) {
  return 2 * allButOwn(ranks);
}

// ---- The table ----

const CollectiveTest kTests[] = {
    {.name = "all_reduce",
     .function = "horingAllReduce",
     .reduces = true,
     .in_place = true,
     .bus_factor = allButOwnTwice,
     .layout = same,
     .launch =
         [](const Call& c) {
           return horingAllReduce(c.send, c.receive, c.layout.argument, c.type, c.op, c.comm, c.stream);
         }},
    {.name = "all_gather",
     .function = "horingAllGather",
     .in_place = true,
     .bus_factor = allButOwn,
     .layout = gathered,
     .launch =
         [](const Call& c) {
           return horingAllGather(c.send, c.receive, c.layout.argument, c.type, c.comm, c.stream);
         }},
    {.name = "reduce_scatter",
     .function = "horingReduceScatter",
     .reduces = true,
     .in_place = true,
     .bus_factor = allButOwn,
     .layout = scattered,
     .launch =
         [](const Call& c) {
           return horingReduceScatter(c.send, c.receive, c.layout.argument, c.type, c.op, c.comm, c.stream);
         }},
    {.name = "broadcast",
     .function = "horingBroadcast",
     .in_place = true,
     .root = Root::kSends,
     .bus_factor = once,
     .layout = same,
     .launch =
         [](const Call& c) {
           return horingBroadcast(c.send, c.receive, c.layout.argument, c.type, c.root, c.comm, c.stream);
         }},
    {.name = "reduce",
     .function = "horingReduce",
     .reduces = true,
     .in_place = true,
     .root = Root::kReceives,
     .bus_factor = once,
     .layout = same,
     .launch =
         [](const Call& c) {
           return horingReduce(c.send, c.receive, c.layout.argument, c.type, c.op, c.root, c.comm, c.stream);
         }},
    {.name = "gather",
     .function = "horingGather",
     .in_place = true,
     .root = Root::kReceives,
     .bus_factor = allButOwn,
     .layout = gathered,
     .launch =
         [](const Call& c) {
           return horingGather(c.send, c.receive, c.layout.argument, c.type, c.root, c.comm, c.stream);
         }},
    {.name = "scatter",
     .function = "horingScatter",
     .in_place = true,
     .root = Root::kSends,
     .bus_factor = allButOwn,
     .layout = scattered,
     .launch =
         [](const Call& c) {
           return horingScatter(c.send, c.receive, c.layout.argument, c.type, c.root, c.comm, c.stream);
         }},
    {.name = "alltoall",
     .function = "horingAlltoAll",
     .bus_factor = allButOwn,
     .layout = exchanged,
     .launch =
         [](const Call& c) {
           return horingAlltoAll(c.send, c.receive, c.layout.argument, c.type, c.comm, c.stream);
         }},
    {.name = "alltoallv",
     .function = "horingAlltoAllV",
     .by_traffic = true,
     .bus_factor = allButOwn,
     .layout = exchangedByTraffic,
     .launch =
         [](const Call& c) {
           return horingAlltoAllV(c.send, c.layout.send_counts.data(), nullptr, c.receive,
                                  c.layout.receive_counts.data(), nullptr, c.type, c.comm, c.stream);
         }},
    {.name = "sendrecv",
     .function = "horingSend and horingRecv",
     .bus_factor = once,
     .layout = passedOn,
     .launch = passOn},
    {.name = "hypercube",
     .function = "horingSend and horingRecv",
     .in_place = true,
     .in_steps = true,
     .power_of_two = true,
     .bus_factor = allButOwn,
     .layout = gathered,
     .launch = gatherAlongHypercube},
};

}  // namespace

size_t Layout::receiveCount() const {
  size_t count = 0;
  for (const Stretch& stretch : receive) count += stretch.count;
  return count;
}

std::span<const CollectiveTest> collectiveTests() {
  return kTests;
}

const CollectiveTest& collectiveTest(std::string_view name) {
  const CollectiveTest* found = nullptr;
  for (const CollectiveTest& test : kTests)
    if (name == test.name) found = &test;
  HORING_CHECK(found);
  return *found;
}

}  // namespace horing::perf
