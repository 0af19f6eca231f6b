// The cost of a message between two processes of one machine, compared with a copy between processes by the kernel.
//
//   build/release/bin/transport_bench                    all
//   build/release/bin/transport_bench latency            8 bytes back and forth: slots beside a raw flag
//   build/release/bin/transport_bench copy               slots (copy in, copy out) beside process_vm_readv
//
// Two processes pinned to CPUs 0 and 1; the variants take turns, and the median of 15 rounds is printed, since the same
// thing measured twice on a shared machine may differ by half; beside it the best, which is what the code can do.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/shm/shm_transport.h"

namespace horing {
namespace {

constexpr int kRounds = 15;
constexpr int kTrips = 2000;
constexpr size_t kMaxCopyBytes = 16u << 20;
constexpr size_t kMoved = 16u << 20;  // bytes that one round of a copy moves

// Memory that both processes see, made before the fork.
struct Shared {
  // Each is written by the process it is named after (release), and read by the other (acquire).
  alignas(128) std::atomic<uint64_t> parent_turn{0};
  alignas(128) std::atomic<uint64_t> child_turn{0};
  // Written once by the process it belongs to, before it moves its turn.
  std::array<std::byte, kMaxAddressBytes> address[2];
  size_t address_bytes[2];
  std::byte* child_source;
};

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) std::perror("pinning (figures will scatter)");
}

[[noreturn]] void die(const char* what, const Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.toString().c_str());
  std::_Exit(1);
}

// One of the two processes.
class Side {
 public:
  Side(Shared* shared, bool parent) : shared_(shared), parent_(parent) {}

  bool parent() const { return parent_; }
  Shared& shared() { return *shared_; }
  // Both meet: what either wrote before, the other sees after.
  void meet() {
    auto& mine = parent_ ? shared_->parent_turn : shared_->child_turn;
    auto& theirs = parent_ ? shared_->child_turn : shared_->parent_turn;
    mine.store(++turn_, std::memory_order_release);
    while (theirs.load(std::memory_order_acquire) < turn_) {
    }
  }
  // Raw flags, one each way: what the machine can do.
  void flagTrips(int trips) {
    for (int i = 0; i < trips; ++i) meet();
  }

 private:
  Shared* shared_;
  bool parent_;
  uint64_t turn_ = 0;
};

// A link over shm between the two.
class Pair {
 public:
  Pair(Side& side, const LinkShape& shape) {
    const int rank = side.parent() ? 0 : 1;
    const ShmOptions options{.job = "bench", .rank = rank, .clock = &clock_};
    auto made = makeShmTransport(options);
    if (!made.ok()) die("shm", made.status());
    transport_ = made.take();
    const auto address = transport_->address();
    std::copy(address.begin(), address.end(), side.shared().address[rank].begin());
    side.shared().address_bytes[rank] = address.size();
    side.meet();
    const std::span<const std::byte> theirs(side.shared().address[1 - rank].data(),
                                            side.shared().address_bytes[1 - rank]);
    auto link = transport_->connect(1 - rank, theirs, shape);
    if (!link.ok()) die("connect", link.status());
    while (!link.value()->established()) {
      if (const Status status = transport_->progress(); !status.ok()) die("handshake", status);
    }
    sender_ = &link.value()->sender(0);
    receiver_ = &link.value()->receiver(0);
  }

  void send(const std::byte* data, uint32_t bytes) {
    std::byte* slot = nullptr;
    while ((slot = sender_->tryAcquire(kWholeSlot)) == nullptr) {
    }
    std::memcpy(slot, data, bytes);
    sender_->post(bytes, 0);
  }
  void receive(std::byte* data) {
    const Message* message = nullptr;
    while ((message = receiver_->tryPeek()) == nullptr) {
    }
    std::memcpy(data, message->data, message->bytes);
    receiver_->release();
  }

 private:
  SteadyClock clock_;
  std::unique_ptr<Transport> transport_;
  Sender* sender_ = nullptr;
  Receiver* receiver_ = nullptr;
};

struct Figures {
  double best, median;
};
// Of nanoseconds: less is better.
Figures figuresOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2]};
}

// Nanoseconds that `work` takes, both sides starting together.
double timed(Side& side, const std::function<void()>& work) {
  const SteadyClock clock;
  side.meet();
  const int64_t start_ns = clock.nowNs();
  work();
  return static_cast<double>(clock.nowNs() - start_ns);
}

void measureLatency(Side& side) {
  Pair pair(side, {.channels = 1, .slots = 8, .slot_bytes = 64});
  std::byte word[8]{};
  const auto slots = [&] {
    for (int i = 0; i < kTrips; ++i) {
      if (side.parent()) pair.send(word, 8);
      pair.receive(word);
      if (!side.parent()) pair.send(word, 8);
    }
  };
  std::vector<double> flag_ns, slot_ns;
  for (int round = 0; round < kRounds; ++round) {
    // A meeting is one flag each way at the same time: as long as one way.
    flag_ns.push_back(timed(side, [&] { side.flagTrips(kTrips); }) / kTrips);
    slot_ns.push_back(timed(side, slots) / (2.0 * kTrips));
  }
  if (!side.parent()) return;
  const Figures flag = figuresOf(flag_ns), slot = figuresOf(slot_ns);
  std::printf(
      "latency, one way, ns, median (best): raw flag %.0f (%.0f), 8 bytes through a slot %.0f (%.0f)\n",
      flag.median, flag.best, slot.median, slot.best);
}

// `bytes` from the child's memory into the parent's, again and again over buffers that are touched.
void measureCopy(Side& side, uint32_t slot_bytes, size_t bytes, pid_t child) {
  constexpr uint32_t kSlots = 8;
  Pair pair(side, {.channels = 1, .slots = kSlots, .slot_bytes = slot_bytes});
  std::vector<std::byte> memory(bytes, std::byte{1});
  if (!side.parent()) side.shared().child_source = memory.data();
  const size_t repeats = std::max<size_t>(1, kMoved / bytes);
  const auto slots = [&] {
    for (size_t repeat = 0; repeat < repeats; ++repeat) {
      for (size_t at = 0; at < bytes; at += slot_bytes) {
        if (side.parent())
          pair.receive(memory.data() + at);
        else
          pair.send(memory.data() + at, slot_bytes);
      }
    }
    side.meet();
  };
  const auto readv = [&] {
    for (size_t repeat = 0; side.parent() && repeat < repeats; ++repeat) {
      const iovec to{memory.data(), bytes}, from{side.shared().child_source, bytes};
      if (::process_vm_readv(child, &to, 1, &from, 1, 0) != static_cast<ssize_t>(bytes)) {
        std::perror("process_vm_readv");
        std::_Exit(1);
      }
    }
    side.meet();
  };
  std::vector<double> slot_ns, readv_ns;
  for (int round = 0; round < kRounds; ++round) {
    slot_ns.push_back(timed(side, slots));
    readv_ns.push_back(timed(side, readv));
  }
  if (!side.parent()) return;
  const Figures slot = figuresOf(slot_ns), direct = figuresOf(readv_ns);
  const double moved = static_cast<double>(repeats * bytes);
  std::printf("%6zu KiB, GB/s, median (best): slots of %u KiB %.1f (%.1f), process_vm_readv %.1f (%.1f)\n",
              bytes >> 10, slot_bytes >> 10, moved / slot.median, moved / slot.best, moved / direct.median,
              moved / direct.best);
}

void measure(Side& side, const std::string& what, pid_t child) {
  if (what.empty() || what == "latency") measureLatency(side);
  if (!what.empty() && what != "copy") return;
  for (size_t bytes = 64u << 10; bytes <= kMaxCopyBytes; bytes *= 4)
    measureCopy(side, 64u << 10, bytes, child);
}

int run(const std::string& what) {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* shared = new (memory) Shared;
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_PTRACER, ::getppid());
    pin(1);
    Side side(shared, false);
    measure(side, what, 0);
    std::_Exit(0);
  }
  pin(0);
  Side side(shared, true);
  measure(side, what, child);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace horing

int main(int argc, char** argv) {
  return horing::run(argc > 1 ? argv[1] : "");
}
