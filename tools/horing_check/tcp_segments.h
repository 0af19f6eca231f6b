#pragma once
// How many TCP segments the network of this node has sent, and how many of them again: because they were lost, or were thought to be.
#include <cstdint>
#include <string>

namespace horing::check {

struct TcpSegments {
  uint64_t sent = 0, resent = 0;
  // Of what was sent again, what had arrived, as the receivers said (RFC 2883): a process that hardly runs acknowledges late. Kernels that
  // do not count these segments count what the receivers said, which may be fewer.
  uint64_t arrived_twice = 0;

  uint64_t lost() const { return resent > arrived_twice ? resent - arrived_twice : 0; }
  // Counters that do not grow count as 0.
  TcpSegments since(const TcpSegments& earlier) const;
};

// Of this process' network namespace, since it exists; zeros if the kernel does not say. /proc/net/snmp and /proc/net/netstat (Linux'
// networking/snmp_counter).
TcpSegments readTcpSegments();
// The same from the texts of these files.
TcpSegments tcpSegmentsFrom(const std::string& snmp, const std::string& netstat);

}  // namespace horing::check
