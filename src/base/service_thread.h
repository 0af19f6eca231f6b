#pragma once
// A thread of the library's own, inside the user's process.
#include <pthread.h>

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.h"

namespace horing {

// Starts body() on a thread that takes no signals: those are for the program's own threads. `what` names it in the error
// when there is no thread to be had.
template <typename Body>
Result<std::thread> startServiceThread(const char* what, Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> started = Status(Code::kSystemError, "");
  try {
    started = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    started = systemError(error.code().value(),
                          "%s could not start its thread (ulimit -u, or a limit of the container)", what);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace horing
