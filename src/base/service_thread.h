#pragma once
// A thread of the library's own, inside the user's process.
#include <pthread.h>

#include <csignal>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/fork_guard.h"
#include "base/no_memory.h"
#include "base/status.h"

namespace horing {

// Owner of one. A forked child has a copy of the owner, but not of the thread: there the owner lets go of it.
class ServiceThread {
 public:
  ServiceThread() = default;
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;
  ~ServiceThread() {
    end([] {});
  }

  // Has it run body(), and take no signals: those are for the program's own threads. `what` names it in the error when there is no thread
  // to be had. Not while it has one.
  template <typename Body>
  Status start(const char* what, Body body) {
    // While there is some: the thread may have to say so.
    [[maybe_unused]] const Status& made_now = noMemory();
    auto guard = std::make_unique<ForkGuard>();
    HORING_ASSIGN(std::thread made, begin(what, std::move(body)));
    fork_guard_ = std::move(guard);  // first, for another thread may fork meanwhile
    thread_ = std::move(made);
    return {};
  }
  // It was started, and was not ended.
  bool started() const { return fork_guard_ != nullptr; }
  // It was started by the process that this one is a fork of.
  bool isOfParent() const { return started() && fork_guard_->isForkedChild(); }
  // Has ask() tell the thread that it shall end, and waits until it has. Neither where there is no thread.
  template <typename Ask>
  void end(Ask ask) {
    if (isOfParent()) {
      // Not detach(): a thread that the child has started since may be known by the same name.
      std::construct_at(&thread_);
    } else if (started()) {
      ask();
      thread_.join();
    }
    fork_guard_.reset();
  }

 private:
  template <typename Body>
  static Result<std::thread> begin(const char* what, Body body) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    Result<std::thread> started = Status(Code::kSystemError, "");
    try {
      started = std::thread(std::move(body));
    } catch (const std::system_error& error) {
      started = systemError(error.code().value(),
                            "%s could not start its thread (ulimit -u, or a limit of the container)", what);
    } catch (const std::bad_alloc&) {
      started = noMemory();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }

  std::thread thread_;
  std::unique_ptr<ForkGuard> fork_guard_;  // while there is a thread
};

}  // namespace horing
