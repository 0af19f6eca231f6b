#pragma once
// Another rank of this node, as seen from here: its presence page, its bell, and the liveness of its process.
#include <memory>
#include <string>

#include "base/status.h"
#include "transport/shm/bell.h"
#include "transport/shm/directory.h"
#include "transport/shm/layout.h"
#include "transport/slots/doorbell.h"

namespace horing {

class ShmPeer {
 public:
  // Opens the presence file that `address` names in `directory` and compares the nonce. `here` describes this side.
  static Result<ShmPeer> open(const std::string& directory, const ShmAddress& here,
                              const ShmAddress& address);

  const std::string& stem() const { return stem_; }
  int pid() const { return page().pid; }
  DoorbellButton button() const { return DoorbellButton(&page().bell, bell_->fd()); }
  const std::atomic<uint32_t>& departed() const { return page().departed; }
  // Whether the peer opens no more files of that rank.
  bool hasGivenUp(int rank) const { return page().given_up.has(rank); }
  // Whether its process ended without leaving in order.
  bool died() const;

 private:
  PresencePage& page() const { return *reinterpret_cast<PresencePage*>(presence_.data()); }

  std::string stem_;
  ShmMap presence_;
  std::shared_ptr<const ShmPeerBell> bell_;
};

}  // namespace horing
