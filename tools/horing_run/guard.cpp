#include "horing_run/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "horing_run/leftovers.h"
#include "horing_run/process.h"

namespace horing::run {

namespace {

[[noreturn]] void keepWatch(Pipe& news) {
  // Otherwise this process itself would keep the pipe open.
  news.writer.reset();
  // A separate session: neither the terminal's signals nor signals to horing-run's process group may end it.
  setsid();
  prctl(PR_SET_NAME, "horing-guard");
  const int nowhere = open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) dup2(nowhere, fd);
  dup2(news.reader.get(), 3);
  syscall(SYS_close_range, 4U, ~0U, 0U);
  std::vector<pid_t> groups;
  pid_t group = 0;
  while (true) {
    const ssize_t n = read(3, &group, sizeof group);
    if (n < 0 && errno == EINTR) continue;
    if (n != static_cast<ssize_t>(sizeof group)) break;
    groups.push_back(group);
  }
  for (const pid_t each : groups) kill(-each, SIGKILL);
  removeLeftovers(groups);
  _exit(0);
}

}  // namespace

Result<std::unique_ptr<Guard>> Guard::start() {
  HORING_ASSIGN(Pipe news, makePipe());
  std::unique_ptr<Guard> guard(new Guard());
  guard->pid_ = fork();
  if (guard->pid_ < 0) return systemError(errno, "starting the guard process");
  if (guard->pid_ == 0) keepWatch(news);
  guard->news_ = std::move(news.writer);
  return guard;
}

Guard::~Guard() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  (void)waitForChild(pid_, std::chrono::milliseconds(5000));
}

void Guard::watchMyGroup() const {
  const pid_t process_group = getpgrp();
  while (write(news_.get(), &process_group, sizeof process_group) < 0 && errno == EINTR) {
  }
}

}  // namespace horing::run
