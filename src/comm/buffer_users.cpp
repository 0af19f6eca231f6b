#include "comm/buffer_users.h"

#include <poll.h>

#include <map>
#include <mutex>

namespace horing {

std::shared_ptr<BufferUsers> BufferUsers::of(const JobId& communicator) {
  static std::mutex mutex;
  static std::map<JobId, std::weak_ptr<BufferUsers>> known;
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<BufferUsers>& entry = known[communicator];
  std::shared_ptr<BufferUsers> users = entry.lock();
  if (!users) entry = users = std::make_shared<BufferUsers>();
  return users;
}

bool BufferUsers::giveUp(Deadline deadline) {
  given_up_.store(true);
  while (inside_.load() != 0) {
    if (deadline.passed()) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

}  // namespace horing
