// Two ends of the verbs transport in this process, on two devices; prints one number. bench/rdma/compare.py runs it beside perftest.
//
//   verbs_bench DEVICE DEVICE bandwidth BYTES MESSAGES    the first sends messages of BYTES to the second: Gbit/s
//   verbs_bench DEVICE DEVICE latency BYTES MESSAGES      half of a round trip: us, the median of all
//
// The control messages between the ends travel by TCP over loopback.
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "transport/socket/socket_transport.h"
#include "transport/verbs/verbs_transport.h"

namespace horing {
namespace {

constexpr uint32_t kSlots = 32;
constexpr int64_t kDeadlineNs = 60'000'000'000;
constexpr uint64_t kWarmUp = 64;
constexpr int kPatience = 200;  // yields in vain before a wait blocks
constexpr int kLongestWaitMs = 10;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "verbs_bench: %s\n", why.c_str());
  std::exit(1);
}

class Ends {
 public:
  Ends(const std::string& first, const std::string& second, uint32_t bytes) : bytes_(bytes) {
    const Key key = Key::random();
    for (const std::string& devices : {first, second}) {
      const int rank = static_cast<int>(transports_.size());
      auto control = makeSocketTransport({.rank = rank, .key = key, .interfaces = "=lo", .clock = &clock_});
      if (!control.ok()) fail(control.status().toString());
      auto made = makeVerbsTransport({.rank = rank, .devices = devices, .clock = &clock_}, control.take());
      if (!made.ok()) fail(made.status().toString());
      transports_.push_back(made.take());
    }
    const LinkShape shape{.channels = 1, .slots = kSlots, .slot_bytes = (bytes + 63) / 64 * 64};
    for (size_t end = 0; end < 2; ++end) {
      const Result<Link*> link =
          transports_[end]->connect(static_cast<int>(1 - end), transports_[1 - end]->address(), shape);
      if (!link.ok()) fail(link.status().toString());
      links_.push_back(link.value());
    }
    while (!links_[0]->established() || !links_[1]->established()) progress(0), progress(1);
  }

  double gigabitsPerSecond(uint64_t messages) {
    int64_t begun_ns = 0;
    int64_t ended_ns = 0;
    std::thread receiving([&] {
      for (uint64_t i = 0; i < kWarmUp + messages; ++i) {
        receive(1);
        if (i + 1 == kWarmUp) begun_ns = clock_.nowNs();
      }
      ended_ns = clock_.nowNs();
      drain(1);
    });
    for (uint64_t i = 0; i < kWarmUp + messages; ++i) send(0);
    drain(0);
    receiving.join();
    return static_cast<double>(messages * bytes_) * 8 / static_cast<double>(ended_ns - begun_ns);
  }

  double medianLatencyUs(uint64_t messages) {
    std::vector<int64_t> rounds_ns;
    rounds_ns.reserve(messages);
    std::thread answering([&] {
      for (uint64_t i = 0; i < kWarmUp + messages; ++i) receive(1), send(1);
      drain(1);
    });
    for (uint64_t i = 0; i < kWarmUp + messages; ++i) {
      const int64_t begun_ns = clock_.nowNs();
      send(0);
      receive(0);
      if (i >= kWarmUp) rounds_ns.push_back(clock_.nowNs() - begun_ns);
    }
    drain(0);
    answering.join();
    std::nth_element(rounds_ns.begin(), rounds_ns.begin() + static_cast<ptrdiff_t>(messages / 2),
                     rounds_ns.end());
    return static_cast<double>(rounds_ns[messages / 2]) / 2000;
  }

 private:
  void progress(size_t end) {
    if (const Status status = transports_[end]->progress(); !status.ok()) fail(status.toString());
    if (clock_.nowNs() > deadline_ns_) fail("nothing moved for a minute");
  }
  // Until `done`, which makes progress. Waits as a rank does: yields the core for a while, then blocks.
  template <typename Done>
  void until(size_t end, Done done) {
    for (int idle = 0; !done(); ++idle) {
      progress(end);
      if (done()) return;
      if (idle < kPatience) {
        ::sched_yield();
        continue;
      }
      transports_[end]->beginWait();
      progress(end);
      pollfd something{.fd = transports_[end]->waitFd(), .events = POLLIN, .revents = 0};
      if (!done()) ::poll(&something, 1, kLongestWaitMs);
      transports_[end]->endWait();
      idle = 0;
    }
  }
  void send(size_t end) {
    Sender& sender = links_[end]->sender(0);
    until(end, [&] { return sender.tryAcquire(kWholeSlot) != nullptr; });
    sender.post(bytes_, sent_[end]++);
    progress(end);
  }
  void receive(size_t end) {
    Receiver& receiver = links_[end]->receiver(0);
    until(end, [&] { return receiver.tryPeek() != nullptr; });
    receiver.release();
  }
  void drain(size_t end) {
    until(end, [&] { return links_[end]->sender(0).flushed() && links_[end]->receiver(0).flushed(); });
  }

  SteadyClock clock_;
  const int64_t deadline_ns_ = SteadyClock().nowNs() + kDeadlineNs;
  uint32_t bytes_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<Link*> links_;
  uint64_t sent_[2] = {0, 0};
};

}  // namespace
}  // namespace horing

int main(int argc, char** argv) {
  const std::string what = argc == 6 ? argv[3] : "";
  const uint32_t bytes = argc == 6 ? static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 10)) : 0;
  const uint64_t messages = argc == 6 ? std::strtoul(argv[5], nullptr, 10) : 0;
  if ((what != "bandwidth" && what != "latency") || bytes == 0 || bytes > horing::kMaxSlotBytes ||
      messages == 0) {
    std::fprintf(stderr, "usage: verbs_bench DEVICE DEVICE bandwidth|latency BYTES MESSAGES\n");
    return 2;
  }
  horing::Ends ends(argv[1], argv[2], bytes);
  std::printf("%.3f\n",
              what == "bandwidth" ? ends.gigabitsPerSecond(messages) : ends.medianLatencyUs(messages));
  return 0;
}
