#pragma once
// Ranks that send each other messages on GPUs, all of one process, with queues to each other in memory that the test chooses.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/cuda/bound_exchange.h"
#include "engine/cuda/queue.h"

namespace horing::test {

struct ExchangeShape {
  int ranks = 2;
  int32_t parts = 3;
  int32_t blocks = 4;
  uint32_t slot_bytes = 256;
  uint32_t slots = 3;
  uint32_t smallest_part_bytes = 512;
  uint64_t timeout_ns = UINT64_MAX;
  int32_t most_far_parts = INT32_MAX;  // between ranks that are an odd number apart

  size_t partsBetween(size_t a, size_t b) const {
    return static_cast<size_t>((a + b) % 2 == 0 ? parts : std::min(parts, most_far_parts));
  }
};

// What byte `i` of message `number` from one rank to another is.
inline std::vector<std::byte> messageOf(int from, int to, size_t number, size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] =
        static_cast<std::byte>(i * 7 + i / 251 + static_cast<size_t>(from * 31 + to * 13) + number * 101);
  return data;
}

class ExchangeWorld {
 public:
  // `memory`: of every rank; `abort`: see BoundExchange. Both must outlive it.
  ExchangeWorld(const ExchangeShape& shape, cuda::Memory& memory, uint32_t* abort)
      : transfers_(static_cast<size_t>(shape.ranks)) {
    const auto parts = static_cast<size_t>(shape.parts), ranks = static_cast<size_t>(shape.ranks);
    const auto number = [&](size_t from, size_t to, size_t part) {
      return (from * ranks + to) * parts + part;
    };
    std::vector<cuda::Queue*> queues;
    for (size_t i = 0; i < number(ranks, 0, 0); ++i) {
      const cuda::Queue queue = cuda::makeQueue({shape.slots, shape.slot_bytes}, memory, memory).take();
      queues.push_back(reinterpret_cast<cuda::Queue*>(memory.allocate(sizeof queue).take()));
      made_ = made_.ok() ? memory.write(queues.back(), &queue, sizeof queue) : made_;
    }
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::vector<cuda::Port*> ports;
      for (size_t peer = 0; peer < ranks; ++peer)
        for (const bool sends : {false, true})
          for (size_t part = 0; part < parts; ++part)
            ports.push_back(peer == rank || part >= shape.partsBetween(peer, rank) ? nullptr
                            : sends ? &queues[number(rank, peer, part)]->send
                                    : &queues[number(peer, rank, part)]->receive);
      exchanges_.push_back(
          cuda::BoundExchange::make(ports,
                                    {shape.parts, shape.blocks, shape.smallest_part_bytes, shape.timeout_ns},
                                    {abort}, memory)
              .take());
    }
  }

  const Status& made() const { return made_; }
  size_t ranks() const { return exchanges_.size(); }
  const cuda::BoundExchange& exchange(size_t rank) const { return *exchanges_[rank]; }
  Status outcome(size_t rank) const { return exchanges_[rank]->outcome(); }

  void send(int from, int to, std::span<const std::byte> data) {
    transfers_[static_cast<size_t>(from)].push_back(
        {.kind = Transfer::Send{data.data()}, .peer = to, .bytes = data.size()});
  }
  void receive(int to, int from, std::span<std::byte> data) {
    transfers_[static_cast<size_t>(to)].push_back(
        {.kind = Transfer::Receive{data.data()}, .peer = from, .bytes = data.size()});
  }
  // The kernels of a rank, one after the other, for the operations so far, once.
  std::vector<cuda::ExchangeCall> take(size_t rank) {
    return exchanges_[rank]->prepare(std::exchange(transfers_[rank], {}), 5);
  }

 private:
  Status made_;
  std::vector<std::unique_ptr<cuda::BoundExchange>> exchanges_;
  std::vector<std::vector<Transfer>> transfers_;
};

}  // namespace horing::test
