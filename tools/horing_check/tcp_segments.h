#pragma once
// How many TCP segments the network of this node has sent, and how many of them again: because they, or their acknowledgement, were lost.
#include <cstdint>
#include <string>

namespace horing::check {

struct TcpSegments {
  uint64_t sent = 0, resent = 0;
  // Counters that do not grow count as 0.
  TcpSegments since(const TcpSegments& earlier) const;
};

// Of this process' network namespace, since it exists; zeros if the kernel does not say. /proc/net/snmp (Linux' networking/snmp_counter).
TcpSegments readTcpSegments();
// The same from the text of that file.
TcpSegments tcpSegmentsFrom(const std::string& text);

}  // namespace horing::check
