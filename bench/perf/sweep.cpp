#include "perf/sweep.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "perf/report_json.h"

namespace horing::perf {

namespace {

constexpr size_t kPage = 4096;

double nowUs(clockid_t clock) {
  std::timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

}  // namespace

void Buffer::Free::operator()(std::byte* memory) const {
  std::free(memory);
}

Result<Buffer> Buffer::allocate(size_t bytes) {
  Buffer buffer;
  buffer.bytes_ = (bytes + kPage - 1) / kPage * kPage;
  buffer.data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, std::max(buffer.bytes_, kPage))));
  if (!buffer.data_)
    return makeStatus(Code::kSystemError, "no memory for a buffer of %zu bytes: use a smaller --maxbytes",
                      bytes);
  return buffer;
}

Status Sweep::allocate() {
  const size_t bytes = options_.max_bytes + static_cast<size_t>(options_.unalign) * 8;
  HORING_ASSIGN(send_, Buffer::allocate(bytes));
  HORING_ASSIGN(receive_, Buffer::allocate(bytes));
  if (options_.checks > 0) {
    HORING_ASSIGN(expected_, Buffer::allocate(bytes));
  }
  // Touched once, so that no measurement pays for the kernel's first touch.
  std::memset(send_.data(), 0, send_.bytes());
  std::memset(receive_.data(), 0, receive_.bytes());
  return {};
}

Status Sweep::run(const RowListener& listener) {
  HORING_TRY(allocate());
  totals_.min_bandwidth = options_.min_bandwidth;
  const std::vector<RedOp> one = {RedOp::kSum};
  const std::vector<RedOp>& ops = collective_ == Collective::kAllGather ? one : options_.ops;
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle)
    for (const DataType type : options_.types)
      for (const RedOp op : ops) {
        HORING_TRY(warmUp(type, op));
        HORING_TRY(measureAllSizes(type, op, listener));
      }
  return {};
}

Totals Sweep::totals() const {
  Totals totals = totals_;
  totals.average_bandwidth = bandwidths_ > 0 ? bandwidth_sum_ / static_cast<double>(bandwidths_) : 0;
  return totals;
}

Status Sweep::warmUp(DataType type, RedOp op) {
  for (uint64_t bytes = std::max<uint64_t>(options_.min_bytes, 1); bytes <= options_.max_bytes; bytes *= 2) {
    const Operation operation = {type, op, countsFor(collective_, type, ranks_.size(), bytes), Place::kOut};
    for (int i = 0; i < options_.warmup; ++i) HORING_TRY(launch(operation, static_cast<uint64_t>(i)));
  }
  return {};
}

Status Sweep::measureAllSizes(DataType type, RedOp op, const RowListener& listener) {
  for (const uint64_t bytes : options_.sizes()) {
    const Counts counts = countsFor(collective_, type, ranks_.size(), bytes);
    Row row;
    row.bytes = counts.bytes;
    row.count = counts.argument;
    row.type = typeLabel(type);
    row.op = collective_ == Collective::kAllGather ? "none" : redOpName(op);
    HORING_ASSIGN(row.out_of_place, measure({type, op, counts, Place::kOut}));
    HORING_ASSIGN(row.in_place, measure({type, op, counts, Place::kIn}));
    for (const Measurement* m : {&row.out_of_place, &row.in_place}) {
      bandwidth_sum_ += m->bus_bandwidth;
      ++bandwidths_;
      if (m->wrong) totals_.wrong = totals_.wrong.value_or(0) + *m->wrong;
    }
    if (options_.timestamps) row.timestamp = timeOfDay();
    if (ranks_.rank() == 0) listener(row);
  }
  return {};
}

Result<Measurement> Sweep::measure(const Operation& operation) {
  Measurement m;
  if (operation.counts.bytes > 0) {
    const Addresses a = addresses(operation, 0);
    const CheckedOperation data = {collective_, operation.type, operation.op, ranks_.size(), 1};
    fillSend(data, ranks_.rank(), a.send, operation.counts.send);
  }
  HORING_TRY(timeIterations(operation, m));
  const double bytes = static_cast<double>(operation.counts.bytes);
  m.algorithm_bandwidth = m.time_us > 0 ? bytes / m.time_us / 1e3 : 0;
  m.bus_bandwidth = m.algorithm_bandwidth * busFactor(collective_, ranks_.size());
  if (options_.checks > 0) {
    HORING_ASSIGN(m.wrong, check(operation));
  }
  return m;
}

Status Sweep::timeIterations(const Operation& operation, Measurement& measurement) {
  const clockid_t clock = options_.cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  std::vector<double> times_us;
  times_us.reserve(static_cast<size_t>(options_.per_iteration ? options_.iterations : 0));
  HORING_TRY(launch(operation, 0));
  HORING_TRY(ranks_.barrier());
  const double start_us = nowUs(clock);
  double last_us = start_us;
  for (int iteration = 0; iteration < options_.iterations; ++iteration) {
    for (int i = 0; i < options_.aggregated; ++i)
      HORING_TRY(launch(operation, static_cast<uint64_t>(iteration)));
    if (!options_.per_iteration) continue;
    const double now_us = nowUs(clock);
    times_us.push_back((now_us - last_us) / options_.aggregated);
    last_us = now_us;
  }
  const double elapsed_us = nowUs(clock) - start_us;
  HORING_ASSIGN(measurement.time_us, overRanks(elapsed_us / options_.iterations / options_.aggregated));
  return options_.per_iteration ? keepIterationTimes(std::move(times_us), measurement) : Status();
}

Status Sweep::keepIterationTimes(std::vector<double> times_us, Measurement& measurement) {
  IterationTimes kept;
  times_us.erase(times_us.begin(), times_us.begin() + options_.per_iteration_skip);
  HORING_ASSIGN(const std::vector<char> bytes,
                ranks_.gather(times_us.data(), times_us.size() * sizeof(double)));
  for (int r = 0; r < ranks_.size(); ++r) {
    std::vector<double> of_rank(times_us.size());
    std::memcpy(of_rank.data(), bytes.data() + static_cast<size_t>(r) * of_rank.size() * sizeof(double),
                of_rank.size() * sizeof(double));
    for (size_t i = 0; i < of_rank.size(); ++i) times_us[i] = std::max(times_us[i], of_rank[i]);
    kept.by_rank_us.push_back(std::move(of_rank));
  }
  kept.times_us = std::move(times_us);
  measurement.iterations = std::move(kept);
  return {};
}

Result<double> Sweep::overRanks(double value) {
  switch (options_.time_of) {
    case TimeOf::kMinimum:
      return ranks_.least(value);
    case TimeOf::kMaximum:
      return ranks_.most(value);
    case TimeOf::kRank0:
      return ranks_.sum(ranks_.rank() == 0 ? value : 0.0);
    case TimeOf::kAverage:
      break;
  }
  HORING_ASSIGN(const double sum, ranks_.sum(value));
  return sum / ranks_.size();
}

Result<uint64_t> Sweep::check(const Operation& operation) {
  for (int i = 0; i < options_.checks; ++i) {
    HORING_ASSIGN(const uint64_t wrong, checkOnce(operation, static_cast<uint64_t>(i) + 1));
    if (wrong > 0) return wrong;
  }
  return uint64_t{0};
}

Result<uint64_t> Sweep::checkOnce(const Operation& operation, uint64_t seed) {
  const CheckedOperation data = {collective_, operation.type, operation.op, ranks_.size(), seed};
  const Addresses a = addresses(operation, 0);
  const size_t receive_bytes = operation.counts.receive * dataTypeBytes(operation.type);
  std::memset(a.receive, 0xa5, receive_bytes);  // what an earlier run left there must not pass for a result
  fillSend(data, ranks_.rank(), a.send, operation.counts.send);
  std::byte* expected = expected_.data();
  fillExpected(data, ranks_.rank(), expected, operation.counts.receive);
  HORING_TRY(launch(operation, 0));
  return ranks_.sum(countWrong(data, a.receive, expected, operation.counts.receive));
}

Sweep::Addresses Sweep::addresses(const Operation& operation, uint64_t iteration) const {
  const size_t element = dataTypeBytes(operation.type);
  const uint64_t bytes = operation.counts.bytes;
  // Successive iterations use successive stretches of the buffers, so that small sizes are not all in cache.
  const uint64_t stretches = bytes > 0 ? std::max<uint64_t>(options_.max_bytes / bytes, 1) : 1;
  const size_t offset = static_cast<size_t>(options_.unalign) * element + iteration % stretches * bytes;
  std::byte* send = send_.data() + offset;
  std::byte* receive = receive_.data() + offset;
  if (operation.place == Place::kOut) return {send, receive};
  const auto rank = static_cast<size_t>(ranks_.rank());
  switch (collective_) {
    case Collective::kAllGather:
      return {receive + rank * operation.counts.send * element, receive};
    case Collective::kReduceScatter:
      return {send, send + rank * operation.counts.receive * element};
    default:
      return {receive, receive};
  }
}

Status Sweep::launch(const Operation& operation, uint64_t iteration) {
  const Addresses a = addresses(operation, iteration);
  const auto type = static_cast<horingDataType_t>(operation.type);
  const auto op = static_cast<horingRedOp_t>(operation.op);
  const size_t count = operation.counts.argument;
  switch (collective_) {
    case Collective::kAllReduce:
      return called(horingAllReduce(a.send, a.receive, count, type, op, ranks_.comm(), nullptr),
                    ranks_.comm(), "horingAllReduce");
    case Collective::kReduceScatter:
      return called(horingReduceScatter(a.send, a.receive, count, type, op, ranks_.comm(), nullptr),
                    ranks_.comm(), "horingReduceScatter");
    default:
      break;
  }
  return called(horingAllGather(a.send, a.receive, count, type, ranks_.comm(), nullptr), ranks_.comm(),
                "horingAllGather");
}

}  // namespace horing::perf
