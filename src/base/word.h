#pragma once
// Words of users, who may write them in capitals, the same under every locale of the calling program: in a Turkish one the C library has
// no I for i.
#include <algorithm>
#include <string_view>

namespace horing {

constexpr char inSmallLetter(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

constexpr bool isSameWord(std::string_view one, std::string_view other) {
  return std::ranges::equal(one, other, {}, inSmallLetter, inSmallLetter);
}

}  // namespace horing
