// one_sided_bench: puts against messages, and puts to a rank that is in no call. Run it under horing-run:
//
//   horing-run -n 2 -- one_sided_bench
//
// Rank 0 sends to the last rank, which answers when it has everything: puts and messages in turns, the median of the turns. Then the last
// rank sleeps while rank 0 puts. Rank 0 prints a table. Exit code 0 when measured, 1 when data are wrong.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "horing/horing.h"

namespace {

constexpr const char* kUsage = R"(Usage: horing-run -n RANKS -- one_sided_bench

Time of puts and of messages of the same size from rank 0 to the last rank, each answered, in turns; then the pace of puts to
a rank that is in no call of horing. Two ranks or more.
)";
constexpr size_t kMostBytes = 64 << 20;
constexpr int kTurns = 7;
constexpr useconds_t kAwayUs = 3'000'000;

double nowUs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

void expect(horingResult_t result) {
  if (result == horingSuccess) return;
  std::fprintf(stderr, "one_sided_bench: %s\n", horingGetLastError(nullptr));
  std::exit(1);
}

struct Ends {
  horingComm_t comm = nullptr;
  int rank = 0, last = 0;
  std::vector<char> sent = std::vector<char>(kMostBytes), received = std::vector<char>(kMostBytes);
  horingWindow_t window = nullptr;

  bool sends() const { return rank == 0; }
  bool receives() const { return rank == last; }
  void put(size_t bytes) const {
    expect(horingPutSignal(sent.data(), bytes, horingInt8, last, window, 0, 0, 0, 0, comm, nullptr));
  }
  void signal(int peer) const { expect(horingSignal(peer, 0, 0, 0, comm, nullptr)); }
  void await(int peer) const {
    horingWaitSignalDesc_t wait = {1, peer, 0, 0};
    expect(horingWaitSignal(1, &wait, comm, nullptr));
  }
  void meet() const {
    int one = 1;
    expect(horingAllReduce(&one, &one, 1, horingInt32, horingSum, comm, nullptr));
  }
};

void putAndAnswer(const Ends& ends, size_t bytes) {
  if (ends.sends()) {
    ends.put(bytes);
    ends.await(ends.last);
  } else {
    ends.await(0);
    ends.signal(0);
  }
}

void sendAndAnswer(Ends& ends, size_t bytes) {
  char answer = 0;
  if (ends.sends()) {
    expect(horingSend(ends.sent.data(), bytes, horingInt8, ends.last, ends.comm, nullptr));
    expect(horingRecv(&answer, 1, horingInt8, ends.last, ends.comm, nullptr));
  } else {
    expect(horingRecv(ends.received.data(), bytes, horingInt8, 0, ends.comm, nullptr));
    expect(horingSend(&answer, 1, horingInt8, 0, ends.comm, nullptr));
  }
}

double microseconds(int calls, const std::function<void()>& call) {
  const double begun_us = nowUs();
  for (int i = 0; i < calls; ++i) call();
  return (nowUs() - begun_us) / calls;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(Ends& ends, size_t bytes) {
  const int calls = std::clamp(static_cast<int>((16 << 20) / bytes), 1, 1000);
  std::vector<double> puts, messages;
  for (int turn = 0; turn <= kTurns; ++turn) {
    ends.meet();
    const bool takes_part = ends.sends() || ends.receives();
    if (!takes_part) continue;
    puts.push_back(microseconds(calls, [&] { putAndAnswer(ends, bytes); }));
    messages.push_back(microseconds(calls, [&] { sendAndAnswer(ends, bytes); }));
    if (turn == 0) puts.clear(), messages.clear();  // it connects
  }
  if (!ends.sends()) return;
  const double put_us = median(puts), message_us = median(messages);
  std::printf("%10zu  %12.1f  %12.1f  %6.2f  %8.0f\n", bytes, put_us, message_us, put_us / message_us,
              static_cast<double>(bytes) / put_us);
  std::fflush(stdout);
}

void putToOneThatIsAway(const Ends& ends, size_t bytes) {
  ends.meet();
  if (ends.receives()) {
    ::usleep(kAwayUs);
    ends.await(0);
  } else if (ends.sends()) {
    ::usleep(kAwayUs / 100);  // the other one has left the call
    const double took_us = microseconds(1, [&] { ends.put(bytes); });
    std::printf("%10zu  %12.1f  %8.0f MB/s\n", bytes, took_us, static_cast<double>(bytes) / took_us);
  }
}

bool isRight(const Ends& ends) {
  return !ends.receives() ||
         std::all_of(ends.received.begin(), ends.received.end(), [](char value) { return value == 7; });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const bool asked = argc == 2 && std::strcmp(argv[1], "--help") == 0;
    std::fprintf(asked ? stdout : stderr, "%s", kUsage);
    return asked ? 0 : 2;
  }
  Ends ends;
  int ranks = 0;
  expect(horingCommInitFromEnv(&ends.comm));
  expect(horingCommUserRank(ends.comm, &ends.rank));
  expect(horingCommCount(ends.comm, &ranks));
  if (ranks < 2) {
    std::fprintf(stderr, "one_sided_bench: one rank has no peer to put to: start two or more\n");
    return 2;
  }
  ends.last = ranks - 1;
  std::fill(ends.sent.begin(), ends.sent.end(), ends.sends() ? char{7} : char{0});
  expect(horingCommWindowRegister(ends.comm, ends.received.data(), kMostBytes, &ends.window, 0));
  if (ends.sends()) std::printf("     bytes        put us    message us   ratio  put MB/s\n");
  for (size_t bytes = 8; bytes <= kMostBytes; bytes *= 8) compare(ends, bytes);
  if (ends.sends()) std::printf("\nto a rank that is in no call: bytes, us until the buffer may be reused\n");
  putToOneThatIsAway(ends, kMostBytes);
  const bool is_right = isRight(ends);
  if (!is_right) std::fprintf(stderr, "one_sided_bench: wrong data\n");
  expect(horingCommDestroy(ends.comm));
  return is_right ? 0 : 1;
}
