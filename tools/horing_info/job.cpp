#include "horing_info/job.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "control/control_messages.h"
#include "control/job_window.h"

namespace horing::info {

namespace {

constexpr int kPatienceMs = 3000;

struct Process {
  std::string folder;  // in /proc
  std::string pid;
};

// A window that is asked. Its answer comes through a pipe, from a child that can be elsewhere: the process's name, a line, and what the
// window says.
struct Asked {
  const Process* process;
  pid_t child = -1;
  Fd pipe;  // closed once everything has come
  std::string text{};
  bool isSilent() const { return pipe.valid(); }
  std::string name() const { return text.empty() ? "pid " + process->pid : text.substr(0, text.find('\n')); }
  std::string answer() const { return text.substr(std::min(text.find('\n'), text.size() - 1) + 1); }
};

uint64_t inodeOf(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

// "T (stopped)" for "State:"; empty if the process has ended.
std::string statusOf(const Process& process, const std::string& field) {
  std::ifstream status(process.folder + "/status");
  for (std::string line; std::getline(status, line);)
    if (const size_t at = line.find_first_not_of("\t ", field.size());
        line.starts_with(field) && at != std::string::npos)
      return line.substr(at);
  return {};
}

// The process's number in its own pid namespace, which is the innermost.
int64_t innermostPid(const Process& process) {
  const std::string numbers = statusOf(process, "NSpid:");
  return numbers.empty() ? -1 : std::atoll(numbers.substr(numbers.find_last_of("\t ") + 1).c_str());
}

// The names of its windows, without the mark of an abstract name.
std::vector<std::string> windowsOf(const Process& process) {
  const std::string prefix =
      "@" + jobWindowPrefix(inodeOf(process.folder + "/ns/pid"), innermostPid(process));
  std::ifstream sockets(process.folder + "/net/unix");
  std::set<std::string> names;
  std::string line;
  while (std::getline(sockets, line))
    if (const size_t at = line.find(prefix); at != std::string::npos) names.insert(line.substr(at + 1));
  return {names.begin(), names.end()};
}

bool enter(const Process& process, const char* name, int kind) {
  const std::string there = process.folder + "/ns/" + name;
  if (inodeOf(there) == inodeOf(std::string("/proc/self/ns/") + name)) return true;
  const Fd space(::open(there.c_str(), O_RDONLY | O_CLOEXEC));
  return space.valid() && ::setns(space.get(), kind) == 0;
}

// Of a process in another container or emulated node, which has other abstract names. Only the name of its host can do without.
bool enterNodeOf(const Process& process) {
  if (!enter(process, "user", CLONE_NEWUSER) || !enter(process, "net", CLONE_NEWNET)) return false;
  (void)enter(process, "uts", CLONE_NEWUTS);
  return true;
}

void writeAll(int fd, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd, bytes, size);
    if (written <= 0) return;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
}

// Writes what the window says, and when it is not of the same user: nothing. Waits without a limit.
void lookInto(const std::string& window, int to) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (window.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path + 1, window.data(), window.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + window.size());
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return;
  char part[4096];
  size_t seen = 0;
  for (ssize_t size = 0; seen <= kMaxJobText && (size = ::read(socket.get(), part, sizeof part)) > 0;) {
    writeAll(to, part, static_cast<size_t>(size));
    seen += static_cast<size_t>(size);
  }
}

Result<Asked> ask(const Process& process, const std::string& window) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return systemError(errno, "making a pipe");
  Asked asked{&process, -1, Fd(ends[0])};
  const Fd write_end(ends[1]);
  const int64_t pid = innermostPid(process);
  asked.child = ::fork();
  if (asked.child < 0) return systemError(errno, "starting a process");
  if (asked.child > 0) return asked;
  ::alarm(2 * kPatienceMs / 1000);  // if nobody ends it
  ::fcntl(write_end.get(), F_SETFL, 0);
  if (enterNodeOf(process)) {
    ProcessName name = thisProcess();
    name.pid = pid;
    const std::string line = name.toString() + "\n";
    writeAll(write_end.get(), line.data(), line.size());
    lookInto(window, write_end.get());
  }
  ::_exit(0);
}

// One deadline for all.
void awaitAnswers(std::vector<Asked>& all) {
  const SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, kPatienceMs);
  for (;;) {
    std::vector<pollfd> entries;
    for (const Asked& one : all) entries.push_back({one.pipe.get(), POLLIN, 0});
    const bool anybody = std::ranges::any_of(all, &Asked::isSilent);
    if (!anybody || ::poll(entries.data(), entries.size(), deadline.remainingMs()) == 0) break;
    char part[4096];
    for (size_t i = 0; i < all.size(); ++i) {
      if (entries[i].revents == 0) continue;
      const ssize_t size = ::read(entries[i].fd, part, sizeof part);
      if (size > 0) all[i].text.append(part, static_cast<size_t>(size));
      if (size == 0) all[i].pipe.reset();
    }
  }
  for (const Asked& one : all) {
    if (one.isSilent()) ::kill(one.child, SIGKILL);
    ::waitpid(one.child, nullptr, 0);
  }
}

// "does not answer; its process is stopped (state T)"
std::string silenceText(const Process& process) {
  const std::string state = statusOf(process, "State:").substr(0, 1);
  if (state.empty()) return "does not answer; its process has ended";
  if (state == "T" || state == "t") return "does not answer; its process is stopped (state " + state + ")";
  return "does not answer; its process is in state " + state;
}

bool isPid(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::vector<Process> allProcesses() {
  std::vector<Process> processes;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored))
    if (const std::string pid = entry.path().filename(); isPid(pid)) processes.push_back({entry.path(), pid});
  return processes;
}

// A rank says its own words, an empty line, and those of its job, which each rank knows.
class Told {
 public:
  void add(const std::string& answer) {
    const size_t end = answer.find("\n\n");
    if (end == std::string::npos) return;
    ranks_text_ += answer.substr(0, end + 1);
    const std::string job = answer.substr(0, answer.find(':')), of_all = answer.substr(end + 2);
    // Jobs may have one name: those of different processes are different jobs.
    const size_t rank0 = of_all.find("rank 0 (");
    const std::string who =
        rank0 == std::string::npos ? "" : of_all.substr(rank0, of_all.find(')', rank0) - rank0);
    if (jobs_.insert(job + who).second) jobs_text_ += "\n" + job + "\n" + of_all;
  }
  // Replaces what the jobs say of the process, once all have been added.
  void addSilent(const std::string& name, const std::string& what) {
    const std::string end_of_name = " (" + name + "): ";
    std::istringstream lines(std::exchange(jobs_text_, {}));
    bool is_known = false;
    for (std::string line; std::getline(lines, line);) {
      const size_t at = line.starts_with("rank ") ? line.find(end_of_name) : std::string::npos;
      is_known = is_known || at != std::string::npos;
      jobs_text_ += (at == std::string::npos ? line : line.substr(0, at + end_of_name.size()) + what) + "\n";
    }
    if (!is_known) ranks_text_ += "process (" + name + "): " + what + "\n";
  }
  std::string text() const { return ranks_text_ + jobs_text_; }

 private:
  std::set<std::string> jobs_;
  std::string ranks_text_, jobs_text_;
};

}  // namespace

Result<std::string> runningJobs(const std::vector<std::string>& pids) {
  std::vector<Process> processes;
  for (const std::string& pid : pids) {
    if (!isPid(pid))
      return makeStatus(Code::kInvalidArgument, "'%s' is not the number of a process", pid.c_str());
    processes.push_back({"/proc/" + pid, pid});
  }
  if (pids.empty()) processes = allProcesses();
  std::vector<Asked> all;
  for (const Process& process : processes) {
    const std::vector<std::string> windows = windowsOf(process);
    if (windows.empty() && !pids.empty())
      return makeStatus(
          Code::kInvalidArgument,
          "process %s has no communicator of horing, or is not there, or its /proc entry cannot be read",
          process.pid.c_str());
    for (const std::string& window : windows) {
      HORING_ASSIGN(Asked asked, ask(process, window));
      all.push_back(std::move(asked));
    }
  }
  awaitAnswers(all);
  Told told;
  std::map<std::string, const Process*> silent;  // by name
  for (const Asked& one : all) {
    if (one.isSilent()) {
      silent[one.name()] = one.process;
    } else if (one.answer().empty() && !pids.empty()) {
      return makeStatus(Code::kSystemError,
                        "process %s does not answer: it is another user's, in a container that this user may "
                        "not enter, or about to end",
                        one.process->pid.c_str());
    }
    told.add(one.answer());
  }
  for (const auto& [name, process] : silent) told.addSilent(name, silenceText(*process));
  const std::string text = told.text();
  return text.empty() ? "no process here that may be looked into uses horing\n" : text;
}

}  // namespace horing::info
