#include "control/control_journal.h"

#include <utility>

namespace horing {

void ControlJournal::keep(SharedMessage message) {
  kept_.push_back(std::move(message));
  if (kept_.size() <= kMaxJournal) return;
  kept_.pop_front();
  ++first_kept_;
}

void ControlJournal::pass() {
  first_kept_ += kept_.size() + 1;
  kept_.clear();
}

bool ControlJournal::acknowledge(uint64_t count) {
  if (count > sent()) return false;
  for (; first_kept_ < count; ++first_kept_) kept_.pop_front();
  return true;
}

bool ControlJournal::resend(uint64_t count, ControlChannel& channel) {
  if (!reaches(count) || !acknowledge(count)) return false;
  for (const SharedMessage& message : kept_) channel.send(message);
  return true;
}

}  // namespace horing
