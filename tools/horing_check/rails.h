#pragma once
// The adapters of a node, which horing uses all at once, and how to use one alone.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace horing::check {

struct Rails {
  const char* variable = "HORING_SOCKET_IFNAME";  // chooses them
  std::string chosen;                             // its value; empty: the default
  std::vector<std::string> names;

  bool areRdma() const { return std::string_view(variable) == "HORING_IB_HCA"; }
};

// The active ports of RDMA devices that HORING_IB_HCA=`chosen` allows, as it names them: mlx5_0, or mlx5_0:1 if the device has several
// ports. `devices`: /sys/class/infiniband. Empty: there are none, or `chosen` is malformed.
std::vector<std::string> rdmaPorts(const std::string& chosen, const std::filesystem::path& devices);

// Of this node: the ports of RDMA devices that horing may use, or else the interfaces. Moves the variable from the environment to the library's
// defaults, so that useOnly() can replace it: call it before there are threads.
Rails takeRails();

// Communicators that are made afterwards use only this one.
Status useOnly(const Rails& rails, const std::string& name);
// They use all again.
Status useAll(const Rails& rails);

}  // namespace horing::check
