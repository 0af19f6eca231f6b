// What an operation says about itself: what it waits for, and errors.
#include <algorithm>

#include "engine/host/operation.h"

namespace horing {

void HostOperation::rejectMessage(const LaneState& lane, const BoundSource& source, size_t bytes) {
  if (!status_.ok()) return;
  const Message& message = *source.receiver->tryPeek();
  const Collective collective = plan_.schedule().collective;
  const std::string op = isReduction(collective) ? std::string(", ") + redOpName(call_.op) : "";
  const std::string what = message.bytes == bytes
                               ? std::string("of the same size, so perhaps with another type") +
                                     (op.empty() ? "" : ", operation") + " or order of blocks"
                               : formatString("of %u bytes where %zu were due", message.bytes, bytes);
  status_ = makeStatus(
      Code::kInvalidUsage,
      "rank %d is in %s #%llu (%zu x %s%s, algorithm %s) and got from rank %d a message of "
      "another operation "
      "(lane %zu, step %d, slice %lld; %s): every rank must call the same collectives in the same "
      "order with the "
      "same arguments, and run with the same HORING_ settings",
      rank_of_position_[plan_.schedule().position], collectiveName(collective),
      static_cast<unsigned long long>(sequence_), call_.count, dataTypeName(call_.type), op.c_str(),
      plan_.schedule().algorithm.c_str(), source.peer, static_cast<size_t>(&lane - lanes_.data()),
      lane.index(), static_cast<long long>(lane.slice), what.c_str());
}

Obstacle HostOperation::obstacle() const {
  Obstacle found;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const LaneState& lane = lanes_[l];
    if (lane.finished()) continue;
    const SliceObstacle obstacle = obstacleTo(lane);
    const int32_t peer = obstacle.peer;
    found.text +=
        formatString("%slane %zu step %d of %d slice %lld of %lld: %s", found.text.empty() ? "" : "; ", l,
                     lane.index(), static_cast<int>(lane.steps.size()), static_cast<long long>(lane.slice),
                     static_cast<long long>(lane.slices), obstacle.text(lane.step->wait_lane).c_str());
    if (peer >= 0 && std::find(found.ranks.begin(), found.ranks.end(), peer) == found.ranks.end())
      found.ranks.push_back(peer);
  }
  if (found.text.empty()) found.text = "all lanes are done; some messages are not handed over yet";
  return found;
}

std::string HostOperation::SliceObstacle::text(int32_t wait_lane) const {
  switch (kind) {
    case Kind::kNothing:
      break;
    case Kind::kLane:
      return formatString("waits for lane %d", wait_lane);
    case Kind::kSignal:
      return formatString("waits for a signal from rank %d", peer);
    case Kind::kData:
      return formatString("waits for data from rank %d", peer);
    case Kind::kOtherData:
      return formatString("got data of another operation from rank %d", peer);
    case Kind::kValue:
      return "waits for another lane's value";
    case Kind::kQueue:
      return "waits for another lane to take a value";
    case Kind::kRoom:
      return formatString("waits for rank %d to take data", peer);
  }
  return "can go on";
}

}  // namespace horing
