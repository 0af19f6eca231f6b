#pragma once
// Where other nodes connect to this one, outside the library's own ports.
#include <vector>

#include "base/endpoint.h"
#include "base/listener.h"
#include "base/status.h"
#include "horing_check/rails.h"

namespace horing::check {

// A resource: the kernel completes connections as long as it lives.
struct NodePort {
  Listener listener;
  std::vector<Address> addresses;  // that horing uses, first choice first; at least one
};

// On the interfaces that `rails` chooses, within HORING_PORTS. Errors: no address or port.
Result<NodePort> openNodePort(const Rails& rails);

}  // namespace horing::check
