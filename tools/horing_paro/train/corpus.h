#pragma once
#include <string_view>

namespace horing::paro {

// The text to learn: coriolanus.txt, compiled in.
std::string_view corpus();

}  // namespace horing::paro
