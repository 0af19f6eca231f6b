#include "horing_info/job.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
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
#include <set>
#include <sstream>

#include "base/fd.h"
#include "control/job_window.h"

namespace horing::info {

namespace {

constexpr int kPatienceMs = 3000;

struct Process {
  std::string folder;  // in /proc
  std::string pid;
};

uint64_t inodeOf(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

// The process's number in its own pid namespace, which is the innermost.
int64_t innermostPid(const Process& process) {
  std::ifstream status(process.folder + "/status");
  std::string line, word;
  while (std::getline(status, line)) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream words(line.substr(6));
    while (words >> word) {
    }
    return std::atoll(word.c_str());
  }
  return -1;
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

// Of a process in another container or emulated node, which has other abstract names.
bool enterNetworkOf(const Process& process) {
  for (const auto& [name, kind] : {std::pair{"user", CLONE_NEWUSER}, {"net", CLONE_NEWNET}}) {
    const std::string there = process.folder + "/ns/" + name;
    if (inodeOf(there) == inodeOf(std::string("/proc/self/ns/") + name)) continue;
    const Fd space(::open(there.c_str(), O_RDONLY | O_CLOEXEC));
    if (!space.valid() || ::setns(space.get(), kind) != 0) return false;
  }
  return true;
}

// What the window says, and when it is not of the same user: nothing.
std::string lookInto(const std::string& window) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (window.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path + 1, window.data(), window.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + window.size());
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return {};
  std::string text;
  char part[4096];
  for (;;) {
    pollfd entry{socket.get(), POLLIN, 0};
    if (::poll(&entry, 1, kPatienceMs) <= 0) return {};
    const ssize_t size = ::read(socket.get(), part, sizeof part);
    if (size <= 0 || text.size() > kMaxJobText) return text;
    text.append(part, static_cast<size_t>(size));
  }
}

// In a child, which can be elsewhere.
std::string answerOf(const Process& process, const std::string& window) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = enterNetworkOf(process) ? lookInto(window) : std::string();
    size_t written = 0;
    while (written < text.size()) {
      const ssize_t size = ::write(write_end.get(), text.data() + written, text.size() - written);
      if (size <= 0) break;
      written += static_cast<size_t>(size);
    }
    ::_exit(0);
  }
  write_end.reset();
  std::string text;
  char part[4096];
  for (ssize_t size = 0; child > 0 && (size = ::read(read_end.get(), part, sizeof part)) > 0;)
    text.append(part, static_cast<size_t>(size));
  if (child > 0) ::waitpid(child, nullptr, 0);
  return text;
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
struct Told {
  std::set<std::string> jobs;
  std::string ranks_text, jobs_text;
  void add(const std::string& answer) {
    const size_t end = answer.find("\n\n");
    if (end == std::string::npos) return;
    ranks_text += answer.substr(0, end + 1);
    const std::string job = answer.substr(0, answer.find(':')), of_all = answer.substr(end + 2);
    // Jobs may have one name: those of different processes are different jobs.
    const size_t rank0 = of_all.find("rank 0 (");
    const std::string who =
        rank0 == std::string::npos ? "" : of_all.substr(rank0, of_all.find(')', rank0) - rank0);
    if (jobs.insert(job + who).second) jobs_text += "\n" + job + "\n" + of_all;
  }
};

}  // namespace

Result<std::string> runningJobs(const std::vector<std::string>& pids) {
  std::vector<Process> processes;
  for (const std::string& pid : pids) {
    if (!isPid(pid))
      return makeStatus(Code::kInvalidArgument, "'%s' is not the number of a process", pid.c_str());
    processes.push_back({"/proc/" + pid, pid});
  }
  Told told;
  for (const Process& process : pids.empty() ? allProcesses() : processes) {
    const std::vector<std::string> windows = windowsOf(process);
    if (windows.empty() && !pids.empty())
      return makeStatus(
          Code::kInvalidArgument,
          "process %s has no communicator of horing, or is not there, or its /proc entry cannot be read",
          process.pid.c_str());
    for (const std::string& window : windows) {
      const std::string answer = answerOf(process, window);
      if (answer.empty() && !pids.empty())
        return makeStatus(
            Code::kSystemError,
            "process %s does not answer: it is another user's, in a container that this user may not "
            "enter, stopped, or about to end",
            process.pid.c_str());
      told.add(answer);
    }
  }
  if (told.ranks_text.empty()) return std::string("no process here that may be looked into uses horing\n");
  return told.ranks_text + told.jobs_text;
}

}  // namespace horing::info
