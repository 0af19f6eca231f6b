#pragma once
// Sends and receives on a GPU: each block serves several items concurrently, and in each round moves a slot of every item that is ready.
//
// Each thread polls the queues of its share of the block's items. All threads move the slots that are ready; after a barrier, which makes
// their writes visible, the item's thread posts or releases.
//
// Block: as in lane.h, with ExchangeShared.
#include "engine/cuda/exchange_call.h"
#include "engine/cuda/fold_body.h"
#include "engine/cuda/spin_timeout.h"

namespace horing::cuda {

// The state of an item, kept by its thread.
struct ExchangeItem {
  Port port;                  // a copy while the kernel runs
  std::byte* data = nullptr;  // the item's part of the current message
  uint64_t bytes = 0;         // bytes of `data`
  uint64_t done = 0;          // bytes done
  uint64_t tag = 0;           // of the message
  int32_t message = -1;       // its index in the flow
  bool sends = false;
  bool is_done = false;  // all messages are done
};

struct ExchangeShared {
  ExchangeItem items[kMaxItemsOfBlock];
  // Shared by the threads of a block, for each of its items.
  const std::byte* from[kMaxItemsOfBlock];
  std::byte* to[kMaxItemsOfBlock];
  uint32_t bytes[kMaxItemsOfBlock];
  uint8_t is_ready[kMaxItemsOfBlock];
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
    for (int32_t i = own(); i < items(); i += stride())
      if (item(i).port.slots) *farPort(i) = item(i).port;
    if (tells) view.activity[number_].end(run, view.hosts_carry);
    return ran;
  }

 private:
  HORING_DEVICE bool runItems() {
    for (int32_t i = own(); i < items(); i += stride()) begin(i);
    SpinTimeout spin;
    for (uint32_t looks = 1;; ++looks) {
      bool ready = false, left = false;
      for (int32_t i = own(); i < items(); i += stride()) {
        left |= !item(i).is_done;
        shared_.is_ready[i] = !item(i).is_done && findSlot(i);
        ready |= shared_.is_ready[i] != 0;
      }
      if (block_.any(ready)) {
        move();
        looks = 0;
        spin = {};
        continue;
      }
      if (!block_.any(left)) return true;
      if (block_.any(looks % SpinTimeout::kLooks == 0 && own() == 0 && mustEnd(spin))) return false;
      block_.pause();
    }
  }

  HORING_DEVICE void begin(int32_t number) {
    ExchangeItem& mine = item(number);
    mine = {};
    mine.sends = flow(number).sends;
    next(number);
    // A flow with fewer parts has fewer ports.
    if (!mine.is_done) mine.port = *farPort(number);
  }
  // Moves on to the next message with this part; an empty message has its first part only.
  HORING_DEVICE void next(int32_t number) {
    ExchangeItem& mine = item(number);
    const ExchangeFlow& flow = this->flow(number);
    PartCut cut = call_.view.cut;
    cut.parts = flow.parts;
    while (++mine.message < flow.message_count) {
      const ExchangeMessage& message = call_.messages[flow.first + mine.message];
      const ElementRange range = cut.range(message.bytes, part(number));
      if (range.count == 0 && !(part(number) == 0 && message.bytes == 0)) continue;
      mine.data = message.data + range.offset;
      mine.bytes = range.count;
      mine.done = 0;
      mine.tag = ExchangeTag::of(message.bytes);
      return;
    }
    mine.is_done = true;
  }

  // Whether it has a slot to move; publishes it to the block in shared memory.
  HORING_DEVICE bool findSlot(int32_t number) {
    ExchangeItem& mine = item(number);
    const auto bytes =
        static_cast<uint32_t>(std::min<uint64_t>(mine.bytes - mine.done, mine.port.slot_bytes));
    std::byte* const data = mine.data + mine.done;
    if (mine.sends) {
      if (!mine.port.canSend()) return false;
      mine.port.label() = {mine.tag, bytes};
      shared_.from[number] = data;
      shared_.to[number] = mine.port.data();
    } else {
      if (!mine.port.canReceive()) return false;
      const SlotLabel label = mine.port.label();
      if (label.tag != mine.tag || label.bytes != bytes) {
        giveUp(Failure::Kind::kForeignMessage, number, ExchangeTag::bytesOf(label.tag));
        return false;
      }
      shared_.from[number] = mine.port.data();
      shared_.to[number] = data;
    }
    shared_.bytes[number] = bytes;
    return true;
  }

  HORING_DEVICE void move() {
    for (int32_t i = 0; i < items(); ++i)
      if (shared_.is_ready[i]) copy(i);
    block_.sync();
    bool is_fenced = false;
    for (int32_t i = own(); i < items(); i += stride()) {
      if (!shared_.is_ready[i]) continue;
      ExchangeItem& mine = item(i);
      if (mine.sends && !is_fenced) releaseFence();
      is_fenced |= mine.sends;
      mine.port.advance();
      mine.done += shared_.bytes[i];
      if (mine.done == mine.bytes) next(i);
    }
  }

  HORING_DEVICE void copy(int32_t item) const {
    moveBytes(shared_.to[item], shared_.from[item], shared_.bytes[item], block_);
  }

  // One thread: whether to stop waiting.
  HORING_DEVICE bool mustEnd(SpinTimeout& spin) {
    const ExchangeView& view = call_.view;
    const Failure::Kind end = spin.check(block_.nowNs(), view.abort, &view.failure->claimed, view.timeout_ns);
    if (end == Failure::Kind::kNone) return false;
    giveUp(end, firstLeft(), ExchangeFailure::kNoMessage);
    return true;
  }
  // Other threads update it, but not between these barriers.
  HORING_DEVICE int32_t firstLeft() const {
    for (int32_t i = 0; i < items(); ++i)
      if (!item(i).is_done) return i;
    return 0;
  }

  HORING_DEVICE void giveUp(Failure::Kind kind, int32_t number, uint64_t found) {
    ExchangeFailure& failure = *call_.view.failure;
    if (!claim(&failure.claimed)) return;
    failure.flow = flow(number).number;
    failure.part = part(number);
    failure.expected = call_.messages[flow(number).first + item(number).message].bytes;
    failure.found = found;
    failure.call = call_.number;
    failure.timeout_ns = call_.view.timeout_ns;
    // Written last, as in lane.h.
    storeFlag(&failure.kind, static_cast<uint32_t>(kind));
    storeFlag(call_.view.abort, 1);
  }

  // The number of items of this block.
  HORING_DEVICE int32_t items() const { return (call_.items() - number_ + call_.blocks - 1) / call_.blocks; }
  HORING_DEVICE int32_t itemOfCall(int32_t item) const { return number_ + item * call_.blocks; }
  HORING_DEVICE const ExchangeFlow& flow(int32_t item) const {
    return call_.flows[itemOfCall(item) / call_.used_parts];
  }
  HORING_DEVICE int32_t part(int32_t item) const { return itemOfCall(item) % call_.used_parts; }
  HORING_DEVICE ExchangeItem& item(int32_t number) const { return shared_.items[number]; }
  HORING_DEVICE Port* farPort(int32_t item) const {
    return inGlobal(call_.view.ports[flow(item).number * call_.view.cut.parts + part(item)]);
  }
  HORING_DEVICE int32_t own() const { return static_cast<int32_t>(block_.thread()); }
  HORING_DEVICE int32_t stride() const { return static_cast<int32_t>(block_.threads()); }

  const ExchangeCall& call_;
  const int32_t number_;  // the number of the block
  Block& block_;
  ExchangeShared& shared_;
};

}  // namespace horing::cuda
