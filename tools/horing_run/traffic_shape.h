#pragma once
// The shaping of one end of an emulated link, as text for `ip -batch` and `tc -batch`.
//
// Two token buckets (HTB): the rate with a bucket of 1 ms, so that late timers are compensated, and a ceiling of 105 % of the rate with a
// small bucket, which limits the burst of an idle link. Below them a queue of 20 ms counted in bytes. A packet larger than the small bucket
// would be handed over whole, so the device's segmentation offload is limited to that bucket.
#include <cstdint>
#include <string>

namespace horing::run {

constexpr int kMtu = 9000;

struct TrafficShape {
  int64_t rate_kbit = 0;
  int64_t ceiling_kbit = 0;
  int64_t bucket_bytes = 0;
  int64_t ceiling_bucket_bytes = 0;
  int64_t queue_bytes = 0;
  int64_t offload_limit_bytes = 0;
};

// rate_mbit > 0. The buckets hold their rate within about 1 % from 200 to 2000 Mbit/s (TCP goodput 98.9
// to 99.3 %).
TrafficShape shapeForRate(int rate_mbit);

// One line for `ip -batch`, and the lines for `tc -batch`, that shape what leaves `device`.
std::string offloadCommand(const std::string& device, const TrafficShape& shape);
std::string shapeCommands(const std::string& device, const TrafficShape& shape);
// The lines for `tc -batch` that change the rate.
std::string reshapeCommands(const std::string& device, const TrafficShape& shape);

}  // namespace horing::run
