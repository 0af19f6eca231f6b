#include "comm/reach/lent_buffers.h"

#include "engine/host/driven.h"

namespace horing {

namespace {
// The upper bits of an ordinary region's number. A registered region has them only with negligible probability.
constexpr uint64_t kOrdinary = uint64_t{0xca11} << 48;
// At once, in a group with many receives: transports search all lent buffers for each message.
constexpr size_t kMostLent = 256;
}  // namespace

void LentBuffers::lendRegistered(uint32_t transports, const void* buffer, uint64_t ticket) {
  transports = connector_.thatUseLentMemory(transports);
  if (!buffer || transports == 0) return;
  auto* const byte = static_cast<std::byte*>(const_cast<void*>(buffer));
  if (segments_) {
    if (const auto place = segments_->find(byte, 1))
      return lend({Region{place->name.id, byte - place->offset, place->name.bytes}, transports, ticket});
  }
  registrations_.withRegion(byte, [&](const Region& region) { lend({region, transports, ticket}); });
}

void LentBuffers::lendOrdinary(uint32_t transports, void* buffer, size_t bytes, uint64_t ticket) {
  transports = connector_.thatUseOrdinaryMemory(transports);
  if (transports == 0 || bytes < kInPlaceBytes || lent_.size() >= kMostLent) return;
  const Region region{
      .id = kOrdinary + ++ordinary_, .begin = static_cast<std::byte*>(buffer), .bytes = bytes};
  lend({region, transports, ticket});
}

void LentBuffers::lendTransfer(uint32_t transports, const Transfer& transfer, uint64_t ticket) {
  if (transfer.bytes < kInPlaceBytes) return;
  lendRegistered(transports, transfer.memory(), ticket);
  std::byte* const output = transfer.output();
  if (output && !transfer.copier) lendOrdinary(transports, output, transfer.bytes, ticket);
}

void LentBuffers::lend(const Lent& lent) {
  lent_.reserve(lent_.size() + 1);  // reserved first, so that every lent buffer is taken back
  connector_.lend(lent.transports, lent.region);
  lent_.push_back(lent);
}

void LentBuffers::takeBack(bool failed, const Lent& lent) {
  if (failed) connector_.forget(lent.region.id);
  connector_.takeBack(lent.transports, lent.region);
}

void LentBuffers::takeBack(bool failed, uint64_t ticket) {
  std::erase_if(lent_, [&](const Lent& lent) {
    if (lent.ticket != ticket) return false;
    takeBack(failed, lent);
    return true;
  });
}

void LentBuffers::takeBack(bool failed) {
  for (const Lent& lent : lent_) takeBack(failed, lent);
  lent_.clear();
}

}  // namespace horing
