#include "horing_check/tcp_segments.h"

#include <fstream>
#include <sstream>

#include "base/number.h"

namespace horing::check {

TcpSegments TcpSegments::since(const TcpSegments& earlier) const {
  return {sent > earlier.sent ? sent - earlier.sent : 0,
          resent > earlier.resent ? resent - earlier.resent : 0};
}

TcpSegments readTcpSegments() {
  std::ifstream file("/proc/self/net/snmp");
  std::ostringstream text;
  text << file.rdbuf();
  return tcpSegmentsFrom(text.str());
}

// A line of names and a line of values, both with "Tcp:" first.
TcpSegments tcpSegmentsFrom(const std::string& text) {
  TcpSegments found;
  std::istringstream lines(text);
  std::string names;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("Tcp:")) continue;
    if (names.empty()) {
      names = line;
      continue;
    }
    std::istringstream name_words(names), value_words(line);
    for (std::string name, value; name_words >> name && value_words >> value;) {
      if (name == "OutSegs") found.sent = numberOf<uint64_t>(value).value_or(0);
      if (name == "RetransSegs") found.resent = numberOf<uint64_t>(value).value_or(0);
    }
    break;
  }
  return found;
}

}  // namespace horing::check
