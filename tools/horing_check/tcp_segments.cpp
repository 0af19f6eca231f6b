#include "horing_check/tcp_segments.h"

#include <fstream>
#include <sstream>

#include "base/number.h"

namespace horing::check {

namespace {

std::string textOf(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// One of a line of names and a line of values, both with the same word first; 0 if there is none.
uint64_t counterOf(const std::string& text, const std::string& first_word, const char* counter) {
  std::string names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(first_word)) continue;
    if (names.empty()) {
      names = line;
      continue;
    }
    std::istringstream name_words(names), value_words(line);
    for (std::string name, value; name_words >> name && value_words >> value;)
      if (name == counter) return numberOf<uint64_t>(value).value_or(0);
    break;
  }
  return 0;
}

uint64_t grownBy(uint64_t now, uint64_t before) {
  return now > before ? now - before : 0;
}

}  // namespace

TcpSegments TcpSegments::since(const TcpSegments& earlier) const {
  return {grownBy(sent, earlier.sent), grownBy(resent, earlier.resent),
          grownBy(arrived_twice, earlier.arrived_twice)};
}

TcpSegments readTcpSegments() {
  return tcpSegmentsFrom(textOf("/proc/self/net/snmp"), textOf("/proc/self/net/netstat"));
}

TcpSegments tcpSegmentsFrom(const std::string& snmp, const std::string& netstat) {
  const uint64_t segments = counterOf(netstat, "TcpExt:", "TCPDSACKRecvSegs");
  return {counterOf(snmp, "Tcp:", "OutSegs"), counterOf(snmp, "Tcp:", "RetransSegs"),
          segments > 0 ? segments : counterOf(netstat, "TcpExt:", "TCPDSACKRecv")};
}

}  // namespace horing::check
