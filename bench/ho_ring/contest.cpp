#include "ho_ring/contest.h"

#include <algorithm>

#include "ho_ring/link_counters.h"
#include "perf/data_check.h"

namespace horing::bench {

namespace {

constexpr int kRawMs = 300'000;

double nowMs() {
  return static_cast<double>(SteadyClock().nowNs()) * 1e-6;
}

double medianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// What crossed since `before`, in the direction with more. Other ranks' nodes are counted by their leaders.
double crossed(const LinkBytes& before, const LinkBytes& after) {
  return static_cast<double>(std::max(after.sent - before.sent, after.received - before.received));
}

}  // namespace

double Samples::median() const {
  return medianOf(times_ms);
}
double Samples::least() const {
  return *std::min_element(times_ms.begin(), times_ms.end());
}
double Samples::most() const {
  return *std::max_element(times_ms.begin(), times_ms.end());
}
double Samples::medianLinkBytes() const {
  return medianOf(link_bytes);
}

Contest::Operation Contest::operationOf(Collective collective, uint64_t bytes) const {
  const perf::CollectiveTest& test = perf::collectiveTest(collectiveName(collective));
  return {test, test.layout({DataType::kFloat32, ring_.size(), ring_.rank(), bytes})};
}

Status Contest::allocate(const ContestOptions& options) {
  const uint64_t bytes = *std::max_element(options.sizes.begin(), options.sizes.end());
  HORING_ASSIGN(send_, perf::Buffer::allocate(bytes));
  HORING_ASSIGN(receive_, perf::Buffer::allocate(bytes));
  return {};
}

Result<std::vector<SizeResult>> Contest::run(const ContestOptions& options, const Progress& progress) {
  HORING_TRY(allocate(options));
  const uint64_t smallest = *std::min_element(options.sizes.begin(), options.sizes.end());
  for (const Collective collective : options.collectives) {
    progress(formatString("checking the results of %s", collectiveName(collective)));
    HORING_TRY(checkData(ring_, operationOf(collective, smallest)));
    HORING_TRY(checkData(ho_ring_, operationOf(collective, smallest)));
  }
  std::vector<SizeResult> results;
  for (const uint64_t bytes : options.sizes) {
    HORING_ASSIGN(SizeResult result, runSize(bytes, options, progress));
    results.push_back(std::move(result));
  }
  return results;
}

Result<SizeResult> Contest::runSize(uint64_t bytes, const ContestOptions& options, const Progress& progress) {
  SizeResult result;
  result.bytes = bytes;
  result.raw_bytes = wireBytes(Collective::kAllGather, layout_.shape, bytes);
  for (const Collective collective : options.collectives) {
    Match match;
    match.collective = collective;
    match.bytes = operationOf(collective, bytes).layout.bytes;
    result.matches.push_back(std::move(match));
  }
  for (int i = 0; i < options.warmup + options.repetitions; ++i) {
    const bool kept = i >= options.warmup;
    progress(kept ? formatString("%.3g MiB, repetition %d of %d", static_cast<double>(bytes) / (1 << 20),
                                 i - options.warmup + 1, options.repetitions)
                  : formatString("%.3g MiB, warming up", static_cast<double>(bytes) / (1 << 20)));
    HORING_TRY(repeat(result, kept, i));
  }
  return result;
}

Status Contest::repeat(SizeResult& result, bool kept, int turn) {
  HORING_TRY(timeRaw(result.raw_bytes, kept ? &result.raw : nullptr));
  for (Match& match : result.matches) {
    const Operation operation = operationOf(match.collective, result.bytes);
    // Who goes first alternates.
    for (int i = 0; i < 2; ++i) {
      const bool ring_now = (turn + i) % 2 == 0;
      Samples& samples = ring_now ? match.ring : match.ho_ring;
      HORING_TRY(timeOperation(ring_now ? ring_ : ho_ring_, operation, kept ? &samples : nullptr));
    }
  }
  return {};
}

Status Contest::checkData(perf::Ranks& ranks, const Operation& operation) {
  const perf::CheckedOperation data = {DataType::kFloat32,
                                       operation.test.reduces ? std::optional(RedOp::kSum) : std::nullopt,
                                       ranks.size(), 1};
  const perf::Stretch& send = operation.layout.send;
  const perf::Stretch& receive = operation.layout.receive.front();
  HORING_ASSIGN(const perf::Buffer expected, perf::Buffer::allocate(receive.count * sizeof(float)));
  perf::fillInput(data, ranks.rank(), send.first, send_.data(), send.count);
  perf::fillExpected(data, receive.first, expected.data(), receive.count);
  HORING_TRY(launch(ranks, operation));
  const uint64_t wrong_here = perf::countWrong(data, receive_.data(), expected.data(), receive.count);
  HORING_ASSIGN(const uint64_t wrong, ranks.sum(wrong_here));
  if (wrong == 0) return {};
  return makeStatus(Code::kInternalError, "%s: %llu elements are wrong", operation.test.name,
                    static_cast<unsigned long long>(wrong));
}

Status Contest::timeOperation(perf::Ranks& ranks, const Operation& operation, Samples* samples) {
  LinkBytes before;
  if (layout_.is_leader) {
    HORING_ASSIGN(before, readLinkBytes());
  }
  HORING_TRY(ranks.barrier());
  const double start_ms = nowMs();
  HORING_TRY(launch(ranks, operation));
  HORING_ASSIGN(const double slowest_ms, ranks.most(nowMs() - start_ms));
  double bytes = 0;
  if (layout_.is_leader) {
    HORING_ASSIGN(const LinkBytes after, readLinkBytes());
    bytes = crossed(before, after);
  }
  HORING_ASSIGN(bytes, ranks.most(bytes));
  if (!samples) return {};
  samples->times_ms.push_back(slowest_ms);
  samples->link_bytes.push_back(bytes);
  return {};
}

Status Contest::timeRaw(double bytes, Samples* samples) {
  if (layout_.shape.nodes == 1) return {};
  const SteadyClock clock;
  HORING_TRY(ho_ring_.barrier());
  const double start_ms = nowMs();
  if (!streams_.empty()) {
    const auto each = static_cast<uint64_t>(bytes / static_cast<double>(streams_.size()));
    HORING_TRY(exchange(streams_, each, Deadline::after(clock, kRawMs)));
  }
  HORING_ASSIGN(const double slowest_ms, ho_ring_.most(streams_.empty() ? 0.0 : nowMs() - start_ms));
  if (samples) samples->times_ms.push_back(slowest_ms);
  return {};
}

Status Contest::launch(perf::Ranks& ranks, const Operation& operation) {
  const perf::Call call = {.send = send_.data(),
                           .receive = receive_.data(),
                           .layout = operation.layout,
                           .comm = ranks.comm(),
                           .rank = ranks.rank(),
                           .ranks = ranks.size()};
  return perf::called(operation.test.launch(call), ranks.comm(), operation.test.function);
}

}  // namespace horing::bench
