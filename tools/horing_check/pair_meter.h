#pragma once
// Measures one node receiving from another: rate, latency, and whether the bytes are right.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "horing/horing.h"
#include "horing_check/tcp_segments.h"

namespace horing::check {

// Zero: not measured.
struct Reading {
  double bytes_per_s = 0;
  double latency_s = 0;  // known to both ends
  // Of each direction while both move data; the slower counts. Known to both ends.
  double at_once_bytes_per_s = 0;
  uint64_t wrong_bytes = 0;
  uint64_t bytes = 0;  // that arrived, and were compared
  // Of the other direction, in which this node sends: what its network sent meanwhile.
  TcpSegments sent;
};

// The number of wrong bytes. Precondition: equal sizes.
uint64_t countWrong(std::span<const std::byte> is, std::span<const std::byte> should_be);

class PairMeter {
 public:
  PairMeter(horingComm_t comm, int self);

  // Both nodes call it with each other. Takes about twice `slot_s`, or the time of six messages of 64 KiB if longer. One direction after the
  // other.
  Result<Reading> measure(int partner, double slot_s);
  // The same with both directions at once, in about `slot_s`; fills in `at_once_bytes_per_s`. All pairs of a round call it at the same time. After
  // `measure`: what a link learns meanwhile about its rails changes its rates.
  Status exchange(int partner, double slot_s, Reading& reading);

 private:
  struct Request;

  Result<double> measureLatency(int partner, double slot_s);
  Status send(int partner, Reading& reading);
  Status receive(int partner, double slot_s, Reading& reading);
  Status swap(const Request& request, int partner, Reading& reading);
  void compare(const Request& request, Reading& reading);
  Status put(const void* bytes, size_t count, int partner);
  Status take(void* bytes, size_t count, int partner);

  horingComm_t comm_;
  int self_;
  std::vector<std::byte> pattern_, received_;
  uint64_t messages_ = 0;
};

}  // namespace horing::check
