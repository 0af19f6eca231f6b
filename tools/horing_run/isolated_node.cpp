#include "horing_run/isolated_node.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "horing_run/process.h"

namespace horing::run {

namespace {

constexpr std::chrono::milliseconds kStartTimeout{10000};
constexpr int kNodeFlags = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID;

Status mountPrivateFiles(const IsolatedNode::Spec& spec) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return systemError(
        errno,
        "making the node's mounts private (in a chroot its root must be a mount point: mount --bind it "
        "onto itself first)");
  const std::string size = spec.shm_mib > 0 ? "size=" + std::to_string(spec.shm_mib) + "m" : "";
  mkdir("/dev/shm", 01777);
  if (mount("horing", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, size.empty() ? nullptr : size.c_str()) != 0)
    return systemError(errno, "mounting the node's /dev/shm");
  // Best effort, since a container may forbid both mounts: then the outer ones stay visible, which is harmless.
  mount("horing", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  mount("horing", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  return {};
}

// Process 1 reaps orphans of its node's ranks.
[[noreturn]] void reapForever() {
  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_ended, nullptr);
  while (true) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    siginfo_t unused;
    sigwaitinfo(&child_ended, &unused);
  }
}

[[noreturn]] void holdNode(const IsolatedNode::Spec& spec, int parent, int answer) {
  dieWithParent(parent);
  prctl(PR_SET_NAME, ("hr-" + spec.name).c_str());
  Status status = mountPrivateFiles(spec);
  if (status.ok() && sethostname(spec.name.c_str(), spec.name.size()) != 0)
    status = systemError(errno, "setting the host name %s", spec.name.c_str());
  sendStatus(answer, status);
  close(answer);
  if (!status.ok()) _exit(1);
  // A reader of horing-run's output must not wait for this process.
  const int nowhere = open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) dup2(nowhere, fd);
  syscall(SYS_close_range, 3U, ~0U, 0U);
  reapForever();
}

}  // namespace

Result<std::unique_ptr<IsolatedNode>> IsolatedNode::create(const Spec& spec) {
  HORING_ASSIGN(Pipe answer, makePipe());
  const Fd self = openSelf();
  std::unique_ptr<IsolatedNode> node(new IsolatedNode());
  node->pid_ =
      static_cast<pid_t>(syscall(SYS_clone, kNodeFlags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (node->pid_ < 0) return systemError(errno, "making the namespaces of %s", spec.name.c_str());
  if (node->pid_ == 0) {
    answer.reader.reset();
    holdNode(spec, self.get(), answer.writer.get());
  }
  answer.writer.reset();
  const Status started = receiveStatus(answer.reader.get(), kStartTimeout);
  if (!started.ok())
    return makeStatus(started.code(), "%s: %s", spec.name.c_str(), started.message().c_str());
  HORING_TRY(node->openNamespaces());
  return node;
}

Status IsolatedNode::openNamespaces() {
  const std::string folder = "/proc/" + std::to_string(pid_) + "/ns/";
  const auto open_one = [&](const char* kind) {
    return Fd(open((folder + kind).c_str(), O_RDONLY | O_CLOEXEC));
  };
  network_ = open_one("net");
  if (!network_.valid()) return systemError(errno, "opening %snet", folder.c_str());
  for (const char* kind : {"uts", "ipc", "pid", "mnt"}) {
    others_.push_back(open_one(kind));
    if (!others_.back().valid()) return systemError(errno, "opening %s%s", folder.c_str(), kind);
  }
  const std::string root = "/proc/" + std::to_string(pid_) + "/root";
  root_ = Fd(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root_.valid()) return systemError(errno, "opening %s", root.c_str());
  return {};
}

IsolatedNode::~IsolatedNode() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  (void)waitForChild(pid_, kStartTimeout);
}

Status IsolatedNode::enter() const {
  const std::unique_ptr<char, decltype(&free)> folder(getcwd(nullptr, 0), &free);
  // A process that shares root and current folder with another thread, such as a sanitizer's, cannot change mounts.
  if (unshare(CLONE_FS) != 0) return systemError(errno, "leaving the shared root folder");
  if (setns(network_.get(), 0) != 0) return systemError(errno, "entering the node's network");
  for (const Fd& space : others_)
    if (setns(space.get(), 0) != 0) return systemError(errno, "entering the node");
  // setns() leaves a chroot.
  if (fchdir(root_.get()) != 0 || chroot(".") != 0)
    return systemError(errno, "entering the node's root folder");
  if (folder && chdir(folder.get()) != 0)
    return systemError(errno, "entering the folder %s in the node", folder.get());
  return {};
}

}  // namespace horing::run
