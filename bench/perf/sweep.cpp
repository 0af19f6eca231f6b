#include "perf/sweep.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <numeric>
#include <thread>

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

void FreeBuffer::operator()(std::byte* data) const {
  if (memory == BufferMemory::kOrdinary) return std::free(data);
  [[maybe_unused]] const horingResult_t freed = horingMemFree(data);
}

Result<Buffer> Buffer::allocate(size_t bytes, BufferMemory memory) {
  Buffer buffer;
  buffer.bytes_ = std::max((bytes + kPage - 1) / kPage, size_t{1}) * kPage;
  void* data = nullptr;
  if (memory == BufferMemory::kShared) {
    HORING_TRY(called(horingMemAlloc(&data, buffer.bytes_), nullptr, "horingMemAlloc"));
  } else {
    data = std::aligned_alloc(kPage, buffer.bytes_);
  }
  if (!data)
    return makeStatus(Code::kSystemError, "no memory for a buffer of %zu bytes: use a smaller --maxbytes",
                      bytes);
  buffer.data_ = std::unique_ptr<std::byte, FreeBuffer>(static_cast<std::byte*>(data), FreeBuffer{memory});
  return buffer;
}

Status Sweep::allocate() {
  const size_t bytes = options_.max_bytes + static_cast<size_t>(options_.unalign) * 8;
  const auto memory = options_.registers ? BufferMemory::kShared : BufferMemory::kOrdinary;
  HORING_ASSIGN(send_, Buffer::allocate(bytes, memory));
  HORING_ASSIGN(receive_, Buffer::allocate(bytes, memory));
  for (const Buffer* buffer : {&send_, &receive_}) {
    // The communicator gives the handle back when it ends.
    void* handle = nullptr;
    if (options_.registers)
      HORING_TRY(called(horingCommRegister(ranks_.comm(), buffer->data(), buffer->bytes(), &handle),
                        ranks_.comm(), "horingCommRegister"));
  }
  if (options_.checks > 0) {
    HORING_ASSIGN(expected_, Buffer::allocate(bytes));
  }
  // Touched once, so that no measurement pays for the kernel's first touch.
  std::memset(send_.data(), 0, send_.bytes());
  std::memset(receive_.data(), 0, receive_.bytes());
  if (!gpu_) return {};
  HORING_ASSIGN(gpu_send_, GpuMirror::of(*gpu_, send_.data(), send_.bytes()));
  HORING_ASSIGN(gpu_receive_, GpuMirror::of(*gpu_, receive_.data(), receive_.bytes()));
  return {};
}

Status Sweep::run(const RowListener& listener) {
  HORING_TRY(allocate());
  totals_.min_bandwidth = options_.min_bandwidth;
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle)
    for (const Kind& kind : kinds()) {
      HORING_TRY(warmUp(kind));
      HORING_TRY(measureAllSizes(kind, listener));
    }
  return {};
}

std::vector<Sweep::Kind> Sweep::kinds() const {
  std::vector<std::optional<RedOp>> ops = {std::nullopt};
  if (test_.reduces) ops.assign(options_.ops.begin(), options_.ops.end());
  std::vector<int> roots = {test_.rooted() ? options_.root : -1};
  if (test_.rooted() && options_.root == -1) {
    roots.resize(static_cast<size_t>(ranks_.size()));
    std::iota(roots.begin(), roots.end(), 0);
  }
  std::vector<Kind> all;
  for (const DataType type : options_.types)
    for (const std::optional<RedOp>& op : ops)
      if (!op || hasRedOp(type, *op))
        for (const int root : roots) all.push_back({type, op, root});
  return all;
}

Layout Sweep::layoutOf(const Kind& kind, uint64_t bytes) const {
  return test_.layout({kind.type, ranks_.size(), ranks_.rank(), bytes, &options_.traffic});
}

Totals Sweep::totals() const {
  Totals totals = totals_;
  totals.average_bandwidth = bandwidths_ > 0 ? bandwidth_sum_ / static_cast<double>(bandwidths_) : 0;
  return totals;
}

Status Sweep::warmUp(const Kind& kind) {
  for (uint64_t bytes = std::max<uint64_t>(options_.min_bytes, 1); bytes <= options_.max_bytes; bytes *= 2) {
    const Operation operation = {kind, layoutOf(kind, bytes), Place::kOut};
    for (int i = 0; i < options_.warmup; ++i) HORING_TRY(launch(operation, static_cast<uint64_t>(i)));
  }
  return complete();
}

Status Sweep::measureAllSizes(const Kind& kind, const RowListener& listener) {
  for (const uint64_t bytes : options_.sizes()) {
    const Layout layout = layoutOf(kind, bytes);
    Row row;
    row.bytes = layout.bytes;
    row.count = layout.argument;
    row.type = typeLabel(kind.type);
    row.op = kind.op ? redOpName(*kind.op) : "none";
    row.root = kind.root;
    HORING_ASSIGN(row.out_of_place, measure({kind, layout, Place::kOut}));
    count(row.out_of_place);
    if (test_.in_place) {
      HORING_ASSIGN(row.in_place, measure({kind, layout, Place::kIn}));
      count(*row.in_place);
    }
    if (simulated_ && ranks_.rank() == 0) row.predicted = predict({kind, layout, Place::kOut});
    if (options_.timestamps) row.timestamp = timeOfDay();
    if (ranks_.rank() == 0) listener(row);
  }
  return {};
}

void Sweep::count(const Measurement& measurement) {
  bandwidth_sum_ += measurement.bus_bandwidth;
  ++bandwidths_;
  if (measurement.wrong) totals_.wrong = totals_.wrong.value_or(0) + *measurement.wrong;
}

std::optional<Prediction> Sweep::predict(const Operation& operation) {
  // One group would take all steps together.
  if (test_.in_steps || horingGroupStart() != horingSuccess) return {};
  const Status launched = launch(operation, 0, simulated_);
  horingSimInfo_t info = HORING_SIM_INFO_INITIALIZER;
  char bottleneck[512] = "";
  const horingResult_t simulated = horingGroupExplainEnd(&info, bottleneck, sizeof bottleneck);
  if (!launched.ok() || simulated != horingSuccess) return {};
  return Prediction{info.estimatedTime, bottleneck};
}

Result<Measurement> Sweep::measure(const Operation& operation) {
  Measurement m;
  fillSend(operation, dataOf(operation, 1));
  HORING_TRY(toGpu(operation));
  HORING_TRY(timeIterations(operation, m));
  const double bytes = static_cast<double>(operation.layout.bytes);
  m.algorithm_bandwidth = m.time_us > 0 ? bytes / m.time_us / 1e3 : 0;
  m.bus_bandwidth = m.algorithm_bandwidth * test_.bus_factor(ranks_.size());
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
  HORING_TRY(complete());
  std::this_thread::sleep_for(std::chrono::milliseconds(options_.rest_ms));
  HORING_TRY(ranks_.barrier());
  const double start_us = nowUs(clock);
  double last_us = start_us;
  for (int iteration = 0; iteration < options_.iterations; ++iteration) {
    for (int i = 0; i < options_.operations(); ++i)
      HORING_TRY(launch(operation, static_cast<uint64_t>(iteration)));
    if (!options_.per_iteration) continue;
    HORING_TRY(complete());
    const double now_us = nowUs(clock);
    times_us.push_back((now_us - last_us) / options_.operations());
    last_us = now_us;
  }
  HORING_TRY(complete());
  const double elapsed_us = nowUs(clock) - start_us;
  HORING_ASSIGN(measurement.time_us, overRanks(elapsed_us / options_.iterations / options_.operations()));
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
  const CheckedOperation data = dataOf(operation, seed);
  const Addresses a = addresses(operation, 0);
  const size_t elements = operation.layout.receiveCount();
  // What an earlier run left there must not pass for a result.
  std::memset(a.receive, 0xa5, elements * dataTypeBytes(data.type));
  fillSend(operation, data);
  fillExpected(operation, data);
  HORING_TRY(toGpu(operation));
  HORING_TRY(launch(operation, 0));
  HORING_TRY(complete());
  HORING_TRY(toHost(operation));
  return ranks_.sum(countWrong(data, a.receive, expected_.data(), elements));
}

CheckedOperation Sweep::dataOf(const Operation& operation, uint64_t seed) const {
  return {operation.kind.type, operation.kind.op, ranks_.size(), seed};
}

void Sweep::fillSend(const Operation& operation, const CheckedOperation& data) const {
  if (!test_.sends(ranks_.rank(), operation.kind.root)) return;
  const Stretch& send = operation.layout.send;
  fillInput(data, ranks_.rank(), send.first, addresses(operation, 0).send, send.count);
}

// After fillSend(): where a rank receives nothing its buffer, which in place holds its input, must stay.
void Sweep::fillExpected(const Operation& operation, const CheckedOperation& data) const {
  const size_t width = dataTypeBytes(data.type);
  if (!test_.receives(ranks_.rank(), operation.kind.root)) {
    std::memcpy(expected_.data(), addresses(operation, 0).receive, operation.layout.receiveCount() * width);
    return;
  }
  std::byte* expected = expected_.data();
  for (const Stretch& stretch : operation.layout.receive) {
    perf::fillExpected(data, stretch.first, expected, stretch.count);
    expected += stretch.count * width;
  }
}

Sweep::Addresses Sweep::addresses(const Operation& operation, uint64_t iteration) const {
  const size_t element = dataTypeBytes(operation.kind.type);
  const Layout& layout = operation.layout;
  // Successive iterations use successive stretches of the buffers, so that small sizes are not all in cache.
  const uint64_t places = layout.bytes > 0 ? std::max<uint64_t>(options_.max_bytes / layout.bytes, 1) : 1;
  const size_t offset = static_cast<size_t>(options_.unalign) * element + iteration % places * layout.bytes;
  std::byte* receive = receive_.data() + offset;
  if (operation.place == Place::kOut) return {send_.data() + offset, receive};
  return {receive + layout.send.first * element, receive + layout.receive.front().first * element};
}

std::byte* Sweep::seenByCollective(std::byte* host) const {
  if (!gpu_) return host;
  return (gpu_send_->covers(host) ? *gpu_send_ : *gpu_receive_).onGpu(host);
}

Status Sweep::toGpu(const Operation& operation) const {
  if (!gpu_) return {};
  const size_t element = dataTypeBytes(operation.kind.type);
  const Addresses a = addresses(operation, 0);
  const GpuMirror& send = operation.place == Place::kOut ? *gpu_send_ : *gpu_receive_;
  HORING_TRY(gpu_receive_->toGpu(a.receive, operation.layout.receiveCount() * element));
  return send.toGpu(a.send, operation.layout.send.count * element);
}

Status Sweep::toHost(const Operation& operation) const {
  if (!gpu_) return {};
  const size_t bytes = operation.layout.receiveCount() * dataTypeBytes(operation.kind.type);
  return gpu_receive_->toHost(addresses(operation, 0).receive, bytes);
}

Status Sweep::launch(const Operation& operation, uint64_t iteration, horingComm_t comm) {
  const Addresses a = addresses(operation, iteration);
  const Call call = {.send = seenByCollective(a.send),
                     .receive = seenByCollective(a.receive),
                     .layout = operation.layout,
                     .type = static_cast<horingDataType_t>(operation.kind.type),
                     .op = static_cast<horingRedOp_t>(redOpNumber(operation.kind.op.value_or(RedOp::kSum))),
                     .root = operation.kind.root,
                     .comm = comm,
                     .rank = ranks_.rank(),
                     .ranks = ranks_.size(),
                     .stream = gpu_ ? gpu_->stream() : nullptr};
  return called(test_.launch(call), comm, test_.function);
}

}  // namespace horing::perf
