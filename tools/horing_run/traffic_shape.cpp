#include "horing_run/traffic_shape.h"

#include <algorithm>

#include "base/status.h"

namespace horing::run {

namespace {
constexpr int64_t kEthernetHeaderBytes = 14;
// Beyond an MTU multiple: room for headers that the device adds to an offloaded packet.
constexpr int64_t kOffloadSlackBytes = 400;
// 4 packets at 1000 Mbit/s and MTU 9000, in proportion for other rates: finer costs more CPU, coarser holds
// less well.
constexpr int64_t kCeilingBucketBytesPerMbit = 36;
constexpr int64_t kMaxOffloadBytes = 63000;

// `verb`: add or change.
std::string bucketCommands(const char* verb, const std::string& device, const TrafficShape& shape) {
  const char* name = device.c_str();
  return formatString(
             "class %s dev %s parent 1: classid 1:1 htb rate %lldkbit burst %lldb ceil %lldkbit cburst %lldb"
             " quantum 60000\n",
             verb, name, static_cast<long long>(shape.rate_kbit), static_cast<long long>(shape.bucket_bytes),
             static_cast<long long>(shape.ceiling_kbit), static_cast<long long>(shape.ceiling_bucket_bytes)) +
         formatString("qdisc %s dev %s parent 1:1 handle 10: bfifo limit %lld\n", verb, name,
                      static_cast<long long>(shape.queue_bytes));
}
}  // namespace

TrafficShape shapeForRate(int rate_mbit) {
  TrafficShape shape;
  shape.rate_kbit = int64_t{rate_mbit} * 1000;
  shape.ceiling_kbit = int64_t{rate_mbit} * 1050;
  shape.bucket_bytes = std::max<int64_t>(int64_t{rate_mbit} * 125, 48000);
  const int64_t packets =
      std::clamp<int64_t>(rate_mbit * kCeilingBucketBytesPerMbit / kMtu, 1, kMaxOffloadBytes / kMtu);
  shape.ceiling_bucket_bytes = packets * (kMtu + kEthernetHeaderBytes);
  shape.queue_bytes = std::max<int64_t>(int64_t{rate_mbit} * 2500, 524288);
  shape.offload_limit_bytes = shape.ceiling_bucket_bytes + kOffloadSlackBytes;
  return shape;
}

std::string offloadCommand(const std::string& device, const TrafficShape& shape) {
  return formatString("link set %s gso_max_size %lld\n", device.c_str(),
                      static_cast<long long>(shape.offload_limit_bytes));
}

std::string shapeCommands(const std::string& device, const TrafficShape& shape) {
  return formatString("qdisc add dev %s root handle 1: htb default 1\n", device.c_str()) +
         bucketCommands("add", device, shape);
}

std::string reshapeCommands(const std::string& device, const TrafficShape& shape) {
  return bucketCommands("change", device, shape);
}

}  // namespace horing::run
