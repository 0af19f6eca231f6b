#pragma once
// The names of parameters: which are allowed, and how errors say them.
#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"

namespace horing::paro {

// By parameter; empty if the caller has given none.
using Names = std::vector<std::string>;

inline constexpr size_t kMaxNameBytes = 1024;

// Copies `count` names, or none if `given` is NULL. Error: one is NULL, empty, longer than kMaxNameBytes, not UTF-8, has a control character
// (checkpoints keep one name in a line), or is also that of another parameter.
Result<Names> readNames(const char* const* given, size_t count);
// The rules of readNames() for names that were read elsewhere.
Status checkNames(const Names& names);

// "parameter 3", or, if it has a name, "parameter 3 (layers.0.weight)".
std::string labelOf(const Names& names, size_t param);

}  // namespace horing::paro
