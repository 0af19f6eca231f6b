#pragma once
// Sends and receives on a GPU: each block looks after some items at once, and moves a slot of every one that is ready, round by round.
//
// A thread looks after the queues of its share of the block's items. What it finds ready all threads move; after a barrier, which
// shows what they have written, it posts or releases.
//
// Block: as in lane.h, with ExchangeShared.
#include "engine/cuda/exchange_call.h"
#include "engine/cuda/fold_body.h"
#include "engine/cuda/patience.h"

namespace horing::cuda {

// What the threads of a block tell each other, for each of its items.
struct ExchangeShared {
  const std::byte* from[kMaxItemsOfBlock];
  std::byte* to[kMaxItemsOfBlock];
  uint32_t bytes[kMaxItemsOfBlock];
  uint8_t is_ready[kMaxItemsOfBlock];
  // Of the one thread that looks after it: where it is in its flow.
  int32_t message[kMaxItemsOfBlock];
  uint64_t done[kMaxItemsOfBlock];  // bytes of that message's part
};

template <class Block>
class ExchangeRun {
 public:
  HORING_DEVICE ExchangeRun(const ExchangeCall& call, int32_t number, Block& block)
      : call_(call), number_(number), block_(block), shared_(block.shared()) {}

  // False if it gave up; ExchangeView::failure says why.
  HORING_DEVICE bool run() {
    const ExchangeView& view = call_.view;
    const bool tells = view.activity && own() == 0;
    const uint64_t run = tells ? ++view.runs[number_] : 0;
    if (tells) storeFenced(&view.activity[number_].begun, run);
    const bool ran = runItems();
    if (tells) view.activity[number_].end(run, view.hosts_carry);
    return ran;
  }

 private:
  HORING_DEVICE bool runItems() {
    for (int32_t i = own(); i < items(); i += stride()) begin(i);
    Patience patience;
    for (uint32_t looks = 1;; ++looks) {
      bool ready = false, left = false;
      for (int32_t i = own(); i < items(); i += stride()) {
        left |= !isDone(i);
        shared_.is_ready[i] = !isDone(i) && findSlot(i);
        ready |= shared_.is_ready[i] != 0;
      }
      if (block_.any(ready)) {
        move();
        looks = 0;
        patience = {};
        continue;
      }
      if (!block_.any(left)) return true;
      if (block_.any(looks % Patience::kLooks == 0 && own() == 0 && mustEnd(patience))) return false;
      block_.pause();
    }
  }

  // Which of the flow's messages the item is at, and which bytes of it are the item's.
  struct Share {
    const ExchangeMessage& message;
    ElementRange range;
  };
  HORING_DEVICE Share share(int32_t item) const {
    const ExchangeMessage& message = call_.messages[flow(item).first + shared_.message[item]];
    PartCut cut = call_.view.cut;
    cut.parts = flow(item).parts;
    return {message, cut.range(message.bytes, part(item))};
  }

  HORING_DEVICE void begin(int32_t item) {
    shared_.message[item] = -1;
    next(item);
  }
  // To the next message of which it has a part; that of an empty one is its first.
  HORING_DEVICE void next(int32_t item) {
    shared_.done[item] = 0;
    do {
      ++shared_.message[item];
    } while (!isDone(item) && share(item).range.count == 0 &&
             !(part(item) == 0 && share(item).message.bytes == 0));
  }

  // Whether it has a slot to move; then all of the block find it in shared memory.
  HORING_DEVICE bool findSlot(int32_t item) {
    Port& port = portOf(item);
    const Share own = share(item);
    const uint64_t left = own.range.count - shared_.done[item];
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(left, port.slot_bytes));
    std::byte* const data = own.message.data + own.range.offset + shared_.done[item];
    SlotLabel& label = port.label();
    const uint64_t tag = ExchangeTag::of(own.message.bytes);
    if (flow(item).sends) {
      if (!port.canSend()) return false;
      label = {tag, bytes};
      shared_.from[item] = data;
      shared_.to[item] = port.data();
    } else {
      if (!port.canReceive()) return false;
      if (label.tag != tag || label.bytes != bytes) {
        giveUp(Failure::Kind::kForeignMessage, item, ExchangeTag::bytesOf(label.tag));
        return false;
      }
      shared_.from[item] = port.data();
      shared_.to[item] = data;
    }
    shared_.bytes[item] = bytes;
    return true;
  }

  HORING_DEVICE void move() {
    for (int32_t i = 0; i < items(); ++i)
      if (shared_.is_ready[i]) copy(i);
    block_.sync();
    bool is_fenced = false;
    for (int32_t i = own(); i < items(); i += stride()) {
      if (!shared_.is_ready[i]) continue;
      if (flow(i).sends && !is_fenced) releaseFence();
      is_fenced |= flow(i).sends;
      portOf(i).advance();
      shared_.done[i] += shared_.bytes[i];
      if (shared_.done[i] == share(i).range.count) next(i);
    }
  }

  HORING_DEVICE void copy(int32_t item) const {
    moveBytes(shared_.to[item], shared_.from[item], shared_.bytes[item], block_);
  }

  // One thread: whether there is nothing to wait for any more.
  HORING_DEVICE bool mustEnd(Patience& patience) {
    const ExchangeView& view = call_.view;
    const Failure::Kind end =
        patience.look(block_.nowNs(), view.abort, &view.failure->claimed, view.timeout_ns);
    if (end == Failure::Kind::kNone) return false;
    giveUp(end, firstLeft(), ExchangeFailure::kNoMessage);
    return true;
  }
  // Others look after it, but not between these barriers.
  HORING_DEVICE int32_t firstLeft() const {
    for (int32_t i = 0; i < items(); ++i)
      if (!isDone(i)) return i;
    return 0;
  }

  HORING_DEVICE void giveUp(Failure::Kind kind, int32_t item, uint64_t found) {
    ExchangeFailure& failure = *call_.view.failure;
    if (!claim(&failure.claimed)) return;
    failure.flow = flow(item).number;
    failure.part = part(item);
    failure.expected = share(item).message.bytes;
    failure.found = found;
    failure.call = call_.number;
    // Last, as in lane.h.
    storeFlag(&failure.kind, static_cast<uint32_t>(kind));
    storeFlag(call_.view.abort, 1);
  }

  // Of this block.
  HORING_DEVICE int32_t items() const { return (call_.items() - number_ + call_.blocks - 1) / call_.blocks; }
  HORING_DEVICE int32_t itemOfCall(int32_t item) const { return number_ + item * call_.blocks; }
  HORING_DEVICE const ExchangeFlow& flow(int32_t item) const {
    return call_.flows[itemOfCall(item) / call_.used_parts];
  }
  HORING_DEVICE int32_t part(int32_t item) const { return itemOfCall(item) % call_.used_parts; }
  HORING_DEVICE bool isDone(int32_t item) const { return shared_.message[item] >= flow(item).message_count; }
  HORING_DEVICE Port& portOf(int32_t item) const {
    return *inGlobal(call_.view.ports[flow(item).number * call_.view.cut.parts + part(item)]);
  }
  HORING_DEVICE int32_t own() const { return static_cast<int32_t>(block_.thread()); }
  HORING_DEVICE int32_t stride() const { return static_cast<int32_t>(block_.threads()); }

  const ExchangeCall& call_;
  const int32_t number_;  // of the block
  Block& block_;
  ExchangeShared& shared_;
};

}  // namespace horing::cuda
