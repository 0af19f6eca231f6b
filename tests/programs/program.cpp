#include "program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

namespace horing::test {

namespace {

// The requirements of `horing-run --check-nodes`, tested without it: directly, or through a user namespace.
constexpr const char* kNodesByHand = R"(
for user in "" "--user --map-root-user"; do
  unshare $user --net --mount --uts --ipc --pid --fork sh -ec '
    mount -t tmpfs probe /dev/shm
    ip link set lo up
    ip link add probe0 type bridge
    ip link add probe1 type veth peer name probe2
    ip link set probe1 master probe0 gso_max_size 9414 up
    tc qdisc add dev probe1 root handle 1: htb default 1
    tc class add dev probe1 parent 1: classid 1:1 htb rate 100mbit
    tc qdisc add dev probe1 parent 1:1 handle 10: bfifo
  ' && exit 0
done
exit 1
)";

// Memory files never fill up, so a program never waits for its reader.
std::string readAll(int fd) {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t n = pread(fd, buffer, sizeof buffer, static_cast<off_t>(text.size()));
    if (n <= 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

// Appending keeps writers that share a descriptor from overwriting each other.
Fd makeSink(const char* name) {
  Fd sink(memfd_create(name, MFD_CLOEXEC));
  fcntl(sink.get(), F_SETFL, O_APPEND);
  return sink;
}

}  // namespace

Program::Program(const std::vector<std::string>& command, const std::function<void()>& prepare)
    : output_(makeSink("output")), errors_(makeSink("errors")) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;
  dup2(output_.get(), STDOUT_FILENO);
  dup2(errors_.get(), STDERR_FILENO);
  if (prepare) prepare();
  execvp(arguments[0], arguments.data());
  _exit(126);
}

Program::~Program() {
  if (reaped_ || pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Program::signal(int signal_number) const {
  kill(pid_, signal_number);
}

int Program::wait(std::chrono::seconds deadline) {
  int status = 0;
  const bool ended = eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, deadline);
  if (!ended) {
    ADD_FAILURE() << "still running; so far:\n" << output() << errors();
    kill(pid_, SIGKILL);
    waitpid(pid_, &status, 0);
  }
  reaped_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Program::output() const {
  return readAll(output_.get());
}
std::string Program::errors() const {
  return readAll(errors_.get());
}

Outcome runProgram(const std::vector<std::string>& command) {
  Program program(command);
  const int code = program.wait();
  return {code, program.output(), program.errors()};
}

std::string whyNoNodes(const char* horing_run) {
  const Outcome checked = runProgram({horing_run, "--check-nodes"});
  if (checked.code == 0) return "";
  const Outcome by_hand = runProgram({"sh", "-c", kNodesByHand});
  if (by_hand.code == 0)
    ADD_FAILURE() << "horing-run --check-nodes fails where unshare, ip and tc can do all that it needs: "
                  << checked.errors;
  return "no emulated nodes here: " + checked.errors + by_hand.errors;
}

bool eventually(const std::function<bool()>& condition, std::chrono::seconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::vector<std::string> sortedLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

bool processRuns(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const size_t state = text.rfind(')');
  return state != std::string::npos && state + 2 < text.size() && text[state + 2] != 'Z';
}

}  // namespace horing::test
