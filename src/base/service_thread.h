#pragma once
// A thread of the library inside the user's process.
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

// Owner of a thread. A forked child has a copy of the owner but not the thread: there the owner drops it.
class ServiceThread {
 public:
  ServiceThread() = default;
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;
  ~ServiceThread() {
    end([] {});
  }

  // Starts a thread that runs body() with all signals blocked: signals are for the program's own threads. `what` names the thread in the
  // error if it cannot be started. Not while a thread runs.
  template <typename Body>
  Status start(const char* what, Body body) {
    // Allocated now: the thread may have to report that memory has run out.
    [[maybe_unused]] const Status& made_now = noMemory();
    auto guard = std::make_unique<ForkGuard>();
    HORING_ASSIGN(std::thread made, begin(what, std::move(body)));
    fork_guard_ = std::move(guard);  // first: another thread may fork meanwhile
    thread_ = std::move(made);
    return {};
  }
  // Whether a thread was started and not ended yet.
  bool started() const { return fork_guard_ != nullptr; }
  // Whether the parent process started it.
  bool isOfParent() const { return started() && fork_guard_->isForkedChild(); }
  // Calls ask(), which requests the thread's end, and joins the thread. Does nothing if there is no thread.
  template <typename Ask>
  void end(Ask ask) {
    if (isOfParent()) {
      // Not detach(): a thread that the child has started since may have the same pthread_t.
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
