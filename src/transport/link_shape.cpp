#include "transport/link_shape.h"

namespace horing {

Status checkLinkShape(const LinkShape& shape) {
  if (shape.channels < 1 || shape.channels > kMaxLinkChannels) {
    return makeStatus(Code::kInvalidArgument, "a link of %d channels was asked for; it may have 1 to %d",
                      shape.channels, kMaxLinkChannels);
  }
  if (shape.slots < 2 || shape.slots > kMaxSlots) {
    return makeStatus(Code::kInvalidArgument, "a connection of %u slots was asked for; it may have 2 to %u",
                      shape.slots, kMaxSlots);
  }
  if (shape.slot_bytes < 64 || shape.slot_bytes > kMaxSlotBytes || shape.slot_bytes % 64 != 0) {
    return makeStatus(
        Code::kInvalidArgument,
        "slots of %u bytes were asked for; a multiple of 64 from 64 to %u is possible (HORING_SLICE_BYTES)",
        shape.slot_bytes, kMaxSlotBytes);
  }
  if (shape.room != 0 && (shape.room < shape.slots || shape.room > kMaxSlots)) {
    return makeStatus(Code::kInvalidArgument,
                      "room for %u slots of a connection was asked for; it may be %u, its slots, to %u",
                      shape.room, shape.slots, kMaxSlots);
  }
  return {};
}

Status checkLinkNumber(int number) {
  if (number >= 0 && number < kMaxLinksPerPeer) return {};
  return makeStatus(Code::kInvalidArgument, "link number %d was asked for; 0 to %d are possible", number,
                    kMaxLinksPerPeer - 1);
}

std::string linkShapeText(const LinkShape& shape) {
  const std::string room = shape.room > shape.slots ? formatString(" in room for %u", shape.room) : "";
  return formatString("%d channels x %u slots%s x %u bytes", shape.channels, shape.slots, room.c_str(),
                      shape.slot_bytes);
}

Status linkShapeMismatch(int rank, const LinkShape& mine, int peer, const LinkShape& theirs) {
  return makeStatus(
      Code::kInvalidUsage,
      "rank %d and rank %d disagree on the shape of their link: rank %d was given %s, rank %d was given %s; "
      "set HORING_SLICE_BYTES alike on all ranks",
      rank, peer, rank, linkShapeText(mine).c_str(), peer, linkShapeText(theirs).c_str());
}

}  // namespace horing
