#include "base/watch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <unordered_map>
#include <utility>

#include "base/fd.h"
#include "base/fork_guard.h"
#include "base/no_memory.h"
#include "base/per_process.h"
#include "base/service_thread.h"

namespace horing {

// The thread that waits for the descriptors of all threads.
class PollThread {
 public:
  static Result<std::shared_ptr<PollThread>> ofProcess();
  ~PollThread();

  Status add(Watch& watch, int fd, Watch::Interest& interest);
  void arm(int fd, const Watch::Interest& interest) const;
  void remove(int fd, uint64_t id);
  bool isOfParent() const { return fork_guard_.isForkedChild(); }

 private:
  struct Entry {
    Watch* watch = nullptr;
    int fd = -1;
  };
  static constexpr uint64_t kStop = 0;

  Status begin();
  void look();

  ForkGuard fork_guard_;
  Fd epoll_, stop_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Entry> entries_;  // by id, guarded by mutex_
  uint64_t last_id_ = kStop;                     // guarded by mutex_
  ServiceThread thread_;
};

namespace {

constexpr const char* kNoWatch =
    "this user can watch no more descriptors (fs.epoll.max_user_watches), or memory is short";

struct OnlyPollThread {
  std::mutex mutex;
  std::weak_ptr<PollThread> there;
};

epoll_event once(uint32_t events, uint64_t id) {
  return {.events = events | EPOLLONESHOT, .data = {.u64 = id}};
}

}  // namespace

Result<std::shared_ptr<PollThread>> PollThread::ofProcess() {
  auto& only = perProcess<OnlyPollThread>();
  const std::lock_guard lock(only.mutex);
  if (auto there = only.there.lock()) return there;
  auto made = std::make_shared<PollThread>();
  HORING_TRY(made->begin());
  only.there = made;
  return made;
}

Status PollThread::begin() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  stop_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !stop_.valid())
    return systemError(errno, "this process cannot open the descriptors that its threads wait by");
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kStop}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_.get(), &event) != 0) return systemError(errno, kNoWatch);
  return thread_.start("the poll thread", [this] { look(); });
}

PollThread::~PollThread() {
  thread_.end([this] {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  });
}

void PollThread::look() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      if (id == kStop) return;
      // The descriptor may have been removed meanwhile.
      if (const auto found = entries_.find(id); found != entries_.end())
        found->second.watch->note(found->second.fd);
    }
  }
}

Status PollThread::add(Watch& watch, int fd, Watch::Interest& interest) {
  const std::lock_guard lock(mutex_);
  interest.id = ++last_id_;
  entries_[interest.id] = {&watch, fd};
  epoll_event event = once(interest.events, interest.id);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  entries_.erase(interest.id);
  return systemError(errno, kNoWatch);
}

void PollThread::arm(int fd, const Watch::Interest& interest) const {
  epoll_event event = once(interest.events, interest.id);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void PollThread::remove(int fd, uint64_t id) {
  const std::lock_guard lock(mutex_);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  entries_.erase(id);
}

Result<std::unique_ptr<Watch>> Watch::open() {
  HORING_ASSIGN(std::shared_ptr<PollThread> poll_thread, PollThread::ofProcess());
  return std::unique_ptr<Watch>(new Watch(std::move(poll_thread)));
}

Watch::~Watch() {
  while (!interests_.empty()) remove(interests_.begin()->first);
  // If a thread of the parent was waiting at the fork, destroying the condition variable here would wait for that thread for ever.
  if (poll_thread_->isOfParent()) [[maybe_unused]]
    News* const left = news_.release();
}

Status Watch::add(int fd, uint32_t events) {
  if (poll_thread_->isOfParent()) return {};
  Interest& interest = interests_[fd];
  interest = {.events = events};
  const Status added = poll_thread_->add(*this, fd, interest);
  if (!added.ok()) interests_.erase(fd);
  return added;
}

void Watch::change(int fd, uint32_t events) {
  const auto found = interests_.find(fd);
  if (found == interests_.end() || found->second.events == events) return;
  found->second.events = events;
  poll_thread_->arm(fd, found->second);
}

void Watch::remove(int fd) {
  const auto found = interests_.find(fd);
  if (found == interests_.end()) return;
  const uint64_t id = found->second.id;
  interests_.erase(found);
  if (poll_thread_->isOfParent()) return;
  poll_thread_->remove(fd, id);
  const std::lock_guard lock(news_->mutex);
  std::erase(news_->ready, fd);
}

void Watch::note(int fd) {
  const std::lock_guard lock(news_->mutex);
  const Status noted = withoutExceptions([&] { news_->ready.push_back(fd); });
  news_->all_ready = news_->all_ready || !noted.ok();
  news_->changed.notify_one();
}

std::vector<int> Watch::wait(int most_ms) {
  for (const int fd : std::exchange(told_, {}))
    if (const auto found = interests_.find(fd); found != interests_.end())
      poll_thread_->arm(fd, found->second);
  std::unique_lock lock(news_->mutex);
  news_->changed.wait_for(lock, std::chrono::milliseconds(most_ms),
                          [this] { return news_->woken || news_->all_ready || !news_->ready.empty(); });
  std::vector<int> ready;
  if (news_->all_ready)
    for (const auto& [fd, interest] : interests_) ready.push_back(fd);
  else
    ready = news_->ready;
  told_ = ready;
  news_->ready.clear();
  news_->woken = news_->all_ready = false;
  return ready;
}

void Watch::wake() {
  const std::lock_guard lock(news_->mutex);
  news_->woken = true;
  news_->changed.notify_one();
}

}  // namespace horing
