#include "comm/reach/buffer_users.h"

#include <poll.h>

#include <map>
#include <mutex>

namespace horing {

std::shared_ptr<BufferUsers> BufferUsers::of(const JobId& communicator) {
  static std::mutex mutex;
  // Never destroyed: communicators may still be initialised during exit.
  static auto& known = *new std::map<JobId, std::weak_ptr<BufferUsers>>;
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<BufferUsers>& entry = known[communicator];
  std::shared_ptr<BufferUsers> users = entry.lock();
  if (!users) entry = users = std::make_shared<BufferUsers>();
  return users;
}

Status BufferUsers::givenUp() const {
  if (!given_up_.load()) return {};
  const std::lock_guard lock(mutex_);
  return why_;
}

bool BufferUsers::giveUp(const Status& why, Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (why_.ok()) why_ = why;
  }
  given_up_.store(true);
  while (inside_.load() != 0) {
    if (deadline.passed()) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

}  // namespace horing
