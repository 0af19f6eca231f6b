// The speed of the socket transport over loopback, compared with a bare TCP connection with the same settings.
//
//   build/release/bin/socket_bench [ROUNDS] [STREAMS]     default 15 rounds, one stream
//
// Two threads pinned to CPUs 0 and 1, each one end. "duplex": both send as many messages as fit into 64 MiB while they
// receive as many, yielding when nothing moves; GB/s counts one direction. "latency": half of a round trip of 8 bytes. "cpu": both ends in one thread,
// its CPU time per message, which other load disturbs least. The two take turns and medians
// are printed, since the same thing measured twice on a shared machine may differ by half; so does the median of the
// ratios of neighbours in time, which is what to look at.
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/listener.h"
#include "transport/socket/socket_transport.h"
#include "transport/socket/tuning.h"

namespace horing {
namespace {

constexpr uint32_t kSlots = 8;
constexpr uint64_t kDuplexBytes = 64u << 20;
constexpr uint64_t kRoundTrips = 5000;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Runs end 0 and end 1 on a CPU each and returns the seconds from their common start to the end of the later one.
double runBoth(const std::function<void(int end)>& work) {
  std::atomic<int> ready{0};
  const SteadyClock clock;
  int64_t begun_ns[2];
  int64_t ended_ns[2];
  const auto run = [&](int end) {
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(static_cast<size_t>(end), &cpu);
    ::pthread_setaffinity_np(::pthread_self(), sizeof cpu, &cpu);
    ready.fetch_add(1);
    while (ready.load() < 2) ::sched_yield();
    begun_ns[end] = clock.nowNs();
    work(end);
    ended_ns[end] = clock.nowNs();
  };
  std::thread other(run, 1);
  std::thread one(run, 0);
  one.join();
  other.join();
  return static_cast<double>(std::max(ended_ns[0], ended_ns[1]) - std::min(begun_ns[0], begun_ns[1])) * 1e-9;
}

// Seconds of CPU time that `work` takes of this thread.
double cpuSeconds(const std::function<void()>& work) {
  timespec begun;
  timespec ended;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
  work();
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
  return static_cast<double>(ended.tv_sec - begun.tv_sec) +
         static_cast<double>(ended.tv_nsec - begun.tv_nsec) * 1e-9;
}

// A bare connection; each end has as many buffers as the transport has slots, so that the caches see the same.
class RawPair {
 public:
  explicit RawPair(uint32_t message_bytes) : message_bytes_(message_bytes) {
    Result<Listener> listening = listenOn(nullptr, 0);
    Result<Fd> dialled = openSocket(Address::Family::kIpv4);
    if (!listening.ok() || !dialled.ok()) std::exit(1);
    Endpoint to{.address = {}, .port = listening.value().port};
    to.address.bytes = {127, 0, 0, 1};
    const SockAddr at = toSockAddr(to);
    fds_[0] = dialled.take();
    const bool tuned =
        tcp::tuneSocket(listening.value().fd.get()).ok() && tcp::tuneSocket(fds_[0].get()).ok();
    if (!tuned || (::connect(fds_[0].get(), at.get(), at.length) != 0 && errno != EINPROGRESS)) std::exit(1);
    while (!fds_[1].valid())
      fds_[1].reset(::accept4(listening.value().fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!tcp::tuneSocket(fds_[1].get()).ok()) std::exit(1);
    for (auto& memory : memory_) memory.assign(2 * kSlots * size_t{message_bytes}, std::byte{1});
  }

  void duplex(int end, uint64_t messages) {
    uint64_t sent = 0;
    uint64_t received = 0;
    const uint64_t goal = messages * message_bytes_;
    while (sent < goal || received < goal) {
      const uint64_t before = sent + received;
      if (sent < goal) sent += moved(::send(fd(end), at(end, 0, sent), left(sent), MSG_NOSIGNAL));
      if (received < goal) received += moved(::recv(fd(end), at(end, 1, received), left(received), 0));
      if (sent + received == before) ::sched_yield();
    }
  }
  void alone(uint64_t messages) {
    uint64_t sent = 0;
    uint64_t received = 0;
    const uint64_t goal = messages * message_bytes_;
    while (received < goal) {
      if (sent < goal) sent += moved(::send(fd(0), at(0, 0, sent), left(sent), MSG_NOSIGNAL));
      received += moved(::recv(fd(1), at(1, 1, received), left(received), 0));
    }
  }
  void pingPong(int end, uint64_t rounds) {
    for (uint64_t i = 0; i < rounds; ++i) {
      if (end == 0)
        whole([&](uint64_t done) { return ::send(fd(end), at(end, 0, done), 8 - done, MSG_NOSIGNAL); });
      whole([&](uint64_t done) { return ::recv(fd(end), at(end, 1, done), 8 - done, 0); });
      if (end == 1)
        whole([&](uint64_t done) { return ::send(fd(end), at(end, 0, done), 8 - done, MSG_NOSIGNAL); });
    }
  }

 private:
  int fd(int end) const { return fds_[end].get(); }
  std::byte* at(int end, size_t direction, uint64_t position) {
    const size_t area = kSlots * size_t{message_bytes_};
    return memory_[end].data() + direction * area + position % area;
  }
  size_t left(uint64_t position) const { return message_bytes_ - position % message_bytes_; }
  static uint64_t moved(ssize_t result) {
    if (result < 0 && errno != EAGAIN) std::exit(1);
    return result < 0 ? 0 : static_cast<uint64_t>(result);
  }
  static void whole(const std::function<ssize_t(uint64_t)>& call) {
    for (uint64_t done = 0; done < 8;) done += moved(call(done));
  }

  uint32_t message_bytes_;
  Fd fds_[2];
  std::vector<std::byte> memory_[2];
};

class TransportPair {
 public:
  TransportPair(uint32_t message_bytes, int streams) : message_bytes_(message_bytes) {
    const Key key = Key::random();
    for (int rank = 0; rank < 2; ++rank) {
      Result<std::unique_ptr<Transport>> made = makeSocketTransport({.rank = rank,
                                                                     .key = key,
                                                                     .interfaces = "=lo",
                                                                     .family = "ipv4",
                                                                     .streams = streams,
                                                                     .clock = &clock_});
      if (!made.ok()) fail(made.status());
      ends_[rank] = made.take();
    }
    const LinkShape shape{.channels = 1, .slots = kSlots, .slot_bytes = message_bytes};
    for (int rank = 0; rank < 2; ++rank) {
      Result<Link*> link = ends_[rank]->connect(1 - rank, ends_[1 - rank]->address(), shape);
      if (!link.ok()) fail(link.status());
      links_[rank] = link.value();
    }
    while (!links_[0]->established() || !links_[1]->established()) progress(0), progress(1);
  }

  void duplex(int end, uint64_t messages) {
    uint64_t sent = 0;
    uint64_t received = 0;
    Sender& sender = links_[end]->sender(0);
    Receiver& receiver = links_[end]->receiver(0);
    while (sent < messages || received < messages || !sender.flushed() || !receiver.flushed()) {
      const uint64_t before = sent + received;
      if (sent < messages && sender.tryAcquire(kWholeSlot)) sender.post(message_bytes_, sent++);
      if (received < messages && receiver.tryPeek()) receiver.release(), ++received;
      progress(end);
      if (sent + received == before) ::sched_yield();
    }
  }
  void alone(uint64_t messages) {
    uint64_t sent = 0;
    uint64_t received = 0;
    Sender& sender = links_[0]->sender(0);
    Receiver& receiver = links_[1]->receiver(0);
    while (received < messages) {
      if (sent < messages && sender.tryAcquire(kWholeSlot)) sender.post(message_bytes_, sent++);
      progress(0);
      progress(1);
      if (receiver.tryPeek()) receiver.release(), ++received;
    }
  }
  void pingPong(int end, uint64_t rounds) {
    for (uint64_t i = 0; i < rounds; ++i) {
      if (end == 0) post(end, i);
      while (!links_[end]->receiver(0).tryPeek()) progress(end);
      links_[end]->receiver(0).release();
      if (end == 1) post(end, i);
    }
    while (!links_[end]->sender(0).flushed() || !links_[end]->receiver(0).flushed()) progress(end);
  }

 private:
  static void fail(const Status& status) {
    std::fprintf(stderr, "%s\n", status.toString().c_str());
    std::exit(1);
  }
  void progress(int end) {
    if (const Status status = ends_[end]->progress(); !status.ok()) fail(status);
  }
  void post(int end, uint64_t tag) {
    while (!links_[end]->sender(0).tryAcquire(kWholeSlot)) progress(end);
    links_[end]->sender(0).post(8, tag);
    progress(end);
  }

  SteadyClock clock_;
  uint32_t message_bytes_;
  std::unique_ptr<Transport> ends_[2];
  Link* links_[2];
};

// Both variants in turn; prints medians of their figures and of the ratio of neighbours.
void compare(const char* name, int rounds, const std::function<double()>& raw,
             const std::function<double()>& ours) {
  std::vector<double> raw_figures;
  std::vector<double> our_figures;
  std::vector<double> ratios;
  raw();
  ours();
  for (int i = 0; i < rounds; ++i) {
    raw_figures.push_back(raw());
    our_figures.push_back(ours());
    ratios.push_back(our_figures.back() / raw_figures.back());
  }
  std::printf("%-22s %10.2f %10.2f %8.3f\n", name, median(raw_figures), median(our_figures), median(ratios));
}

void compareSize(uint32_t bytes, int rounds, int streams) {
  RawPair raw(bytes);
  TransportPair ours(bytes, streams);
  const uint64_t messages = std::min<uint64_t>(kDuplexBytes / bytes, 4096);
  const auto rate = [&](double seconds) { return static_cast<double>(messages * bytes) / seconds * 1e-9; };
  const auto each = [&](double seconds) { return seconds / static_cast<double>(messages) * 1e6; };
  compare(
      formatString("duplex %u B, GB/s", bytes).c_str(), rounds,
      [&] { return rate(runBoth([&](int end) { raw.duplex(end, messages); })); },
      [&] { return rate(runBoth([&](int end) { ours.duplex(end, messages); })); });
  compare(
      formatString("cpu %u B, us", bytes).c_str(), rounds,
      [&] { return each(cpuSeconds([&] { raw.alone(messages); })); },
      [&] { return each(cpuSeconds([&] { ours.alone(messages); })); });
}

void runAll(int rounds, int streams) {
  std::printf("%-22s %10s %10s %8s\n", "", "raw TCP", "transport", "ratio");
  for (const uint32_t bytes : {4096u, 16384u, 65536u, 524288u}) compareSize(bytes, rounds, streams);
  RawPair raw(64);
  TransportPair ours(64, streams);
  const auto half = [](double seconds) { return seconds / kRoundTrips / 2 * 1e6; };
  compare(
      "latency 8 B, us", rounds,
      [&] { return half(runBoth([&](int end) { raw.pingPong(end, kRoundTrips); })); },
      [&] { return half(runBoth([&](int end) { ours.pingPong(end, kRoundTrips); })); });
}

}  // namespace
}  // namespace horing

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const int streams = argc > 2 ? std::atoi(argv[2]) : 1;
  if (rounds < 1 || streams < 1 || argc > 3) {
    std::fprintf(stderr, "usage: socket_bench [ROUNDS] [STREAMS]\n");
    return 2;
  }
  horing::runAll(rounds, streams);
  return 0;
}
