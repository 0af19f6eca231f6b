#pragma once
// Ranks whose machines have InfiniBand or RoCE: RDMA writes from slots into slots.
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/transport.h"

namespace horing {

namespace verbs {
struct Library;
}

// What a link does if no path can be established. An established link that loses all paths fails in any case.
enum class WithoutPaths : uint8_t { kFail, kUseControl };

struct VerbsOptions {
  int rank = 0;
  std::string devices;           // as HORING_IB_HCA
  int gid_index = -1;            // as HORING_IB_GID_INDEX
  int timeout = 0;               // as HORING_IB_TIMEOUT
  int retries = 6;               // as HORING_IB_RETRIES
  int64_t outage_ms = 30'000;    // time without any path until the link fails
  int traffic_class = 0;         // as HORING_IB_TC
  int service_level = 0;         // as HORING_IB_SL
  int pkey_index = 0;            // as HORING_IB_PKEY_INDEX
  int queue_pairs = 1;           // as HORING_IB_QPS_PER_CONNECTION
  bool relaxed_ordering = true;  // as HORING_IB_RELAXED_ORDERING
  // Distances of devices from this rank, as far as known. Data uses the nearest; the others are spare.
  std::map<std::string, int> distance = {};
  // Bytes that a link must lock; if the limit is lower, there is no transport. 0: check when a link is made.
  size_t locked_bytes = 0;
  // Bytes of callers' memory that each device may keep locked; 0: all is copied through slots.
  size_t region_bytes = SIZE_MAX;
  WithoutPaths without_paths = WithoutPaths::kFail;
  const verbs::Library* library = nullptr;  // null: this machine's; copied
  const Clock* clock = nullptr;             // must outlive the transport
  Log log = Log();
};

// Whether this machine has any RDMA device, usable or not. Cheap: loads nothing.
bool hasRdmaDevices();

// Opens the selected devices. `control` must reach every peer of this transport and authenticate it, since the data of queue pairs is sent
// over it. Fails if there is no libibverbs, no usable device, or too low a limit on locked memory, and says what to do; kInvalidArgument if
// an option is wrong.
//
// Besides the contract of Transport: links use all ports that two ranks can pair, as far as a first packet shows that they work. When a
// port or queue pair fails, its messages go by the others; without any for `outage_ms` the link fails, naming rank and device. A link
// that none works for from the start may be one of `control` instead, if its number is in the lower half of what there may be. Lent memory
// is registered with the devices, and stays so until it is forgotten or makes room for more. Destroying the transport waits (at most two
// seconds) until what was sent has arrived.
Result<std::unique_ptr<Transport>> makeVerbsTransport(const VerbsOptions& options,
                                                      std::unique_ptr<Transport> control);

}  // namespace horing
