#pragma once
// Bytes as hexadecimal text.
#include <cstddef>
#include <span>
#include <string>

namespace horing {

// Two digits for each byte, lower case.
inline std::string hexText(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text.push_back(kDigits[static_cast<unsigned>(byte) >> 4]);
    text.push_back(kDigits[static_cast<unsigned>(byte) & 15]);
  }
  return text;
}

}  // namespace horing
