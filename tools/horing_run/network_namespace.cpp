#include "horing_run/network_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "horing_run/process.h"

namespace horing::run {

namespace {

constexpr std::chrono::milliseconds kToolTimeout{30000};

Status writeFile(const std::string& path, const std::string& text) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) return systemError(errno, "opening %s", path.c_str());
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return systemError(errno, "writing %s", path.c_str());
  return {};
}

Status tryNamespaces() {
  return runInChild("making namespaces", kToolTimeout, []() -> Status {
    if (unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID) != 0)
      return systemError(errno, "unshare");
    return {};
  });
}

Status enterUserNamespace() {
  const unsigned user = geteuid();
  const unsigned group = getegid();
  if (unshare(CLONE_NEWUSER) != 0) return systemError(errno, "making a user namespace");
  HORING_TRY(writeFile("/proc/self/setgroups", "deny"));
  HORING_TRY(writeFile("/proc/self/gid_map", "0 " + std::to_string(group) + " 1"));
  return writeFile("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
}

// A memory file is input and output of the tools: unlike a pipe it never fills up, so nothing can block.
Result<Fd> memoryFile(const std::string& text) {
  Fd file(memfd_create("horing-run", MFD_CLOEXEC));
  if (!file.valid()) return systemError(errno, "making a memory file");
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return systemError(errno, "writing a memory file");
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string readAll(int fd) {
  std::string text;
  char buffer[4096];
  for (off_t at = 0;; at = static_cast<off_t>(text.size())) {
    const ssize_t n = pread(fd, buffer, sizeof buffer, at);
    if (n <= 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

// Runs `program -batch -` in the calling process's namespaces.
Status runBatch(const std::string& program, const std::string& batch) {
  if (batch.empty()) return {};
  const std::string path = findProgram(program);
  if (path.empty())
    return makeStatus(Code::kSystemError, "the program %s is not installed (package iproute2)",
                      program.c_str());
  HORING_ASSIGN(const Fd input, memoryFile(batch));
  HORING_ASSIGN(const Fd output, memoryFile(""));
  const Fd self = openSelf();
  const pid_t pid = fork();
  if (pid < 0) return systemError(errno, "starting %s", path.c_str());
  if (pid == 0) {
    dieWithParent(self.get());
    dup2(input.get(), STDIN_FILENO);
    dup2(output.get(), STDOUT_FILENO);
    dup2(output.get(), STDERR_FILENO);
    execl(path.c_str(), path.c_str(), "-batch", "-", static_cast<char*>(nullptr));
    _exit(127);
  }
  HORING_ASSIGN(const int wait_status, waitForChild(pid, kToolTimeout));
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return {};
  return makeStatus(Code::kSystemError, "%s -batch failed: %s(its input was: %s)", program.c_str(),
                    readAll(output.get()).c_str(), batch.c_str());
}

}  // namespace

Status gainNamespacePrivileges() {
  const Status as_is = tryNamespaces();
  if (as_is.ok()) return {};
  Status as_user = enterUserNamespace();
  if (as_user.ok()) as_user = tryNamespaces();
  if (as_user.ok()) return {};
  return makeStatus(
      Code::kSystemError,
      "emulated nodes need namespaces, and this process can make none. As it is: %s. Through a user "
      "namespace: %s. Run "
      "as root, or in a container with the capability SYS_ADMIN, or allow user namespaces (sysctl "
      "kernel.unprivileged_userns_clone=1, user.max_user_namespaces > 0). Without --nodes all ranks run on "
      "one node.",
      as_is.message().c_str(), as_user.message().c_str());
}

Result<Fd> makeNetworkNamespace() {
  // A process with a user namespace cannot return to its original network, so a child makes the namespace and stays alive until this
  // process has opened it.
  HORING_ASSIGN(Pipe made, makePipe());
  HORING_ASSIGN(Pipe opened, makePipe());
  const Fd self = openSelf();
  const pid_t pid = fork();
  if (pid < 0) return systemError(errno, "starting a process for the switch");
  if (pid == 0) {
    dieWithParent(self.get());
    opened.writer.reset();
    if (unshare(CLONE_NEWNET) != 0)
      sendStatus(made.writer.get(), systemError(errno, "making a network namespace"));
    made.writer.reset();
    char unused = 0;
    while (read(opened.reader.get(), &unused, 1) < 0 && errno == EINTR) {
    }
    _exit(0);
  }
  made.writer.reset();
  Status status = receiveStatus(made.reader.get(), kToolTimeout);
  const std::string path = "/proc/" + std::to_string(pid) + "/ns/net";
  Fd network(status.ok() ? open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1);
  if (status.ok() && !network.valid()) status = systemError(errno, "opening %s", path.c_str());
  opened.writer.reset();
  HORING_TRY(waitForChild(pid, kToolTimeout).status());
  if (!status.ok()) return status;
  return network;
}

Status runInNetwork(int network, const std::string& what, const NetworkCommands& commands) {
  return runInChild("network of " + what, 2 * kToolTimeout, [&]() -> Status {
    if (setns(network, CLONE_NEWNET) != 0) return systemError(errno, "entering the namespace");
    for (const auto& [name, value] : commands.settings) (void)writeFile("/proc/sys/net/" + name, value);
    HORING_TRY(runBatch("ip", commands.ip_batch));
    return runBatch("tc", commands.tc_batch);
  });
}

}  // namespace horing::run
