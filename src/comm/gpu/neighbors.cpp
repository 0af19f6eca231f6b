#include "comm/gpu/neighbors.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace horing {

namespace {

// The header of a mailbox, before its queues: the flag that its neighbor sets when it has closed the memory, the word by which the neighbor
// proves that its GPU can write here, and the word that the owner's GPU copies from for its own proof.
constexpr size_t kWordBytes = 256, kProofAt = 8, kProofSourceAt = 16;
constexpr int64_t kLeaveMs = 1000;
constexpr std::chrono::milliseconds kLook{1};

size_t mailboxBytes(const cuda::QueueShape& shape, int channels) {
  return kWordBytes + static_cast<size_t>(channels) * (cuda::queueBytes(shape) + cuda::kQueueCounterBytes);
}

}  // namespace

GpuMailboxes::GpuMailboxes(std::vector<std::string> node_of_rank) : node_of_rank_(std::move(node_of_rank)) {
  std::map<std::string_view, size_t> ranks_of_node;
  for (const std::string& node : node_of_rank_) ++ranks_of_node[node];
  for (const auto& [node, ranks] : ranks_of_node) {
    most_neighbors_ = std::max(most_neighbors_, ranks - 1);
    least_neighbors_ = std::min(least_neighbors_, ranks - 1);
  }
}

void GpuMailboxes::setShape(const cuda::QueueShape& shape, int channels, size_t spare_bytes) {
  shape_ = shape;
  channels_ = channels;
  spare_bytes_ = spare_bytes;
}

std::vector<size_t> GpuMailboxes::nodeOfRank() const {
  std::map<std::string_view, size_t> numbers;
  std::vector<size_t> nodes;
  for (const std::string& node : node_of_rank_)
    nodes.push_back(numbers.emplace(node, numbers.size()).first->second);
  return nodes;
}

std::vector<int> GpuMailboxes::neighborsOf(int rank) const {
  std::vector<int> neighbors;
  for (size_t other = 0; other < node_of_rank_.size(); ++other)
    if (static_cast<int>(other) != rank && node_of_rank_[other] == node_of_rank_[static_cast<size_t>(rank)])
      neighbors.push_back(static_cast<int>(other));
  return neighbors;
}

size_t GpuMailboxes::bytes(const cuda::QueueShape& shape, int channels) const {
  return most_neighbors_ * mailboxBytes(shape, channels);
}

size_t GpuMailboxes::closedWord(int owner, int neighbor) const {
  const std::vector<int> neighbors = neighborsOf(owner);
  const auto mailbox = std::lower_bound(neighbors.begin(), neighbors.end(), neighbor) - neighbors.begin();
  return static_cast<size_t>(mailbox) * mailboxBytes(shape_, channels_);
}

size_t GpuMailboxes::queueFrom(int owner, int neighbor, int channel) const {
  return closedWord(owner, neighbor) + kWordBytes + static_cast<size_t>(channel) * cuda::queueBytes(shape_);
}

size_t GpuMailboxes::counterOfQueueTo(int owner, int neighbor, int channel) const {
  return queueFrom(owner, neighbor, channels_) + static_cast<size_t>(channel) * cuda::kQueueCounterBytes;
}

std::optional<CudaIpcHandle> GpuNeighbors::offer(std::shared_ptr<const CudaDevice> device,
                                                 cuda::Memory& memory, const Log& log) {
  if (mailboxes_.neighborsOf(rank_).empty() || mailboxes_.spareBegin() > kMostBytes) return {};
  HORING_CHECK_EQ(memory.used(), size_t{0});
  const Result<std::byte*> begin = memory.allocate(mailboxes_.bytes());
  auto shared = begin.ok() ? SharedMemory::make(device, begin.value()) : begin.status();
  if (!shared.ok()) {
    log.info("gpu", "hosts carry messages of kernels in this node: %s", shared.status().message().c_str());
    (void)memory.rewind(0);
    return {};
  }
  shared_ = shared.take();
  device_ = std::move(device);
  memory_ = &memory;
  begin_ = begin.value();
  offered_ = memory.used();
  // Until they report otherwise, which this rank may never learn.
  for (const int peer : mailboxes_.neighborsOf(rank_)) openers_.insert(peer);
  return shared_->handle();
}

void GpuNeighbors::open(const std::vector<GpuOffer>& offers, const Log& log) {
  if (!begin_) return;
  for (const int peer : mailboxes_.neighborsOf(rank_)) {
    const auto& handle = offers[static_cast<size_t>(peer)].memory;
    if (!handle) continue;
    auto opened = OpenedMemory::open(device_, *handle, mailboxes_.bytes());
    Status proven = opened.status();
    if (opened.ok()) {
      opened_.emplace(peer, opened.take());
      proven = writeProof(peer);
    }
    if (!proven.ok())
      log.info("gpu", "hosts carry messages of kernels to rank %d: %s", peer, proven.message().c_str());
  }
}

Status GpuNeighbors::writeProof(int peer) {
  const uint64_t proof = CudaDevice::proofOf(rank_, peer);
  std::byte* const source = begin_ + mailboxes_.closedWord(rank_, peer) + kProofSourceAt;
  HORING_TRY(memory_->write(source, &proof, sizeof proof));
  return device_->pushNow(*device_, opened_.at(peer)->begin() + mailboxes_.closedWord(peer, rank_) + kProofAt,
                          {source, sizeof proof});
}

bool GpuNeighbors::hasArrived(int peer) const {
  uint64_t proof = 0;
  const Status read =
      memory_->read(&proof, begin_ + mailboxes_.closedWord(rank_, peer) + kProofAt, sizeof proof);
  return read.ok() && proof == CudaDevice::proofOf(peer, rank_);
}

void GpuNeighbors::listen(const TransportReach& opened, const Log& log) {
  openers_.clear();
  for (const int peer : mailboxes_.neighborsOf(rank_)) {
    if (!begin_ || !opened.tells(static_cast<size_t>(peer), static_cast<size_t>(rank_), kOpened)) continue;
    openers_.insert(peer);
    if (hasArrived(peer)) {
      heard_.insert(peer);
    } else {
      log.warn(
          "gpu",
          "hosts carry messages of kernels between ranks %d and %d, since writes of rank %d's GPU to rank "
          "%d's do not arrive (if it wrote at all, see its log), %s",
          rank_, peer, peer, rank_, CudaDevice::kDroppedWrites);
    }
  }
}

void GpuNeighbors::settle(const TransportReach& told, size_t way) {
  for (const int peer : mailboxes_.neighborsOf(rank_)) {
    if (told.both(static_cast<size_t>(rank_), static_cast<size_t>(peer), way)) continue;
    heard_.erase(peer);
    if (hasOpened(peer)) close(peer);
  }
  settled_ = true;
}

void GpuNeighbors::forgetClosed() {
  openers_ = heard_;
  // Memory that no peer can write to is free for plans.
  if (begin_ && openers_.empty() && memory_->used() == offered_ && memory_->rewind(0).ok()) {
    begin_ = nullptr;
    shared_.reset();
  }
}

cuda::Port GpuNeighbors::port(int peer, int channel, bool sends) const {
  std::byte* const theirs = opened_.at(peer)->begin();
  if (sends)
    return cuda::layQueue(mailboxes_.shape(), theirs + mailboxes_.queueFrom(peer, rank_, channel),
                          begin_ + mailboxes_.counterOfQueueTo(rank_, peer, channel))
        .send;
  return cuda::layQueue(mailboxes_.shape(), begin_ + mailboxes_.queueFrom(rank_, peer, channel),
                        theirs + mailboxes_.counterOfQueueTo(peer, rank_, channel))
      .receive;
}

std::byte* GpuNeighbors::spare(int rank) const {
  return (rank == rank_ ? begin_ : opened_.at(rank)->begin()) + mailboxes_.spareBegin();
}

// Sets the flag first, since after the close it cannot; this process does not access the memory in between. If even that fails, the owner
// keeps the memory.
void GpuNeighbors::close(int peer) {
  const auto opened = opened_.find(peer);
  const uint64_t closed = 1;
  (void)memory_->write(opened->second->begin() + mailboxes_.closedWord(peer, rank_), &closed, sizeof closed);
  opened_.erase(opened);
}

bool GpuNeighbors::isClosedBy(int peer) const {
  uint64_t closed = 0;
  const Status read = memory_->read(&closed, begin_ + mailboxes_.closedWord(rank_, peer), sizeof closed);
  return read.ok() && closed != 0;
}

std::shared_ptr<void> GpuNeighbors::leave(std::shared_ptr<void> memory) {
  while (!opened_.empty()) close(opened_.begin()->first);
  const SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, kLeaveMs);
  for (;;) {
    std::erase_if(openers_, [this](int peer) { return here_.contains(peer) || isClosedBy(peer); });
    if (openers_.empty() || deadline.passed()) break;
    std::this_thread::sleep_for(kLook);
  }
  // Ranks of this process may leave later, on the same thread.
  if (shared_) shared_->keep(memory);
  shared_.reset();
  if (openers_.empty()) memory.reset();
  return memory;
}

void GpuNeighbors::leak() {
  for (auto& [peer, opened] : opened_) (void)opened.release();
  opened_.clear();
}

}  // namespace horing
