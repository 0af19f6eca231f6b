#include "schedule/lane_name.h"

#include <algorithm>

#include "base/status.h"

namespace horing {

namespace {

bool namesPeer(const Source& source) {
  return takesMessage(source) || source.kind == Source::Kind::kPeerIn;
}

bool receives(const Step& step) {
  return std::any_of(step.sources.begin(), step.sources.end(),
                     [](const Source& source) { return source.kind == Source::Kind::kRecv; });
}

}  // namespace

bool leavesGroup(const Step& step, int32_t position, const GroupOf& group_of) {
  const int32_t own = group_of(position);
  const auto is_far = [&](int32_t peer) { return group_of(peer) != own; };
  return (step.send_to >= 0 && is_far(step.send_to)) ||
         std::any_of(step.signal_to.begin(), step.signal_to.end(), is_far) ||
         std::any_of(step.sources.begin(), step.sources.end(),
                     [&](const Source& source) { return namesPeer(source) && is_far(source.index); });
}

std::string laneName(const Schedule& schedule, size_t lane, const GroupOf& group_of) {
  bool far = false, near = false, folds = false, moves = false, signals = false;
  for (const Block& block : schedule.lanes[lane].blocks)
    for (const Step& step : block.body) {
      (leavesGroup(step, schedule.position, group_of) ? far : near) = true;
      signals = signals || step.isSignal();
      if (step.isSignal()) continue;
      folds = folds || step.sources.size() > 1;
      moves = moves || receives(step) || step.send_to >= 0;
    }
  const char* what = folds ? "reduce" : moves ? "gather" : signals ? "signal" : "copy";
  std::string text = formatString("lane %zu, %s", lane, what);
  if (folds || moves || signals)
    text += far && near ? " everywhere" : far ? " between groups" : " in the group";
  return text;
}

}  // namespace horing
