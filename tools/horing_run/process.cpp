#include "horing_run/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace horing::run {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Fd openSelf() {
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
}

void dieWithParent(int parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (parent < 0) return;
  // The parent may have ended before prctl(): then the signal would never be sent.
  pollfd ended{parent, POLLIN, 0};
  if (poll(&ended, 1, 0) > 0) _exit(1);
}

Result<Pipe> makePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return systemError(errno, "making a pipe");
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

void sendStatus(int fd, const Status& status) {
  const std::string text = std::to_string(static_cast<int>(status.code())) + " " + status.message();
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = write(fd, text.data() + sent, text.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

Status receiveStatus(int fd, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  std::string text;
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now()).count();
    pollfd readable{fd, POLLIN, 0};
    const int ready = poll(&readable, 1, left > 0 ? static_cast<int>(left) : 0);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0)
      return makeStatus(Code::kTimeout, "no answer within %lld ms", static_cast<long long>(timeout.count()));
    char buffer[1024];
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  if (text.empty()) return {};
  const size_t space = text.find(' ');
  const int code = std::atoi(text.c_str());
  if (code == 0) return {};
  return Status(static_cast<Code>(code), space == std::string::npos ? text : text.substr(space + 1));
}

Result<int> waitForChild(pid_t pid, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  while (true) {
    int wait_status = 0;
    const pid_t ended = waitpid(pid, &wait_status, WNOHANG);
    if (ended == pid) return wait_status;
    if (ended < 0 && errno != EINTR)
      return systemError(errno, "waiting for process %d", static_cast<int>(pid));
    if (steady_clock::now() >= deadline)
      return makeStatus(Code::kTimeout, "process %d did not end within %lld ms", static_cast<int>(pid),
                        static_cast<long long>(timeout.count()));
    usleep(500);
  }
}

Status runInChild(const std::string& what, milliseconds timeout, const std::function<Status()>& body) {
  HORING_ASSIGN(Pipe answer, makePipe());
  const Fd self = openSelf();
  const pid_t pid = fork();
  if (pid < 0) return systemError(errno, "starting a process for %s", what.c_str());
  if (pid == 0) {
    dieWithParent(self.get());
    answer.reader.reset();
    const Status status = body();
    sendStatus(answer.writer.get(), status);
    _exit(status.ok() ? 0 : 1);
  }
  answer.writer.reset();
  const Status status = receiveStatus(answer.reader.get(), timeout);
  if (status.code() == Code::kTimeout) kill(pid, SIGKILL);
  HORING_ASSIGN(const int wait_status, waitForChild(pid, timeout));
  if (!status.ok()) return makeStatus(status.code(), "%s: %s", what.c_str(), status.message().c_str());
  if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0)
    return makeStatus(Code::kSystemError, "%s: its process ended with wait status %d", what.c_str(),
                      wait_status);
  return {};
}

std::string findProgram(const std::string& program) {
  const char* path = std::getenv("PATH");
  const std::string folders = std::string(path ? path : "") + ":/usr/sbin:/usr/bin:/sbin:/bin";
  std::string_view rest = folders;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    if (folder.empty()) continue;
    std::string candidate(folder);
    candidate.append("/").append(program);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::vector<char*> asArguments(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

}  // namespace horing::run
