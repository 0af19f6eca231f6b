#pragma once
// The ports that this process may listen on (HORING_PORTS), for hosts behind a firewall.
#include <cstdint>
#include <span>
#include <string>

#include "base/auth.h"
#include "base/status.h"

namespace horing {

struct PortRange {
  uint16_t first = 0;  // 0: any port that the system picks
  uint16_t last = 0;   // included
  bool isAny() const { return first == 0; }
  bool operator==(const PortRange&) const = default;
};

// Parses "" or "30000-30999".
Result<PortRange> parsePortRange(const std::string& text);

// The result of listen(port): with port 0 if any port will do, else with the first free port of the range, from a random start, since other
// processes search the same range.
template <typename Listen>
auto listenWithin(const PortRange& range, Listen listen) -> decltype(listen(uint16_t{0})) {
  if (range.isAny()) return listen(uint16_t{0});
  const uint32_t ports = uint32_t{range.last} - range.first + 1u;
  uint32_t start = 0;
  randomBytes(std::as_writable_bytes(std::span(&start, 1)));
  Status last;
  for (uint32_t i = 0; i < ports; ++i) {
    auto listening = listen(static_cast<uint16_t>(range.first + (start % ports + i) % ports));
    if (listening.ok()) return listening;
    last = listening.status();
  }
  return makeStatus(Code::kSystemError,
                    "none of the %u ports of HORING_PORTS=%u-%u can be listened on: %s. Give a larger range: "
                    "horing-info says how many a rank needs",
                    ports, unsigned{range.first}, unsigned{range.last}, last.message().c_str());
}

}  // namespace horing
