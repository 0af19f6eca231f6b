#include "transport/loopback/hub.h"

#include <sys/eventfd.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "transport/slots/slot_link.h"
#include "transport/slots/slot_queue.h"

namespace horing {
namespace {

constexpr std::align_val_t kRowAlignment{alignof(SlotQueueHeader)};

std::array<int, 3> pairKey(int rank, int peer, int number) {
  return {std::min(rank, peer), std::max(rank, peer), number};
}

}  // namespace

LoopbackPair::~LoopbackPair() {
  for (LoopbackEnd& end : ends_) ::operator delete(end.inbound, kRowAlignment);
}

Result<std::shared_ptr<LoopbackHub>> LoopbackHub::create(int ranks) {
  if (ranks < 1 || ranks > kMaxLoopbackRanks) {
    return makeStatus(Code::kInvalidArgument,
                      "a loopback hub for %d ranks was asked for; 1 to %d are possible", ranks,
                      kMaxLoopbackRanks);
  }
  std::vector<std::unique_ptr<RankState>> states;
  for (int rank = 0; rank < ranks; ++rank) {
    auto state = std::make_unique<RankState>();
    state->event.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!state->event.valid()) {
      return systemError(errno, "making the doorbell of loopback rank %d of %d", rank, ranks);
    }
    states.push_back(std::move(state));
  }
  LoopbackNonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    return systemError(errno, "drawing the nonce of a loopback hub");
  }
  return std::shared_ptr<LoopbackHub>(new LoopbackHub(std::move(states), nonce));
}

Result<std::shared_ptr<LoopbackHub>> LoopbackHub::branch(const LoopbackNonce& name, int ranks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(branches_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto found = branches_.find(name); found != branches_.end())
    if (auto hub = found->second.lock()) return hub;
  HORING_ASSIGN(std::shared_ptr<LoopbackHub> hub, create(ranks));
  branches_[name] = hub;
  return hub;
}

Status LoopbackHub::occupy(int rank) {
  if (rank < 0 || rank >= ranks()) {
    return makeStatus(Code::kInvalidArgument, "loopback rank %d is not in 0 .. %d", rank, ranks() - 1);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state(rank).taken)
    return makeStatus(Code::kInvalidUsage, "loopback rank %d has a transport already", rank);
  state(rank).taken = true;
  return {};
}

void LoopbackHub::vacate(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  state(rank).taken = false;
}

std::shared_ptr<LoopbackPair> LoopbackHub::join(int rank, int peer, int number, const LinkShape& shape) {
  // Allocated and touched by the rank that will read it.
  auto* inbound = static_cast<std::byte*>(::operator new(slotRowBytes(shape), kRowAlignment));
  std::fill_n(inbound, slotRowBytes(shape), std::byte{0});
  formatSlotRow(inbound, shape);

  const std::lock_guard<std::mutex> lock(mutex_);
  const auto key = pairKey(rank, peer, number);
  std::shared_ptr<LoopbackPair> pair;
  if (auto half = waiting_.find(key); half != waiting_.end()) {
    pair = std::move(half->second);
    waiting_.erase(half);
  } else {
    pair = std::make_shared<LoopbackPair>();
    waiting_.emplace(key, pair);
  }
  LoopbackEnd& end = pair->end(rank, peer);
  end.shape = shape;
  end.inbound = inbound;
  // release: pairs with the acquire in LoopbackTransport::progress().
  end.joined.store(1, std::memory_order_release);
  return pair;
}

void LoopbackHub::forget(int rank, int peer, int number, const LoopbackPair* pair) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto half = waiting_.find(pairKey(rank, peer, number));
  if (half != waiting_.end() && half->second.get() == pair) waiting_.erase(half);
}

}  // namespace horing
