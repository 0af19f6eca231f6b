// A rendezvous whose process is stopped for a while: that time does not count against ranks.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "control/control_channel.h"
#include "control/control_messages.h"
#include "control/host_addresses.h"
#include "control/root_connection.h"
#include "control_ranks.h"

namespace horing {
namespace {

using namespace testing_comm;

// A rendezvous in a separate process.
class RootProcess {
 public:
  explicit RootProcess(int64_t proof_timeout_ms) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto root = startRoot(60'000, proof_timeout_ms);
      if (!root || ::write(ends[1], &root->id(), sizeof(UniqueId)) != sizeof(UniqueId)) ::_exit(1);
      while (true) ::pause();
    }
    EXPECT_EQ(::read(ends[0], &id_, sizeof id_), static_cast<ssize_t>(sizeof id_));
    for (const int end : ends) ::close(end);
  }
  ~RootProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  const UniqueId& id() const { return id_; }
  void stop() {
    int status = 0;
    ASSERT_EQ(::kill(pid_, SIGSTOP), 0);
    ASSERT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  void goOn() { ASSERT_EQ(::kill(pid_, SIGCONT), 0); }

 private:
  pid_t pid_ = -1;
  UniqueId id_{};
};

TEST(StoppedRoot, DropsNobodyForTheTimeInWhichItWasStopped) {
  constexpr int64_t kHandshakeMs = 1500;
  RootProcess root(kHandshakeMs);
  const UniqueIdParts parts = decodeUniqueId(root.id()).take();
  Fd fd = openSocket(parts.roots[0].address.family).take();
  EXPECT_EQ(beginConnect(fd.get(), parts.roots[0]), 0);
  pollfd item{fd.get(), POLLOUT, 0};
  ASSERT_EQ(::poll(&item, 1, 20'000), 1);
  ControlChannel channel(std::move(fd), jobKey(parts, "control"), HandshakeRole::kConnector,
                         maxRankMessageBytes());
  ASSERT_TRUE(channel.progress().ok());
  item = {channel.fd(), POLLIN, 0};
  // It answers, so its limit has begun. A quick answer is read by progress() already.
  ASSERT_TRUE(channel.proven() || ::poll(&item, 1, 20'000) == 1);
  root.stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(kHandshakeMs + 500));
  root.goOn();
  const WaitLimit limit{in(20'000)};
  // Only the channel knows that the last handshake message has arrived; proven() shows it.
  while (!channel.proven() && !limit.over()) ASSERT_TRUE(waitAndProgress(channel, limit, 1000).ok());
  channel.send(std::make_shared<const std::vector<std::byte>>(
      encodeMessage(RankMessage(HelloMessage{0, 1, 20'000, thisProcess(), {}}))));
  ASSERT_TRUE(channel.flush().ok());
  std::optional<std::vector<std::byte>> welcome;
  while (!(welcome = channel.receive()) && !limit.over())
    ASSERT_TRUE(waitAndProgress(channel, limit, 1000).ok()) << channel.status().toString();
  ASSERT_TRUE(welcome);
  EXPECT_TRUE(std::holds_alternative<WelcomeMessage>(decodeRootMessage(*welcome).value()));
}

}  // namespace
}  // namespace horing
