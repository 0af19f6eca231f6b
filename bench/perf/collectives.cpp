#include "perf/collectives.h"

#include "base/check.h"

namespace horing::perf {

namespace {

// ---- What is where. Blocks are multiples of 16 bytes, as in nccl-tests. ----

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
     .root = Root::kNone,
     .bus_factor = allButOwnTwice,
     .layout = same,
     .launch =
         [](const Call& c) {
           return horingAllReduce(c.send, c.receive, c.count, c.type, c.op, c.comm, nullptr);
         }},
    {.name = "all_gather",
     .function = "horingAllGather",
     .reduces = false,
     .in_place = true,
     .root = Root::kNone,
     .bus_factor = allButOwn,
     .layout = gathered,
     .launch =
         [](const Call& c) { return horingAllGather(c.send, c.receive, c.count, c.type, c.comm, nullptr); }},
    {.name = "reduce_scatter",
     .function = "horingReduceScatter",
     .reduces = true,
     .in_place = true,
     .root = Root::kNone,
     .bus_factor = allButOwn,
     .layout = scattered,
     .launch =
         [](const Call& c) {
           return horingReduceScatter(c.send, c.receive, c.count, c.type, c.op, c.comm, nullptr);
         }},
    {.name = "broadcast",
     .function = "horingBroadcast",
     .reduces = false,
     .in_place = true,
     .root = Root::kSends,
     .bus_factor = once,
     .layout = same,
     .launch =
         [](const Call& c) {
           return horingBroadcast(c.send, c.receive, c.count, c.type, c.root, c.comm, nullptr);
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
           return horingReduce(c.send, c.receive, c.count, c.type, c.op, c.root, c.comm, nullptr);
         }},
    {.name = "gather",
     .function = "horingGather",
     .reduces = false,
     .in_place = true,
     .root = Root::kReceives,
     .bus_factor = allButOwn,
     .layout = gathered,
     .launch =
         [](const Call& c) {
           return horingGather(c.send, c.receive, c.count, c.type, c.root, c.comm, nullptr);
         }},
    {.name = "scatter",
     .function = "horingScatter",
     .reduces = false,
     .in_place = true,
     .root = Root::kSends,
     .bus_factor = allButOwn,
     .layout = scattered,
     .launch =
         [](const Call& c) {
           return horingScatter(c.send, c.receive, c.count, c.type, c.root, c.comm, nullptr);
         }},
    {.name = "alltoall",
     .function = "horingAlltoAll",
     .reduces = false,
     .in_place = false,
     .root = Root::kNone,
     .bus_factor = allButOwn,
     .layout = exchanged,
     .launch =
         [](const Call& c) { return horingAlltoAll(c.send, c.receive, c.count, c.type, c.comm, nullptr); }},
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
