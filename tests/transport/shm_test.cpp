// Shared memory beyond the contract: processes, death, small file systems, files left behind.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../open_descriptors.h"
#include "base/fd.h"
#include "contract_ranks.h"
#include "shm_folder.h"
#include "transport/shm/directory.h"
#include "transport/shm/layout.h"

namespace horing::testing {
namespace {

constexpr LinkShape kShape{.channels = 2, .slots = 4, .slot_bytes = 4096};

// Polls until `done`, like a rank that spins.
template <typename Done>
bool spinUntil(Transport& transport, Done done) {
  SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, kPatienceMs);
  while (!done()) {
    if (deadline.passed()) return false;
    if (!transport.progress().ok()) return done();
    std::this_thread::yield();
  }
  return true;
}

// Stands in for the bootstrap. Reading gives up when patience is at its end.
struct SocketPair {
  SocketPair() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    const timeval patience{kPatienceMs / 1000, 0};
    for (int i = 0; i < 2; ++i) {
      ends[i].reset(fds[i]);
      EXPECT_EQ(::setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    }
  }
  Fd ends[2];
};

// Gives this rank's address, takes the peer's; empty if none comes.
std::vector<std::byte> swapAddresses(int socket, const std::vector<std::byte>& mine) {
  std::vector<std::byte> theirs(mine.size());
  if (::write(socket, mine.data(), mine.size()) != static_cast<ssize_t>(mine.size())) return {};
  size_t got = 0;
  while (got < theirs.size()) {
    const ssize_t bytes = ::read(socket, theirs.data() + got, theirs.size() - got);
    if (bytes <= 0) return {};
    got += static_cast<size_t>(bytes);
  }
  return theirs;
}

// Runs `body(socket)` in a forked child; its return value is the exit status.
template <typename Body>
pid_t forkRank(int socket, Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body(socket));
  return pid;
}
int exitStatus(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// A rank in a separate process: 0 if all steps succeeded, else the number of the failed step.
int exchangeMessages(const ShmFolder& folder, int rank, int socket) {
  auto made = makeShmTransport(folder.options(rank));
  if (!made.ok()) return 1;
  Transport& transport = *made.value();
  const auto address = swapAddresses(socket, transport.address());
  if (!transport.canReach(address)) return 2;
  auto link = transport.connect(1 - rank, address, kShape);
  if (!link.ok() || !spinUntil(transport, [&] { return link.value()->established(); })) return 3;
  for (uint64_t i = 0; i < 500; ++i) {
    for (int channel = 0; channel < 2; ++channel) {
      Sender& sender = link.value()->sender(channel);
      Receiver& receiver = link.value()->receiver(channel);
      const uint64_t seed = i * 2 + static_cast<uint64_t>(channel);
      std::byte* slot = nullptr;
      if (!spinUntil(transport, [&] { return (slot = sender.tryAcquire(kWholeSlot)) != nullptr; })) return 4;
      fillPattern(slot, 4096, seed);
      sender.post(4096, seed);
      const Message* message = nullptr;
      if (!spinUntil(transport, [&] { return (message = receiver.tryPeek()) != nullptr; })) return 5;
      if (message->tag != seed || matchPattern(message->data, 4096, seed) != 4096) return 6;
      receiver.release();
    }
  }
  return 0;
}

TEST(ShmProcesses, ExchangeMessagesAndLeaveNothingBehind) {
  ShmFolder folder;
  const SocketPair sockets;
  const pid_t first =
      forkRank(sockets.ends[0].get(), [&](int socket) { return exchangeMessages(folder, 0, socket); });
  const pid_t second =
      forkRank(sockets.ends[1].get(), [&](int socket) { return exchangeMessages(folder, 1, socket); });
  EXPECT_EQ(exitStatus(first), 0);
  EXPECT_EQ(exitStatus(second), 0);
  EXPECT_EQ(folder.entries(), std::vector<std::string>{});
}

enum class Offspring : uint8_t { kNone, kOutlivesItsParent };

// Brings the links up, then reports that by killing itself.
int linkAndDie(const ShmFolder& folder, int socket, Offspring offspring = Offspring::kNone) {
  auto made = makeShmTransport(folder.options(1));
  if (!made.ok()) return 1;
  auto link = made.value()->connect(0, swapAddresses(socket, made.value()->address()), kShape);
  if (!link.ok() || !spinUntil(*made.value(), [&] { return link.value()->established(); })) return 2;
  if (link.value()->sender(0).tryAcquire(kWholeSlot) == nullptr) return 3;
  link.value()->sender(0).post(0, 7);
  if (offspring == Offspring::kOutlivesItsParent) {
    Fd::closeInForkedChildren();
    const pid_t child = ::fork();
    if (child == 0) {
      ::sleep(static_cast<unsigned>(2 * kPatienceMs / 1000));
      ::_exit(0);
    }
    if (::write(socket, &child, sizeof child) != sizeof child) return 4;
  }
  return ::kill(::getpid(), SIGKILL);
}

int outliveAKilledPeer(const ShmFolder& folder, int socket) {
  auto made = makeShmTransport(folder.options(0));
  if (!made.ok()) return 1;
  Transport& transport = *made.value();
  auto begun = transport.connect(1, swapAddresses(socket, transport.address()), kShape);
  if (!begun.ok()) return 2;
  Link& link = *begun.value();
  if (!spinUntil(transport, [&] { return !link.status().ok(); })) return 3;
  if (link.status().code() != Code::kRemoteError) return 4;
  if (link.status().message().find("rank 1") == std::string::npos) return 5;
  if (link.status().message().find("pid") == std::string::npos) return 6;
  if (!link.established()) return 0;  // the peer was found dead before the end of the handshake was seen
  const Message* last = link.receiver(0).tryPeek();  // its memory outlives it
  return last != nullptr && last->tag == 7 ? 0 : 7;
}

TEST(ShmProcesses, SurviveAKilledPeerAndClearAwayItsFiles) {
  ShmFolder folder;
  const SocketPair sockets;
  const pid_t survivor =
      forkRank(sockets.ends[0].get(), [&](int socket) { return outliveAKilledPeer(folder, socket); });
  const pid_t victim =
      forkRank(sockets.ends[1].get(), [&](int socket) { return linkAndDie(folder, socket); });
  EXPECT_EQ(exitStatus(victim), 1000 + SIGKILL);
  EXPECT_EQ(exitStatus(survivor), 0);
  EXPECT_EQ(folder.entries(), std::vector<std::string>{});
}

TEST(ShmProcesses, AreFoundDeadWhileAChildOfTheirsLives) {
  ShmFolder folder;
  const SocketPair sockets;
  const pid_t survivor =
      forkRank(sockets.ends[0].get(), [&](int socket) { return outliveAKilledPeer(folder, socket); });
  const pid_t victim = forkRank(sockets.ends[1].get(), [&](int socket) {
    return linkAndDie(folder, socket, Offspring::kOutlivesItsParent);
  });
  EXPECT_EQ(exitStatus(victim), 1000 + SIGKILL);
  EXPECT_EQ(exitStatus(survivor), 0);
  pid_t child = -1;
  ASSERT_EQ(::read(sockets.ends[0].get(), &child, sizeof child), static_cast<ssize_t>(sizeof child));
  EXPECT_EQ(::kill(child, SIGKILL), 0) << "it has ended before";
}

// The same, blocked on the doorbell with a long timeout: the check in beginWait() finds the dead peer.
TEST(ShmProcesses, AreFoundDeadByARankThatOnlyWaits) {
  ShmFolder folder;
  const SocketPair sockets;
  const pid_t victim =
      forkRank(sockets.ends[1].get(), [&](int socket) { return linkAndDie(folder, socket); });
  const pid_t survivor = forkRank(sockets.ends[0].get(), [&](int socket) {
    auto made = makeShmTransport(folder.options(0));
    if (!made.ok()) return 1;
    Transport& transport = *made.value();
    auto link = transport.connect(1, swapAddresses(socket, transport.address()), kShape);
    if (!link.ok()) return 2;
    for (int i = 0; i < 300 && link.value()->status().ok(); ++i) {
      transport.beginWait();
      if (transport.progress().ok()) {
        pollfd ready{transport.waitFd(), POLLIN, 0};
        ::poll(&ready, 1, 50);
      }
      transport.endWait();
    }
    return link.value()->status().code() == Code::kRemoteError ? 0 : 3;
  });
  EXPECT_EQ(exitStatus(victim), 1000 + SIGKILL);
  EXPECT_EQ(exitStatus(survivor), 0);
}

TEST(ShmProcesses, ForkedChildLeavesItsParentsFilesAlone) {
  ShmFolder folder;
  auto made = makeShmTransport(folder.options(0));
  ASSERT_TRUE(made.ok()) << made.status().toString();
  const std::vector<std::string> before = folder.entries();
  EXPECT_EQ(before.size(), 3u);
  const pid_t child = forkRank(0, [&](int) {
    made.value().reset();
    return 0;
  });
  EXPECT_EQ(exitStatus(child), 0);
  EXPECT_EQ(folder.entries(), before);
}

TEST(ShmFiles, OfAKilledJobAreRemovedByTheNext) {
  ShmFolder folder;
  const pid_t victim = forkRank(0, [&](int) {
    auto made = makeShmTransport(folder.options(4));
    if (!made.ok()) return 1;
    std::ofstream(folder.path() + "/horing-test-01-4.from-9.new") << "half-made";
    return ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(exitStatus(victim), 1000 + SIGKILL);
  EXPECT_EQ(folder.entries().size(), 4u);
  const auto living = makeShmTransport(folder.options(5));
  ASSERT_TRUE(living.ok());
  EXPECT_EQ(folder.entries().size(), 3u) << "its own three";
  const auto also_living = makeShmTransport(folder.options(6));
  ASSERT_TRUE(also_living.ok());
  EXPECT_EQ(folder.entries().size(), 6u) << "a living rank's stay";
}

TEST(ShmFiles, OfOthersAreLeftAlone) {
  ShmFolder folder;
  for (const char* name : {"horing", "horing-notes", "other-job.rank", "sem.horing-x.rank"}) {
    std::ofstream(folder.path() + "/" + name) << "keep";
  }
  ASSERT_EQ(::mkdir((folder.path() + "/horing-dir.rank").c_str(), 0700), 0);
  EXPECT_EQ(removeOrphans(folder.path()), 0);
  EXPECT_EQ(folder.entries().size(), 5u);
}

// A process may have hundreds of groups, most of which never use a link.
TEST(ShmFiles, OfARankWithoutLinksTakeNoDescriptor) {
  ShmFolder folder;
  const auto before = test::openDescriptors();
  const auto low = makeShmTransport(folder.options(0)).take(),
             high = makeShmTransport(folder.options(1)).take();
  ASSERT_TRUE(low->canReach(high->address()) && high->canReach(low->address()));
  low->beginWait();
  low->endWait();
  EXPECT_EQ(test::openDescriptors(), before);
  EXPECT_EQ(removeOrphans(folder.path()), 0) << "yet it has its lock";
}

// Ranks that start at once all remove files of dead ranks, while other ranks create theirs.
TEST(ShmFiles, OfThoseThatLiveStayWhereManyLookForOrphans) {
  ShmFolder folder;
  std::atomic<int> makers{3}, lost{0};
  const auto make = [&](int maker) {
    for (int round = 0; round < 300; ++round) {
      const std::string path =
          folder.path() + "/horing-" + std::to_string(maker) + "-" + std::to_string(round) + ".rank";
      const auto made = createPresenceFile(path, 4096, "a test");
      EXPECT_TRUE(made.ok()) << made.status().toString();
      std::this_thread::yield();
      lost += ::access(path.c_str(), F_OK) != 0;
    }
    --makers;
  };
  std::vector<std::thread> threads;
  for (int maker = 0; maker < 3; ++maker) threads.emplace_back(make, maker);
  for (int looker = 0; looker < 4; ++looker)
    threads.emplace_back([&] {
      while (makers > 0) removeOrphans(folder.path());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 0);
}

TEST(ShmFiles, OfLinksAreUnlinkedOnceBothEndsAreThere) {
  ShmFolder folder;
  constexpr int kRanks = 3;
  std::vector<std::unique_ptr<Transport>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(makeShmTransport(folder.options(rank)).take());
  std::vector<Link*> links;
  const auto settle = [&] {
    for (int round = 0; round < 10; ++round) {
      for (auto& rank : ranks) ASSERT_TRUE(rank->progress().ok());
    }
  };
  for (int a = 0; a < kRanks; ++a) {
    for (int b = 0; b < kRanks; ++b) {
      if (a == b) continue;
      auto link = ranks[static_cast<size_t>(a)]->connect(b, ranks[static_cast<size_t>(b)]->address(), kShape);
      ASSERT_TRUE(link.ok()) << link.status().toString();
      links.push_back(link.value());
    }
    if (a < kRanks - 1) settle();
    EXPECT_GT(folder.entries().size(), 3u * kRanks) << "links that their peer has not begun";
  }
  settle();
  for (const Link* link : links) EXPECT_TRUE(link->established());
  for (const std::string& name : folder.entries())
    EXPECT_TRUE(name.ends_with(".rank") || name.ends_with(".bell")) << name;
  EXPECT_EQ(folder.entries().size(), 3u * kRanks);
  ranks.clear();
  EXPECT_EQ(folder.entries(), std::vector<std::string>{});
}

// A new file with a 1 in its first byte, which can be mapped again.
class MappedFile {
 public:
  MappedFile() {
    Result<ShmFile> made = createShmFile(path_, kBytes, kSpareBytes, "a test");
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (made.ok()) file = made.take();
    if (file.map.data()) *file.map.data() = std::byte{1};
  }
  ShmMap mapAgain() const {
    Result<ShmMap> map = mapShmFile(file.fd.get(), kBytes, path_);
    EXPECT_TRUE(map.ok()) << map.status().message();
    return map.ok() ? map.take() : ShmMap();
  }

 private:
  static constexpr uint64_t kBytes = 8192;
  const ShmFolder folder_;
  const std::string path_ = folder_.path() + "/file";

 public:
  ShmFile file;
};

TEST(ShmFiles, AreMappedOnceInAProcess) {
  const MappedFile made;
  const std::byte* const data = made.file.map.data();
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(made.mapAgain().data(), data);
  // A forked child does not have the memory of its parent's mapping, only its address.
  const pid_t child = forkRank(0, [&](int) {
    const ShmMap map = made.mapAgain();
    return map.data() && *map.data() == std::byte{1} ? 0 : 1;
  });
  EXPECT_EQ(exitStatus(child), 0);
  EXPECT_EQ(made.mapAgain().data(), data);
}

TEST(ShmFiles, AreMappedAgainWhenTheLastOwnerOfTheMappingHasGone) {
  MappedFile made;
  made.file.map = ShmMap();
  const ShmMap map = made.mapAgain();
  ASSERT_NE(map.data(), nullptr);
  EXPECT_EQ(*map.data(), std::byte{1});
}

TEST(ShmFiles, AreReadableByTheirUserOnly) {
  ShmFolder folder;
  ShmOptions first = folder.options(0), second = folder.options(1);
  first.ample_bytes = second.ample_bytes = UINT64_MAX;
  auto a = makeShmTransport(first).take();
  auto b = makeShmTransport(second).take();
  ASSERT_TRUE(a->connect(1, b->address(), kShape).ok());
  EXPECT_EQ(folder.entries().size(), 7u);
  for (const std::string& name : folder.entries()) {
    struct stat facts {};
    ASSERT_EQ(::stat((folder.path() + "/" + name).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600u) << name;
    EXPECT_GE(static_cast<uint64_t>(facts.st_blocks) * 512, static_cast<uint64_t>(facts.st_size))
        << name << " is sparse";
  }
}

TEST(ShmReach, NeedsTheSameDirectoryAndTheSameRankBehindTheName) {
  ShmFolder folder, elsewhere;
  auto here = makeShmTransport(folder.options(0)).take();
  auto there = makeShmTransport(elsewhere.options(1)).take();
  EXPECT_FALSE(here->canReach(there->address())) << "another directory";
  auto peer = makeShmTransport(folder.options(1)).take();
  const std::vector<std::byte> old_address = peer->address();
  EXPECT_TRUE(here->canReach(old_address));
  peer.reset();
  EXPECT_FALSE(here->canReach(old_address)) << "it has left";
  peer = makeShmTransport(folder.options(1)).take();
  EXPECT_TRUE(here->canReach(peer->address()));
  EXPECT_FALSE(here->canReach(old_address)) << "the name is the same, the nonce is not";
  const auto refused = here->connect(1, old_address, kShape);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kRemoteError);

  auto address = *decodeShmAddress(peer->address());
  address.boot_id[0] = '?';
  EXPECT_FALSE(here->canReach(encodeShmAddress(address))) << "another kernel";
}

TEST(ShmReach, RefusesNamesThatLeadElsewhere) {
  ShmFolder folder;
  auto here = makeShmTransport(folder.options(0)).take();
  const ShmAddress good = *decodeShmAddress(here->address());
  for (const std::string stem :
       {"horing-../../etc/passwd", "horing-a/b", "/dev/null", "", "horing-a.rank", "x"}) {
    for (auto name : {&ShmAddress::stem, &ShmAddress::bell_stem}) {
      ShmAddress bad = good, endless = good;
      (bad.*name).fill('\0');
      stem.copy((bad.*name).data(), stem.size());
      EXPECT_FALSE(decodeShmAddress(encodeShmAddress(bad)).has_value()) << stem;
      (endless.*name).fill('a');
      EXPECT_FALSE(decodeShmAddress(encodeShmAddress(endless)).has_value());
    }
  }
}

// Files of the right name that are not what a peer makes.
TEST(ShmReach, RefusesForgedFiles) {
  ShmFolder folder;
  auto here = makeShmTransport(folder.options(0)).take();
  const ShmAddress self = *decodeShmAddress(here->address());
  const std::string stem = std::string(self.stem.data()) + "x";
  ShmAddress forged = self;
  forged.rank = 1;
  stem.copy(forged.stem.data(), stem.size());
  const std::string path = folder.path() + "/" + stem + ".rank";
  const auto address = encodeShmAddress(forged);
  std::ofstream(path) << "short";
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_FALSE(here->canReach(address)) << "too short";
  ASSERT_EQ(::truncate(path.c_str(), kPresenceBytes), 0);
  EXPECT_FALSE(here->canReach(address)) << "no nonce";
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  EXPECT_FALSE(here->canReach(address)) << "writable by all";
  ASSERT_EQ(::unlink(path.c_str()), 0);
  // Everything behind the links is right.
  EXPECT_TRUE(here->canReach(encodeShmAddress(self)));
  for (auto name : {&ShmAddress::stem, &ShmAddress::bell_stem}) {
    ShmAddress linked = self;
    stem.copy((linked.*name).data(), (linked.*name).size() - 1);
    const auto link = [&](const std::string& suffix) {
      const std::string target = folder.path() + "/" + (self.*name).data() + suffix;
      return ::symlink(target.c_str(), (folder.path() + "/" + stem + suffix).c_str());
    };
    ASSERT_EQ(link(".rank"), 0);
    if (name == &ShmAddress::bell_stem) {
      ASSERT_EQ(link(".bell"), 0);
    }
    EXPECT_FALSE(here->canReach(encodeShmAddress(linked))) << "a link to another file";
    ASSERT_EQ(::unlink(path.c_str()), 0);
  }
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(here->canReach(address)) << "a FIFO";
}

// The one that refuses may be gone, and its file with it, before the other looks.
TEST(ShmReach, TellsThePeerThatItsShapeIsRefused) {
  ShmFolder folder;
  auto here = makeShmTransport(folder.options(0)).take();
  auto peer = makeShmTransport(folder.options(1)).take();
  auto link = here->connect(1, peer->address(), kShape);
  ASSERT_TRUE(link.ok());
  ASSERT_TRUE(peer->connect(0, here->address(), {.channels = 1, .slots = 7, .slot_bytes = 640}).ok());
  EXPECT_FALSE(peer->progress().ok());
  peer.reset();
  const Status status = here->progress();
  EXPECT_NE(status.message().find("1 channels x 7 slots x 640 bytes"), std::string::npos) << status.message();
}

TEST(ShmReach, FailsALinkWhoseSlotsAreForged) {
  ShmFolder folder;
  auto here = makeShmTransport(folder.options(0)).take();
  auto peer = makeShmTransport(folder.options(1)).take();
  const ShmAddress address = *decodeShmAddress(peer->address());
  const std::string path = folder.path() + "/" + address.stem.data() + ".from-0-0";
  std::ofstream(path) << std::string(8192, 'x');
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  auto link = here->connect(1, peer->address(), kShape);
  ASSERT_TRUE(link.ok());
  EXPECT_EQ(here->progress().code(), Code::kRemoteError);
  EXPECT_FALSE(link.value()->established());
}

TEST(ShmOptions, AreChecked) {
  ShmFolder folder;
  ShmOptions options = folder.options(0);
  options.directory = folder.path() + "/missing";
  auto made = makeShmTransport(options);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find(options.directory), std::string::npos) << made.status().message();
  options = folder.options(0);
  options.directory = "relative";
  EXPECT_EQ(makeShmTransport(options).status().code(), Code::kInvalidArgument);
  options = folder.options(0);
  options.clock = nullptr;
  EXPECT_EQ(makeShmTransport(options).status().code(), Code::kInvalidArgument);
  options = folder.options(0);
  options.job = "../" + std::string(500, 'a');
  EXPECT_TRUE(makeShmTransport(options).ok()) << "made harmless";
  const auto first = makeShmTransport(folder.options(0));
  EXPECT_TRUE(makeShmTransport(folder.options(0)).ok())
      << "a rank of another job, whatever they have in common";
}

// A tmpfs on `path`, seen by this process only. False: no right to make one here.
bool mountTinyDirectory(const std::string& path, const char* size = "size=64k") {
  const std::string uids = "0 " + std::to_string(::geteuid()) + " 1";
  const std::string gids = "0 " + std::to_string(::getegid()) + " 1";
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  // Without these no process could own a file in it.
  std::ofstream("/proc/self/uid_map") << uids;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/gid_map") << gids;
  return ::mount("tmpfs", path.c_str(), "tmpfs", 0, size) == 0;
}

// 0: as it should be. 77: cannot be tried here.
int useATinyDirectory(const ShmFolder& folder, uint64_t ample_bytes) {
  if (!mountTinyDirectory(folder.path())) return 77;
  ShmOptions first = folder.options(0), second = folder.options(1);
  first.ample_bytes = second.ample_bytes = ample_bytes;
  auto here = makeShmTransport(first).take();
  auto peer = makeShmTransport(second).take();
  const LinkShape large{.channels = 1, .slots = 16, .slot_bytes = 65536};
  const auto link = here->connect(1, peer->address(), large);
  const auto back = peer->connect(0, here->address(), large);
  if (!link.ok() || !back.ok()) return 1;
  const bool is_linked = spinUntil(*here, [&] {
    return peer->progress().ok() && link.value()->established() && back.value()->established();
  });
  if (!is_linked) return 2;
  for (uint64_t number = 0; number < 32; ++number) {
    std::byte* const slot = link.value()->sender(0).tryAcquire(kWholeSlot);
    if (!slot) return 3;
    fillPattern(slot, 65536, number);
    link.value()->sender(0).post(65536, number);
    const Message* message = back.value()->receiver(0).tryPeek();
    if (!message || matchPattern(message->data, 65536, number) != 65536) return 4;
    back.value()->receiver(0).release();
  }
  if (folder.entries().size() != 6) return 5;  // presences and bells
  return makeShmTransport(folder.options(2)).ok() ? 0 : 6;
}

// Also where headers of slots do not fit.
TEST(ShmSpace, TooSmallADirectoryIsNoObstacle) {
  for (const uint64_t ample_bytes : {UINT64_MAX, uint64_t{1}}) {
    ShmFolder folder;
    const int result = exitStatus(forkRank(0, [&](int) { return useATinyDirectory(folder, ample_bytes); }));
    if (result == 77) GTEST_SKIP() << "no right to mount a small tmpfs here";
    EXPECT_EQ(result, 0) << ample_bytes;
  }
}

// Two ranks of this process and a link between them.
struct LinkedRanks {
  LinkedRanks(const ShmFolder& folder, const LinkShape& shape, uint64_t ample_bytes) {
    for (int rank = 0; rank < 2; ++rank) {
      ShmOptions options = folder.options(rank);
      options.ample_bytes = ample_bytes;
      transports[rank] = makeShmTransport(options).take();
    }
    for (int rank = 0; rank < 2; ++rank)
      links[rank] = transports[rank]->connect(1 - rank, transports[1 - rank]->address(), shape).take();
    is_linked = spinUntil(*transports[0], [&] {
      return transports[1]->progress().ok() && links[0]->established() && links[1]->established();
    });
  }
  // Rank 0 sends to rank 1. False: there is no slot.
  bool send(uint32_t bytes, uint64_t number) {
    std::byte* const slot = links[0]->sender(0).tryAcquire(bytes);
    if (!slot) return false;
    fillPattern(slot, bytes, number);
    links[0]->sender(0).post(bytes, number);
    const Message* message = links[1]->receiver(0).tryPeek();
    EXPECT_TRUE(message && matchPattern(message->data, bytes, number) == bytes);
    links[1]->receiver(0).release();
    return true;
  }

  std::unique_ptr<Transport> transports[2];
  Link* links[2] = {};
  bool is_linked = false;
};

constexpr LinkShape kLargeSlots{.channels = 1, .slots = 8, .slot_bytes = 65536};

TEST(ShmSpace, SlotsGetTheirMemoryWhenTheyAreFirstUsed) {
  ShmFolder folder;
  LinkedRanks ranks(folder, kLargeSlots, 1);
  ASSERT_TRUE(ranks.is_linked);
  const Transport& receiver = *ranks.transports[1];
  const uint64_t before = receiver.memoryBytes();
  EXPECT_LT(before, shmLinkBytes(kLargeSlots) / 4);
  for (uint64_t number = 0; number < 16; ++number) ASSERT_TRUE(ranks.send(900, number));
  EXPECT_LT(receiver.memoryBytes(), shmLinkBytes(kLargeSlots) / 2) << "small messages need few pages";
  for (uint64_t number = 0; number < 8; ++number) ASSERT_TRUE(ranks.send(65536, number));
  EXPECT_GE(receiver.memoryBytes(), shmLinkBytes(kLargeSlots));
}

TEST(ShmSpace, SlotsHaveTheirMemoryFromTheBeginningWhereRoomIsScarce) {
  ShmFolder folder;
  LinkedRanks ranks(folder, kLargeSlots, UINT64_MAX);
  ASSERT_TRUE(ranks.is_linked);
  EXPECT_GE(ranks.transports[1]->memoryBytes(), shmLinkBytes(kLargeSlots));
}

// 0: as it should be. 77: cannot be tried here.
int fillADirectoryLater(const ShmFolder& folder) {
  if (!mountTinyDirectory(folder.path(), "size=8m")) return 77;
  LinkedRanks ranks(folder, kLargeSlots, 1);
  if (!ranks.is_linked) return 1;
  std::ofstream(folder.path() + "/full") << std::string(16 << 20, 'x');
  for (uint64_t number = 0; number < 16; ++number)
    if (!ranks.send(900, number)) return 2;
  if (ranks.send(65536, 16)) return 3;
  const Status status = ranks.transports[0]->progress();
  if (status.code() != Code::kSystemError) return 4;
  for (const char* part : {"rank 0", "rank 1", "HORING_SHM_DIR"})
    if (status.message().find(part) == std::string::npos) return 5;
  return 0;
}

// 0: as it should be. 77: cannot be tried here.
int promiseMoreThanThereIs(const ShmFolder& folder) {
  if (!mountTinyDirectory(folder.path(), "size=8m")) return 77;
  std::vector<std::unique_ptr<LinkedRanks>> pairs;
  for (int i = 0; i < 16; ++i) {
    pairs.push_back(std::make_unique<LinkedRanks>(folder, kLargeSlots, 1));
    if (!pairs.back()->is_linked) return 1;
  }
  for (uint64_t number = 0; number < 16; ++number)
    for (const auto& pair : pairs)
      if (!pair->send(65536, number)) return 2;
  return 0;
}

TEST(ShmSpace, NoMoreIsPromisedThanADirectoryHas) {
  ShmFolder folder;
  const int result = exitStatus(forkRank(0, [&](int) { return promiseMoreThanThereIs(folder); }));
  if (result == 77) GTEST_SKIP() << "no right to mount a small tmpfs here";
  EXPECT_EQ(result, 0);
}

TEST(ShmSpace, ADirectoryThatFillsUpLaterIsAnErrorAndNoSignal) {
  ShmFolder folder;
  const int result = exitStatus(forkRank(0, [&](int) { return fillADirectoryLater(folder); }));
  if (result == 77) GTEST_SKIP() << "no right to mount a small tmpfs here";
  EXPECT_EQ(result, 0);
}

// 0: as it should be. 77: cannot be tried here.
int fillATinyDirectory(const ShmFolder& folder) {
  if (!mountTinyDirectory(folder.path())) return 77;
  std::ofstream(folder.path() + "/full") << std::string(1 << 20, 'x');
  const auto made = makeShmTransport(folder.options(0));
  if (made.ok()) return 1;
  const std::string& text = made.status().message();
  for (const char* part :
       {folder.path().c_str(), "--shm-size", "HORING_SHM_DIR", "12288", "0 are", "rank 0"}) {
    if (text.find(part) != std::string::npos) continue;
    std::fprintf(stderr, "no \"%s\" in: %s\n", part, text.c_str());
    return 2;
  }
  return 0;
}

TEST(ShmSpace, FullDirectoryIsAnErrorThatSaysWhatToDo) {
  ShmFolder folder;
  const int result = exitStatus(forkRank(0, [&](int) { return fillATinyDirectory(folder); }));
  if (result == 77) GTEST_SKIP() << "no right to mount a small tmpfs here";
  EXPECT_EQ(result, 0);
}

// A link under the name of slots may lead to nothing but slots.
TEST(ShmSpace, RefusesLinksThatLeadElsewhere) {
  ShmFolder folder;
  const std::string file = folder.path() + "/file", name = folder.path() + "/horing-x.from-0-0";
  std::ofstream(file) << std::string(8192, 'x');
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  const Fd regular(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  const Fd unsealed(::memfd_create("horing-slots", MFD_CLOEXEC));
  const Fd other(::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto inProc = [](const Fd& fd) { return formatString("/proc/%d/fd/%d", ::getpid(), fd.get()); };
  for (const std::string& target :
       {file, inProc(regular), inProc(unsealed), inProc(other), inProc(regular) + "/x",
        std::string("/proc/self/mem"), std::string("/dev/null"),
        formatString("/proc/%d/fd/999999", ::getpid())}) {
    ASSERT_EQ(::symlink(target.c_str(), name.c_str()), 0);
    const Result<Fd> opened = openShmMemory(name);
    EXPECT_EQ(opened.status().code(), Code::kRemoteError) << target;
    EXPECT_NE(opened.status().message().find(target), std::string::npos) << opened.status().message();
    ASSERT_EQ(::unlink(name.c_str()), 0);
  }
}

}  // namespace
}  // namespace horing::testing
