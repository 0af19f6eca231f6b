// Connections from outside the job to a port of a running job are dropped, and do no harm.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "job.h"

namespace horing::test {
namespace {

// Children of a process, by their numbers.
std::vector<pid_t> childrenOf(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string text;
    std::getline(std::ifstream(entry.path() / "stat"), text);
    const size_t end = text.rfind(')');
    if (end == std::string::npos) continue;
    char state = 0;
    pid_t its_parent = 0;
    std::istringstream(text.substr(end + 1)) >> state >> its_parent;
    if (its_parent == parent) children.push_back(std::stoi(name));
  }
  return children;
}

// Inodes of the sockets that a process has open.
std::set<std::string> socketsOf(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(at->path(), gone);
    if (!gone && target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

// Ports on which a job under `runner` listens.
std::set<int> listeningPorts(pid_t runner) {
  std::set<std::string> inodes;
  for (const pid_t child : childrenOf(runner)) inodes.merge(socketsOf(child));
  std::set<int> ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream in(line);
      std::string number, local, remote, state, skipped, inode;
      in >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) in >> skipped;
      in >> inode;
      if (state == "0A" && inodes.contains(inode))
        ports.insert(std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

Fd connectTo(int port) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool began = connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  return began || errno == EINPROGRESS ? std::move(fd) : Fd();
}

// Attacks every port of a job from its beginning: once with each kind of connection, then with a few more as long as the job runs.
// Connections stay open until the end.
class Strangers {
 public:
  // Makes the files "ports-N" and "drops-N" in `folder` as soon as these are so many, for ranks that wait for them.
  Strangers(pid_t runner, std::string folder)
      : runner_(runner), folder_(std::move(folder)), thread_([this] { run(); }) {}
  ~Strangers() { stop(); }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // After stop(). Ports that were found, and the number that were still open after they had dropped a connection.
  size_t ports() const { return visits_.size(); }
  size_t portsThatDropped() const { return dropped_.size(); }

 private:
  static constexpr int kSilentAtOnce = 300;

  void run() {
    while (!stop_) {
      const std::set<int> ports = listeningPorts(runner_);
      for (const int port : ports) visit(port, visits_[port]++ == 0 ? kSilentAtOnce : 3);
      noteDropped();
      tell("ports", visits_.size());
      tell("drops", dropped_.size());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  void tell(const std::string& what, size_t count) const {
    for (size_t n = 1; n <= count; ++n) std::ofstream(folder_ + "/" + what + "-" + std::to_string(n)).flush();
  }
  void visit(int port, int silent) {
    say(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    std::string noise(1024, '\0');
    for (char& byte : noise) byte = static_cast<char>(random_());
    say(port, noise);
    for (int i = 0; i < silent && connections_.size() < kMostConnections; ++i)
      if (Fd fd = connectTo(port); fd.valid()) connections_.push_back(std::move(fd));
  }
  void say(int port, const std::string& text) {
    Fd fd = connectTo(port);
    if (!fd.valid() || connections_.size() >= kMostConnections) return;
    pollfd writable{fd.get(), POLLOUT, 0};
    ::poll(&writable, 1, 100);
    [[maybe_unused]] const ssize_t sent = send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    talkers_.emplace_back(port, fd.get());
    connections_.push_back(std::move(fd));
  }
  void noteDropped() {
    std::set<int> closed;
    for (const auto& [port, fd] : talkers_) {
      char greeting[512];
      ssize_t got = 1;
      while (got > 0) got = recv(fd, greeting, sizeof greeting, MSG_DONTWAIT);
      if (got == 0 || errno == ECONNRESET) closed.insert(port);
    }
    // Closed ports have closed everything.
    for (const int port : listeningPorts(runner_))
      if (closed.contains(port)) dropped_.insert(port);
  }

  static constexpr size_t kMostConnections = 6000;
  pid_t runner_;
  std::string folder_;
  std::map<int, int> visits_;
  std::vector<Fd> connections_;
  std::vector<std::pair<int, int>> talkers_;  // port and descriptor
  std::set<int> dropped_;
  std::mt19937 random_{7};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void allowManyFiles() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Ranks wait for what the strangers have seen, so that nothing here depends on how fast the machine is.
class AmongStrangers : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }

  void run(const JobOptions& options, size_t least_ports, size_t least_drops) {
    allowManyFiles();
    Program program(jobCommand(options));
    Strangers strangers(program.pid(), folder_.path());
    const JobOutcome outcome = endOf(program);
    strangers.stop();
    EXPECT_EQ(outcome.code, 0) << outcome.everything;
    for (int rank = 0; rank < options.ranks; ++rank) {
      const Event reduced = eventOf(outcome.events, "collective", rank);
      EXPECT_EQ(reduced.code, kSuccess) << reduced.text;
    }
    EXPECT_GE(strangers.ports(), least_ports) << "not every port was found";
    EXPECT_GE(strangers.portsThatDropped(), least_drops);
  }

 private:
  ShmFolder folder_;
};

// The rendezvous, which closes when all have come, sends strangers away while it waits for rank 2; ranks 0 and 1 while
// rank 2 is late for the second all-reduce; rank 2 while rank 1 is late for a later one.
TEST_F(AmongStrangers, InitAndAllReducesOverTcpAreUndisturbed) {
  run({.ranks = 3,
       .words = {"rounds=60", "count=1000000", "2:join_when=" + file("drops-1"), "2:late_round=1",
                 "2:call_when=" + file("drops-3"), "1:late_round=30", "1:call_when=" + file("drops-4")},
       .environment = {"HORING_TRANSPORTS=socket", "HORING_SOCKET_IFNAME=lo"}},
      4, 4);
}

// Three ports have dropped connections once those of the rendezvous, rank 0 and rank 1 have; only the wait of rank 1 lets the
// attack find rank 2 before the job ends.
TEST_F(AmongStrangers, AJobOverSharedMemoryIsUndisturbed) {
  run({.ranks = 3,
       .words = {"rounds=3", "2:join_when=" + file("drops-1"), "2:late_round=1",
                 "2:call_when=" + file("drops-3"), "1:late_round=2", "1:call_when=" + file("ports-4")}},
      4, 3);
}

// Links come up while the ports are already full of strangers.
TEST_F(AmongStrangers, ALinkThatComesUpLateIsUndisturbed) {
  run({.ranks = 3,
       .words = {"call_when=" + file("ports-3")},
       .environment = {"HORING_TRANSPORTS=socket", "HORING_SOCKET_IFNAME=lo"}},
      3, 0);
}

}  // namespace
}  // namespace horing::test
