#include "units.h"

#include "base/status.h"

namespace horing {

std::string timeText(Picoseconds time) {
  const double us = toMicroseconds(time);
  const auto digits = [](double value) { return value >= 100 ? 0 : value >= 10 ? 1 : 2; };
  if (us >= 1e6) return formatString("%.*f s", digits(us / 1e6), us / 1e6);
  if (us >= 1e3) return formatString("%.*f ms", digits(us / 1e3), us / 1e3);
  if (us >= 1 || time == 0) return formatString("%.*f us", digits(us), us);
  return formatString("%.0f ns", us * 1e3);
}

std::string shapeText(const MachineModel& machine) {
  if (!machine.rails) return formatString("%d x %d ranks", machine.nodes, machine.ranks_per_node);
  constexpr int32_t kMostListed = 16;
  if (machine.nodes > kMostListed) return formatString("%d nodes, %d ranks", machine.nodes, machine.ranks());
  std::string text;
  for (const int32_t size : machine.rails.sizes()) text += (text.empty() ? "" : "+") + std::to_string(size);
  return text + " ranks";
}

}  // namespace horing
