#pragma once
// Helpers for child processes of horing-run. horing-run has one thread, so a forked child may use the heap.
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace horing::run {

// A pidfd of the calling process; invalid if the kernel has none (before Linux 5.3).
Fd openSelf();

// In a child: requests SIGKILL when the process behind `parent` (of openSelf()) ends, even if it has ended already.
void dieWithParent(int parent);

// Forks; the child runs `body`, dies with this process, and ends with the Status that `body` returned. Waits
// for it, at most `timeout`, and returns that Status. `what` names the child in error messages.
Status runInChild(const std::string& what, std::chrono::milliseconds timeout,
                  const std::function<Status()>& body);

// In a child that is about to execute another program, or is done: sends a Status through a pipe as "CODE TEXT".
void sendStatus(int fd, const Status& status);
// Reads until the other end closes. Nothing sent means ok. At most `timeout`.
Status receiveStatus(int fd, std::chrono::milliseconds timeout);

struct Pipe {
  Fd reader;
  Fd writer;
};
// Both ends are closed on exec.
Result<Pipe> makePipe();

// Waits for the end of a child, at most `timeout`; returns its wait status as of waitpid().
Result<int> waitForChild(pid_t pid, std::chrono::milliseconds timeout);

// The path of `program` on PATH or in the system folders that an ordinary user's PATH lacks; empty: not found.
std::string findProgram(const std::string& program);

// Arguments in the form that execv() wants; valid as long as `words` is.
std::vector<char*> asArguments(const std::vector<std::string>& words);

}  // namespace horing::run
