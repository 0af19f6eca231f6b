#pragma once
// The meeting point of ranks that are threads of one process (or all in one thread). Passed to each rank's transport.
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "transport/slots/doorbell.h"
#include "transport/transport.h"

namespace horing {

inline constexpr int kMaxLoopbackRanks = 4096;
using LoopbackNonce = std::array<uint8_t, 16>;

// One end of a link between two ranks. Written by its own rank; read by the peer once `joined`.
struct LoopbackEnd {
  // Set by its rank in LoopbackHub::join(); release pairs with the acquire in LoopbackTransport::progress().
  std::atomic<uint32_t> joined{0};
  // Set by its rank when its transport goes; release pairs with the acquire in SlotLinkState::peerDeparted().
  std::atomic<uint32_t> departed{0};
  LinkShape shape;
  std::byte* inbound = nullptr;  // the row that this rank receives into, aligned to 128
};

// Both ends of a link and the memory between them; exists until both transports are gone.
class LoopbackPair {
 public:
  LoopbackPair() = default;
  ~LoopbackPair();
  LoopbackPair(const LoopbackPair&) = delete;
  LoopbackPair& operator=(const LoopbackPair&) = delete;

  LoopbackEnd& end(int rank, int peer) { return ends_[rank < peer ? 0 : 1]; }

 private:
  std::array<LoopbackEnd, 2> ends_;
};

// Thread safe. Transports use it when they are made, linked and destroyed, never on the data path.
class LoopbackHub {
 public:
  // `ranks`: 1 .. kMaxLoopbackRanks. Fails when the process has no file descriptors left.
  static Result<std::shared_ptr<LoopbackHub>> create(int ranks);
  LoopbackHub(const LoopbackHub&) = delete;
  LoopbackHub& operator=(const LoopbackHub&) = delete;

  // A hub for some of the ranks: callers with the same name share it, while one of them holds it.
  Result<std::shared_ptr<LoopbackHub>> branch(const LoopbackNonce& name, int ranks);

  int ranks() const { return static_cast<int>(states_.size()); }
  // Identifies this hub.
  const LoopbackNonce& nonce() const { return nonce_; }

  // For LoopbackTransport. Reserves a rank for one transport; vacate() releases it.
  Status occupy(int rank);
  void vacate(int rank);
  // Fills in and publishes this rank's end of the pair; the first rank makes the pair.
  std::shared_ptr<LoopbackPair> join(int rank, int peer, int number, const LinkShape& shape);
  // Drops a pair whose other end never joined.
  void forget(int rank, int peer, int number, const LoopbackPair* pair);
  // The bell of a rank; valid as long as the hub.
  Doorbell bell(int rank) { return Doorbell(&state(rank).flag, state(rank).event.get()); }
  DoorbellButton button(int rank) { return DoorbellButton(&state(rank).flag, state(rank).event.get()); }

 private:
  struct RankState {
    DoorbellFlag flag{};
    Fd event;
    bool taken = false;  // under mutex_
  };
  LoopbackHub(std::vector<std::unique_ptr<RankState>> states, const LoopbackNonce& nonce)
      : states_(std::move(states)), nonce_(nonce) {}
  RankState& state(int rank) { return *states_[static_cast<size_t>(rank)]; }

  std::vector<std::unique_ptr<RankState>> states_;
  LoopbackNonce nonce_;
  std::mutex mutex_;
  // Half-joined pairs by lower rank, higher rank and number; under mutex_.
  std::map<std::array<int, 3>, std::shared_ptr<LoopbackPair>> waiting_;
  std::map<LoopbackNonce, std::weak_ptr<LoopbackHub>> branches_;  // by name; under mutex_
};

}  // namespace horing
