#include "horing_run/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "horing_run/process.h"

namespace horing::run {

namespace {

constexpr std::chrono::milliseconds kSpawnTimeout{30000};

// execvpe() searches the PATH of the caller, which is also the rank's.
[[noreturn]] void becomeCommand(const SpawnSpec& spec, int parent, int answer) {
  dieWithParent(parent);
  // In a separate process group, to be ended with its children, but not in a separate session: the kernel divides a core among sessions
  // (sched_autogroup), so that yielding to a rank of another session has no effect. Ranks that share cores were 1.6 x slower with sessions.
  setpgid(0, 0);
  if (spec.guard) spec.guard->watchMyGroup();
  if (const Status bound = spec.cpus.empty() ? Status() : bindTo(spec.cpus); !bound.ok()) {
    sendStatus(answer, bound);
    _exit(127);
  }
  // Above the standard three, so that none of them is overwritten before it is copied.
  const int input = fcntl(spec.input, F_DUPFD_CLOEXEC, 3);
  const int output = fcntl(spec.output, F_DUPFD_CLOEXEC, 3);
  const int error = fcntl(spec.error, F_DUPFD_CLOEXEC, 3);
  if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(error, 2) < 0) {
    sendStatus(answer, systemError(errno, "setting up standard input and output"));
    _exit(127);
  }
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &spec.signal_mask, nullptr);
  execvpe(spec.command[0].c_str(), asArguments(spec.command).data(), asArguments(spec.environment).data());
  sendStatus(answer, systemError(errno, "starting %s", spec.command[0].c_str()));
  _exit(127);
}

// The child that enters the node is not in its pid namespace itself; its child is, and CLONE_PARENT makes it a child of horing-run, which
// can then wait for it.
[[noreturn]] void becomeCommandOnNode(const SpawnSpec& spec, int parent, const Pipe& answer, int pid_writer) {
  dieWithParent(parent);
  const Status entered = spec.node->enter();
  if (!entered.ok()) {
    sendStatus(answer.writer.get(), entered);
    _exit(1);
  }
  const pid_t pid =
      static_cast<pid_t>(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) becomeCommand(spec, parent, answer.writer.get());
  if (pid < 0) {
    sendStatus(answer.writer.get(), systemError(errno, "starting a process on the node"));
    _exit(1);
  }
  const ssize_t sent = write(pid_writer, &pid, sizeof pid);
  _exit(sent == static_cast<ssize_t>(sizeof pid) ? 0 : 1);
}

Result<pid_t> spawnOnNode(const SpawnSpec& spec, int parent, Pipe& answer) {
  HORING_ASSIGN(Pipe number, makePipe());
  const pid_t helper = fork();
  if (helper < 0) return systemError(errno, "starting a process");
  if (helper == 0) becomeCommandOnNode(spec, parent, answer, number.writer.get());
  answer.writer.reset();
  HORING_TRY(waitForChild(helper, kSpawnTimeout).status());
  number.writer.reset();
  pid_t pid = 0;
  if (read(number.reader.get(), &pid, sizeof pid) == static_cast<ssize_t>(sizeof pid)) return pid;
  const Status reason = receiveStatus(answer.reader.get(), kSpawnTimeout);
  return reason.ok() ? makeStatus(Code::kSystemError, "starting a process on the node failed") : reason;
}

Result<pid_t> spawnHere(const SpawnSpec& spec, int parent, Pipe& answer) {
  const pid_t pid = fork();
  if (pid < 0) return systemError(errno, "starting a process");
  if (pid == 0) becomeCommand(spec, parent, answer.writer.get());
  answer.writer.reset();
  return pid;
}

}  // namespace

Result<pid_t> spawn(const SpawnSpec& spec) {
  HORING_ASSIGN(Pipe answer, makePipe());
  const Fd self = openSelf();
  HORING_ASSIGN(const pid_t pid,
                spec.node ? spawnOnNode(spec, self.get(), answer) : spawnHere(spec, self.get(), answer));
  // Closed on exec: no message means that the command runs.
  const Status started = receiveStatus(answer.reader.get(), kSpawnTimeout);
  if (started.ok()) return pid;
  kill(pid, SIGKILL);
  HORING_TRY(waitForChild(pid, kSpawnTimeout).status());
  return started;
}

}  // namespace horing::run
