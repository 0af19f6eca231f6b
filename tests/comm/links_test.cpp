// Links of processes whose rights change: open links stay, new ones use the transport that still works.
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "../transport/shm_folder.h"
#include "base/fd.h"
#include "comm/links/connector.h"
#include "transport/socket/socket_transport.h"

namespace horing::testing {
namespace {

constexpr LinkShape kShape{.channels = 1, .slots = 4, .slot_bytes = 4096};
constexpr uid_t kNobody = 65534;
constexpr int kRanks = 2;
constexpr int64_t kLongMs = 20'000;
const LinkUse kEarly = collectiveLink(0), kLate = collectiveLink(1);

enum class Change : uint8_t { kNone, kUser, kUndumpable };

// One of two ranks, each a process. Prints the first error and returns false.
class LinkedRank {
 public:
  LinkedRank(int rank, int socket, const ShmFolder& folder) : rank_(rank), peer_(1 - rank), socket_(socket) {
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(makeShmTransport(folder.options(rank)).take());
    SocketOptions options;
    options.rank = rank;
    options.interfaces = "lo";
    options.clock = &clock_;
    transports.push_back(makeSocketTransport(options).take());
    connector_ =
        std::make_unique<Connector>(rank, std::vector<LinkShape>{kShape, kShape}, std::move(transports));
  }

  bool run(Change change, const char* late_transport) {
    meet();
    if (!connect(kEarly)) return false;
    if (change == Change::kUser && (::setgroups(0, nullptr) != 0 || ::setuid(kNobody) != 0)) return false;
    if (change == Change::kUndumpable && ::prctl(PR_SET_DUMPABLE, 0) != 0) return false;
    // The other waits already.
    if (change != Change::kNone) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return connect(kLate) && has(kEarly, "shm") && has(kLate, late_transport) && talk(kEarly) &&
           talk(kLate) && part();
  }

 private:
  std::optional<std::vector<std::byte>> swap(const std::vector<std::byte>& mine) const {
    std::array<std::byte, kMaxAddressBytes> theirs;
    if (::send(socket_, mine.data(), mine.size(), MSG_NOSIGNAL) < 0) return std::nullopt;
    const ssize_t bytes = ::recv(socket_, theirs.data(), theirs.size(), 0);
    if (bytes < 0) return std::nullopt;
    return std::vector<std::byte>(theirs.begin(), theirs.begin() + bytes);
  }

  void meet() {
    AddressTable table(kRanks);
    for (const auto& address : connector_->addresses()) {
      table[static_cast<size_t>(rank_)].push_back(address);
      table[static_cast<size_t>(peer_)].push_back(swap(address).value_or(std::vector<std::byte>()));
    }
    connector_->setAddresses(std::move(table));
    std::vector<int> first(kRanks, -1), next(kRanks, -1);
    first[static_cast<size_t>(peer_)] = 0;
    next[static_cast<size_t>(peer_)] = 1;
    connector_->setChoices(first, next);
  }

  // Goes on for the other until that has all, too.
  bool part() {
    char word = 1;
    return ::send(socket_, &word, 1, MSG_NOSIGNAL) == 1 &&
           drive("parting", [&] { return ::recv(socket_, &word, 1, MSG_DONTWAIT) >= 0; });
  }

  // Until `done`; false at the first error.
  template <typename Done>
  bool drive(const char* what, const Done& done) {
    const Deadline deadline = Deadline::after(clock_, kLongMs);
    while (!done()) {
      const Status moved = connector_->progress(connector_->transportsOf(links_));
      if (!moved.ok() || deadline.passed()) {
        std::fprintf(stderr, "rank %d, %s: %s\n", rank_, what, moved.ok() ? "late" : moved.message().c_str());
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }

  bool connect(LinkUse use) {
    links_ = {use, {peer_}};
    if (const Status begun = connector_->begin(links_); !begun.ok()) {
      std::fprintf(stderr, "rank %d: %s\n", rank_, begun.message().c_str());
      return false;
    }
    return drive("connecting", [&] { return connector_->established(links_); });
  }

  bool has(LinkUse use, const char* transport) {
    const std::string found = connector_->link(use, peer_).describe();
    if (found.starts_with(transport)) return true;
    std::fprintf(stderr, "rank %d has a link over %s, not %s\n", rank_, found.c_str(), transport);
    return false;
  }

  bool talk(LinkUse use) {
    links_ = {use, {peer_}};
    Link& link = connector_->link(use, peer_);
    std::byte* slot = nullptr;
    if (!drive("sending", [&] { return (slot = link.sender(0).tryAcquire(kWholeSlot)) != nullptr; }))
      return false;
    std::memset(slot, rank_ + 1, kShape.slot_bytes);
    link.sender(0).post(kShape.slot_bytes, 7);
    const Message* message = nullptr;
    if (!drive("receiving", [&] { return (message = link.receiver(0).tryPeek()) != nullptr; })) return false;
    const bool is_right = message->bytes == kShape.slot_bytes &&
                          message->data[kShape.slot_bytes - 1] == static_cast<std::byte>(peer_ + 1);
    link.receiver(0).release();
    return is_right;
  }

  SteadyClock clock_;
  int rank_, peer_, socket_;
  std::unique_ptr<Connector> connector_;
  LinkSet links_;
};

void expectLateLinks(const std::array<Change, kRanks>& changes, const char* transport) {
  const ShmFolder folder;
  int sockets[kRanks];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
  pid_t ranks[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks[rank] = ::fork();
    ASSERT_GE(ranks[rank], 0);
    if (ranks[rank] != 0) continue;
    bool well = false;
    {
      const Fd mine(sockets[rank]), theirs(sockets[1 - rank]);
      LinkedRank linked(rank, mine.get(), folder);
      well = linked.run(changes[static_cast<size_t>(rank)], transport);
    }
    ::_exit(well ? 0 : 1);
  }
  for (const int socket : sockets) ::close(socket);
  for (const pid_t rank : ranks) {
    int status = 0;
    EXPECT_EQ(::waitpid(rank, &status, 0), rank);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

TEST(LinksOfAnotherUser, GoOverSockets) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  expectLateLinks({Change::kUser, Change::kNone}, "socket");
  expectLateLinks({Change::kNone, Change::kUser}, "socket");
  expectLateLinks({Change::kUser, Change::kUser}, "socket");
}

// Slots are in files, which need only the same user.
TEST(LinksOfAnUndumpableProcess, GoOverSharedMemoryThatHasRoom) {
  expectLateLinks({Change::kUndumpable, Change::kNone}, "shm");
}

TEST(LinksThatChangeNothing, GoOverSharedMemory) {
  expectLateLinks({Change::kNone, Change::kNone}, "shm");
}

}  // namespace
}  // namespace horing::testing
