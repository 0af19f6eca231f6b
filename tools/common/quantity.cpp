#include "common/quantity.h"

#include <cmath>
#include <span>
#include <string_view>

#include "base/number.h"

namespace horing {

namespace {

struct Unit {
  const char* name;
  double factor;
};

Result<double> parse(const std::string& text, std::span<const Unit> units, const char* examples) {
  std::string_view unit = text;
  const std::optional<double> number = takeNumber<double>(unit);
  if (number && std::isfinite(*number) && *number >= 0)
    for (const Unit& known : units)
      if (unit == known.name) return *number * known.factor;
  return makeStatus(Code::kInvalidArgument, "'%s' is not a quantity such as %s", text.c_str(), examples);
}

std::string threeFigures(double value) {
  return formatString(value >= 99.95 ? "%.0f" : value >= 9.995 ? "%.1f" : "%.2f", value);
}

}  // namespace

Result<double> parseCount(const std::string& text) {
  static constexpr Unit kUnits[] = {{"", 1},    {"k", 1e3}, {"K", 1e3}, {"M", 1e6},
                                    {"B", 1e9}, {"G", 1e9}, {"T", 1e12}};
  return parse(text, kUnits, "7e9, 125M or 65B");
}

Result<double> parseRate(const std::string& text) {
  static constexpr Unit kUnits[] = {{"", 1},          {"bit", 1},      {"Mbit", 1e6},   {"Gbit", 1e9},
                                    {"bit/s", 1},     {"Mbit/s", 1e6}, {"Gbit/s", 1e9}, {"Tbit", 1e12},
                                    {"Tbit/s", 1e12}, {"kbit", 1e3},   {"kbit/s", 1e3}};
  Result<double> rate = parse(text, kUnits, "80Gbit or 100Mbit (per second)");
  if (rate.ok() && rate.value() <= 0)
    return makeStatus(Code::kInvalidArgument, "'%s': a rate has to be more than nothing", text.c_str());
  return rate;
}

Result<double> parseSeconds(const std::string& text) {
  static constexpr Unit kUnits[] = {{"", 1},      {"s", 1},  {"ms", 1e-3}, {"us", 1e-6},
                                    {"ns", 1e-9}, {"m", 60}, {"h", 3600}};
  return parse(text, kUnits, "20us, 1.5ms, 0.2s or 10m");
}

std::string bytesText(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(units)) bytes /= 1000, ++unit;
  return unit == 0 ? formatString("%.0f B", bytes) : threeFigures(bytes) + " " + units[unit];
}

std::string secondsText(double seconds) {
  if (seconds <= 0) return "0 s";
  if (seconds < 0.9995e-3) return threeFigures(seconds * 1e6) + " us";
  if (seconds < 0.09995) return threeFigures(seconds * 1e3) + " ms";
  return threeFigures(seconds) + " s";
}

std::string sizeText(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  for (const Unit unit : {Unit{"GiB", 0x1p30}, Unit{"GB", 1e9}, Unit{"MiB", 0x1p20}, Unit{"MB", 1e6},
                          Unit{"KiB", 0x1p10}, Unit{"kB", 1e3}})
    if (value >= unit.factor && std::fmod(value, unit.factor) == 0)
      return formatString("%.0f %s", value / unit.factor, unit.name);
  if (value >= 0x1p20) return formatString("%.2f MiB", value / 0x1p20);
  if (value >= 10240) return formatString("%.1f KiB", value / 0x1p10);
  return formatString("%.0f B", value);
}

}  // namespace horing
