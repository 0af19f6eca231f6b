#pragma once
// Makes the transports that HORING_TRANSPORTS names.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "control/unique_id.h"
#include "transport/transport.h"

namespace horing {

class LoopbackHub;
namespace verbs {
struct Library;
}

struct TransportRequest {
  const Config& config;
  const UniqueId& id;
  int rank;
  std::shared_ptr<LoopbackHub> hub;       // set: loopback and nothing else
  const Clock* clock;                     // must outlive the transports
  std::function<bool()> deaths_are_told;  // as in SocketOptions
  Log log;
  std::map<std::string, int> nic_distance = {};  // see topology/rails.h
  const verbs::Library* verbs = nullptr;         // as in VerbsOptions
  std::string purpose = {};                      // distinguishes several sets of transports of one rank
};

// In the order of preference. Errors: an unknown name; a transport that cannot be used here, with its reason.
Result<std::vector<std::unique_ptr<Transport>>> makeTransports(const TransportRequest& request);

}  // namespace horing
