#include "horing_check/pair_meter.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "horing_check/nodes.h"

namespace horing::check {

namespace {

using MeterClock = std::chrono::steady_clock;

constexpr size_t kLeastBytes = 64 << 10, kMostBytes = 8 << 20;
// Each message begins at a different offset of the pattern, so that stale data of the previous message is detected.
constexpr size_t kOffsets = 4096;
constexpr int kPings = 32, kFirstPings = 4;
constexpr int kLeastMessages = 3;
constexpr double kMessagesPerSlot = 3, kExchangesPerSlot = 6;

double secondsSince(MeterClock::time_point start) {
  return std::chrono::duration<double>(MeterClock::now() - start).count();
}

double rateOf(uint64_t bytes, double took_s, double latency_s) {
  return static_cast<double>(bytes) / std::max(took_s - 2 * latency_s, took_s / 2);
}

// That take so many seconds.
uint64_t bytesOf(double bytes_per_s, double seconds) {
  return static_cast<uint64_t>(std::clamp(bytes_per_s * seconds, double{kLeastBytes}, double{kMostBytes}));
}

}  // namespace

// From the receiver to the sender, or from the lower node of an exchange to the other; 0 bytes: stop.
struct PairMeter::Request {
  uint64_t bytes, offset;

  Status check(int partner) const {
    if (bytes <= kMostBytes && offset < kOffsets) return {};
    return makeStatus(Code::kInternalError, "node %d asks for %llu bytes: expected at most %zu", partner,
                      static_cast<unsigned long long>(bytes), kMostBytes);
  }
};

uint64_t countWrong(std::span<const std::byte> is, std::span<const std::byte> should_be) {
  if (std::memcmp(is.data(), should_be.data(), is.size()) == 0) return 0;
  uint64_t wrong = 0;
  for (size_t i = 0; i < is.size(); ++i) wrong += is[i] != should_be[i] ? 1 : 0;
  return wrong;
}

PairMeter::PairMeter(horingComm_t comm, int self)
    : comm_(comm), self_(self), pattern_(kMostBytes + kOffsets), received_(kMostBytes) {
  std::mt19937_64 random(1);  // the same on all nodes
  for (size_t at = 0; at < pattern_.size(); at += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(&pattern_[at], &word, sizeof word);
  }
}

Status PairMeter::put(const void* bytes, size_t count, int partner) {
  return called(horingSend(bytes, count, horingUint8, partner, comm_, nullptr), "sending");
}

Status PairMeter::take(void* bytes, size_t count, int partner) {
  return called(horingRecv(bytes, count, horingUint8, partner, comm_, nullptr), "receiving");
}

Result<Reading> PairMeter::measure(int partner, double slot_s) {
  Reading reading;
  HORING_ASSIGN(reading.latency_s, measureLatency(partner, slot_s));
  for (const bool lower_sends : {true, false}) {
    const bool i_send = (self_ < partner) == lower_sends;
    HORING_TRY(i_send ? send(partner, reading) : receive(partner, slot_s, reading));
  }
  return reading;
}

// The lower node measures, tells with each message whether another follows, and sends the result. The shortest time counts: disturbances
// only delay.
Result<double> PairMeter::measureLatency(int partner, double slot_s) {
  double latency_s = 0;
  uint64_t more = 1;
  if (self_ > partner) {
    while (more != 0) {
      HORING_TRY(take(&more, sizeof more, partner));
      HORING_TRY(put(&more, sizeof more, partner));
    }
    HORING_TRY(take(&latency_s, sizeof latency_s, partner));
    return latency_s;
  }
  std::vector<double> times;
  const MeterClock::time_point start = MeterClock::now();
  for (int ping = 0; more != 0; ++ping) {
    more = ping + 1 < kFirstPings + kPings && secondsSince(start) < slot_s / 4 ? 1 : 0;
    const MeterClock::time_point begin = MeterClock::now();
    uint64_t answer = 0;
    HORING_TRY(put(&more, sizeof more, partner));
    HORING_TRY(take(&answer, sizeof answer, partner));
    if (ping >= kFirstPings || more == 0) times.push_back(secondsSince(begin) / 2);
  }
  latency_s = *std::min_element(times.begin(), times.end());
  HORING_TRY(put(&latency_s, sizeof latency_s, partner));
  return latency_s;
}

Status PairMeter::send(int partner, Reading& reading) {
  const TcpSegments before = readTcpSegments();
  for (;;) {
    Request request{};
    HORING_TRY(take(&request, sizeof request, partner));
    if (request.bytes == 0) break;
    HORING_TRY(request.check(partner));
    HORING_TRY(put(&pattern_[request.offset], request.bytes, partner));
  }
  reading.sent = readTcpSegments().since(before);
  return {};
}

void PairMeter::compare(const Request& request, Reading& reading) {
  reading.bytes += request.bytes;
  reading.wrong_bytes +=
      countWrong({received_.data(), request.bytes}, {&pattern_[request.offset], request.bytes});
}

// Messages grow until one takes a third of the time; the earlier small messages do not count. The best rate counts: disturbances only slow.
Status PairMeter::receive(int partner, double slot_s, Reading& reading) {
  const MeterClock::time_point start = MeterClock::now();
  Request request{kLeastBytes, 0};
  for (int message = 0; message < kLeastMessages || secondsSince(start) < slot_s; ++message) {
    request.offset = ++messages_ * 61 % kOffsets;
    const MeterClock::time_point begin = MeterClock::now();
    HORING_TRY(put(&request, sizeof request, partner));
    HORING_TRY(take(received_.data(), request.bytes, partner));
    const double took = secondsSince(begin);
    compare(request, reading);
    const double rate = rateOf(request.bytes, took, reading.latency_s);
    if (message > 0) reading.bytes_per_s = std::max(reading.bytes_per_s, rate);
    request.bytes = bytesOf(rate, slot_s / kMessagesPerSlot);
  }
  request.bytes = 0;
  return put(&request, sizeof request, partner);
}

// The lower node measures, and sends the result. The median counts: at the end some pairs rest.
Status PairMeter::exchange(int partner, double slot_s, Reading& reading) {
  Request request{kLeastBytes, 0};
  if (self_ > partner) {
    for (;;) {
      HORING_TRY(take(&request, sizeof request, partner));
      if (request.bytes == 0) break;
      HORING_TRY(request.check(partner));
      HORING_TRY(swap(request, partner, reading));
    }
    return take(&reading.at_once_bytes_per_s, sizeof(double), partner);
  }
  std::vector<double> rates;
  const MeterClock::time_point start = MeterClock::now();
  for (int message = 0; message < kLeastMessages || secondsSince(start) < slot_s; ++message) {
    request.offset = ++messages_ * 61 % kOffsets;
    const MeterClock::time_point begin = MeterClock::now();
    HORING_TRY(put(&request, sizeof request, partner));
    HORING_TRY(swap(request, partner, reading));
    const double rate = rateOf(request.bytes, secondsSince(begin), reading.latency_s);
    if (message > 0) rates.push_back(rate);
    request.bytes = bytesOf(rate, slot_s / kExchangesPerSlot);
  }
  request.bytes = 0;
  HORING_TRY(put(&request, sizeof request, partner));
  std::sort(rates.begin(), rates.end());
  reading.at_once_bytes_per_s = rates[rates.size() / 2];
  return put(&reading.at_once_bytes_per_s, sizeof(double), partner);
}

Status PairMeter::swap(const Request& request, int partner, Reading& reading) {
  HORING_TRY(called(horingGroupStart(), "exchanging"));
  const Status sends = put(&pattern_[request.offset], request.bytes, partner);
  const Status receives = take(received_.data(), request.bytes, partner);
  HORING_TRY(called(horingGroupEnd(), "exchanging"));
  HORING_TRY(sends);
  HORING_TRY(receives);
  compare(request, reading);
  return {};
}

}  // namespace horing::check
