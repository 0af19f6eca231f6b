#pragma once
// The adapters of a node, which horing uses all at once, and how to use one alone.
#include <string>
#include <vector>

#include "base/status.h"

namespace horing::check {

struct Rails {
  const char* variable = "HORING_SOCKET_IFNAME";  // chooses them
  std::string chosen;                             // its value; empty: the default
  std::vector<std::string> names;
};

// Of this node: the RDMA devices that horing may use, or else the interfaces. Moves the variable from the environment to the library's
// defaults, so that useOnly() can replace it: call it before there are threads.
Rails takeRails();

// Communicators that are made afterwards use only this one.
Status useOnly(const Rails& rails, const std::string& name);
// They use all again.
Status useAll(const Rails& rails);

}  // namespace horing::check
