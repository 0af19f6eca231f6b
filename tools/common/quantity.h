#pragma once
// Human-readable numbers: "7e9", "80GiB", "2000Gbit", "20us".
#include <cstdint>
#include <string>

#include "base/byte_size.h"
#include "base/status.h"

namespace horing {

// A count: "7e9", "65B" (10^9), "125M", "300k". Errors: kInvalidArgument, here and below.
Result<double> parseCount(const std::string& text);
// Bits per second: "80Gbit", "100Mbit/s", "1e9".
Result<double> parseRate(const std::string& text);
// Seconds: "20us", "1.5ms", "0.2s", "0.2".
Result<double> parseSeconds(const std::string& text);

// "26.2 GB", "1.29 s": three figures and a unit, of powers of 1000.
std::string bytesText(double bytes);
std::string secondsText(double seconds);
// A configured size, in the unit that gives the shortest number: "1 GiB", "64 KiB", "1.50 MiB", "1 GB".
std::string sizeText(uint64_t bytes);

}  // namespace horing
