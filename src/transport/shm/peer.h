#pragma once
// Another rank of this node, as seen from here: its presence page, its bell, and whether it lives.
#include <string>

#include "base/fd.h"
#include "base/status.h"
#include "transport/shm/directory.h"
#include "transport/shm/layout.h"
#include "transport/slots/doorbell.h"

namespace horing {

class ShmPeer {
 public:
  // Opens what `address` names in `directory` and compares the nonce. `here` describes this side of it.
  static Result<ShmPeer> open(const std::string& directory, const ShmAddress& here,
                              const ShmAddress& address);

  const std::string& stem() const { return stem_; }
  int pid() const { return page().pid; }
  DoorbellButton button() const { return DoorbellButton(&page().bell, bell_.get()); }
  const std::atomic<uint32_t>& departed() const { return page().departed; }
  // Whether it opens nothing more of that rank.
  bool hasGivenUp(int rank) const { return page().given_up.has(rank); }
  // True when its process ended without a farewell.
  bool died() const;

 private:
  PresencePage& page() const { return *reinterpret_cast<PresencePage*>(presence_.data()); }

  std::string stem_;
  Fd lock_;  // the presence file, kept open to ask for its owner's lock
  ShmMap presence_;
  Fd bell_;
};

}  // namespace horing
