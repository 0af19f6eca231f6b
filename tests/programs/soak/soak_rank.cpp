// One rank of a soak job: makes a communicator, runs random collectives, checks every result, ends the communicator, and
// again until the time is up. All ranks draw the same random numbers. Under horing-run:
//
//   horing_soak_rank SEED SECONDS [WORD...]
//     victim=RANK:MS    this rank kills itself after so long
//     odd=RANK:MODE     this rank computes with another floating-point environment: upward, downward, toward_zero, flush_to_zero
//     output=FD         where it writes, instead of standard output
//
// The locale is that of the environment.
//
// Says "soak rank R ended rounds N collectives N bytes N fds A B rss_kib A B error CODE TEXT"; A after the first rounds, B at
// the end. Exit code 0: all results were right, and errors came only where a rank was killed.
#include <horing/horing.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

constexpr int kWarmUpRounds = 3;
constexpr size_t kMostElements = size_t{1} << 20;  // of a rank's buffer

struct Job {
  uint64_t seed = 1;
  double seconds = 1;
  int victim = -1;
  long kill_after_ms = 0;
  int odd_rank = -1;
  std::string odd_mode;
  std::FILE* output = stdout;
};

// What the caller's code computes with, as far as programs change it.
unsigned floatEnvironment() {
#if defined(__x86_64__)
  constexpr unsigned kSticky = 0x3f;
  return _mm_getcsr() & ~kSticky;
#else
  return static_cast<unsigned>(std::fegetround());
#endif
}

void setFloatEnvironment(const std::string& mode) {
  if (mode == "upward") std::fesetround(FE_UPWARD);
  if (mode == "downward") std::fesetround(FE_DOWNWARD);
  if (mode == "toward_zero") std::fesetround(FE_TOWARDZERO);
#if defined(__x86_64__)
  constexpr unsigned kFlushToZero = 0x8040;  // FTZ and DAZ
  if (mode == "flush_to_zero") _mm_setcsr(_mm_getcsr() | kFlushToZero);
#endif
}

struct Use {
  long fds = 0;
  long rss_kib = 0;
};

Use measureUse() {
  // Freed memory that malloc may keep: up to 60 MiB of such buffers, seen in jobs without leaks.
  ::malloc_trim(0);
  Use use;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++use.fds;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) use.rss_kib = std::atol(line.c_str() + 6);
  return use;
}

class SoakRank {
 public:
  explicit SoakRank(const Job& job) : job_(job), dice_(job.seed) {
    if (const char* rank = std::getenv("RANK")) rank_ = std::atoi(rank);
  }

  // The exit code.
  int run() {
    const auto begin = std::chrono::steady_clock::now();
    Use warm;
    int rounds = 0;
    for (bool over = false; !over && error_ == horingSuccess && !wrong_; ++rounds) {
      const bool time_is_up =
          std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(job_.seconds);
      over = round(time_is_up);
      if (rounds + 1 == kWarmUpRounds) warm = measureUse();
    }
    const Use last = measureUse();
    if (rounds < kWarmUpRounds) warm = last;
    std::fprintf(
        job_.output,
        "soak rank %d ended rounds %d collectives %ld bytes %lld fds %ld %ld rss_kib %ld %ld error %d %s\n",
        rank_, rounds, collectives_, bytes_, warm.fds, last.fds, warm.rss_kib, last.rss_kib, error_,
        text_.c_str());
    if (wrong_) std::fprintf(job_.output, "soak rank %d WRONG RESULT: %s\n", rank_, text_.c_str());
    std::fflush(job_.output);
    return !wrong_ && (error_ == horingSuccess || job_.victim >= 0) ? 0 : 1;
  }

 private:
  // One communicator, from its creation to its end. True when all ranks agree to stop.
  bool round(bool time_is_up) {
    horingComm_t comm = nullptr;
    if (!good(horingCommInitFromEnv(&comm), nullptr)) return true;
    horingCommCount(comm, &ranks_);
    horingCommUserRank(comm, &rank_);
    if (job_.victim == rank_ && !doomed_) std::thread([this] { killMyself(); }).detach();
    doomed_ = true;
    if (job_.odd_rank == rank_) setFloatEnvironment(job_.odd_mode);
    float_environment_ = floatEnvironment();
    int32_t stop = time_is_up, any = 0;
    const bool agreed = good(horingAllReduce(&stop, &any, 1, horingInt32, horingMax, comm, nullptr), comm);
    const auto collectives = static_cast<int>(dice_() % 40);
    for (int i = 0; agreed && i < collectives; ++i)
      if (!collective(comm) || !check()) break;
    const bool failed = error_ != horingSuccess || wrong_;
    const horingResult_t ended = failed ? horingCommAbort(comm) : horingCommDestroy(comm);
    if (!failed) good(ended, nullptr);
    return failed || any != 0;
  }

  bool good(horingResult_t result, horingComm_t comm) {
    if (result == horingSuccess) return true;
    if (error_ == horingSuccess) text_ = horingGetLastError(comm);
    std::replace(text_.begin(), text_.end(), '\n', ' ');
    if (error_ == horingSuccess) error_ = result;
    return false;
  }

  void killMyself() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(job_.kill_after_ms));
    kill(getpid(), SIGKILL);
  }

  // Mostly small, at times as large as allowed.
  size_t drawCount() {
    const auto ranks = static_cast<size_t>(ranks_);
    const size_t most = std::min(kMostElements / ranks, size_t{1} << (dice_() % 21));
    return dice_() % (most + 1);
  }

  uint32_t noise(int rank, size_t i) const {
    return static_cast<uint32_t>((i + static_cast<size_t>(rank) * 7919 + salt_) * 2654435761u) >> 7;
  }

  // The bits of an element. Floats check the floating-point environment of the fold, and their sum does not depend on an order:
  // subnormal numbers, whose bits add up as integers do, and 2^24 + 1, which is halfway between two floats.
  uint32_t element(int rank, size_t i) const {
    if (!floats_) return noise(rank, i);
    if (!rounds(i)) return noise(rank, i) & 0xf'ffff;
    const auto turn = static_cast<int>((i + salt_) % static_cast<size_t>(ranks_));
    const float value = rank == turn ? 0x1p24f : rank == (turn + 1) % ranks_ ? 1.0f : 0.0f;
    return std::bit_cast<uint32_t>(i % 2 ? -value : value);
  }

  bool rounds(size_t i) const { return op_ == horingSum && i % 3 == 0; }

  bool collective(horingComm_t comm) {
    kind_ = static_cast<int>(dice_() % 3);
    count_ = drawCount();
    op_ = dice_() % 2 ? horingSum : horingMax;
    salt_ = dice_();
    floats_ = dice_() % 2 != 0;
    const auto ranks = static_cast<size_t>(ranks_);
    const size_t in_count = kind_ == 1 ? count_ * ranks : count_,
                 out_count = kind_ == 2 ? count_ * ranks : count_;
    in_.resize(in_count);
    for (size_t i = 0; i < in_count; ++i) in_[i] = element(rank_, i);
    out_.assign(out_count, 0);
    ++collectives_;
    bytes_ += static_cast<long long>(std::max(in_count, out_count) * sizeof(uint32_t));
    const horingDataType_t type = floats_ ? horingFloat32 : horingUint32;
    if (kind_ == 0)
      return good(horingAllReduce(in_.data(), out_.data(), count_, type, op_, comm, nullptr), comm);
    if (kind_ == 1)
      return good(horingReduceScatter(in_.data(), out_.data(), count_, type, op_, comm, nullptr), comm);
    return good(horingAllGather(in_.data(), out_.data(), count_, type, comm, nullptr), comm);
  }

  uint32_t expected(size_t i) const {
    if (kind_ == 2) return element(static_cast<int>(i / count_), i % count_);
    const size_t at = kind_ == 1 ? static_cast<size_t>(rank_) * count_ + i : i;
    if (floats_ && rounds(at)) return std::bit_cast<uint32_t>(at % 2 ? -0x1p24f : 0x1p24f);
    uint32_t value = element(0, at);
    for (int rank = 1; rank < ranks_; ++rank) {
      const uint32_t other = element(rank, at);
      value = op_ == horingSum ? value + other : std::max(value, other);
    }
    return value;
  }

  bool check() {
    if (const unsigned now = floatEnvironment(); now != float_environment_)
      return isWrong("collective %ld left the floating-point environment %x, was %x", collectives_, now,
                     float_environment_);
    for (size_t i = 0; i < out_.size(); ++i)
      if (out_[i] != expected(i))
        return isWrong("collective %ld of kind %d, %zu %s, element %zu: %u instead of %u", collectives_,
                       kind_, count_, floats_ ? "floats" : "integers", i, out_[i], expected(i));
    return true;
  }

  [[gnu::format(printf, 2, 3)]] bool isWrong(const char* format, ...) {
    char text[200];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    text_ = text;
    wrong_ = true;
    return false;
  }

  Job job_;
  std::mt19937_64 dice_;
  int rank_ = -1, ranks_ = 1;
  bool doomed_ = false, wrong_ = false;
  horingResult_t error_ = horingSuccess;
  std::string text_;
  long collectives_ = 0;
  long long bytes_ = 0;
  int kind_ = 0;
  bool floats_ = false;
  unsigned float_environment_ = 0;
  size_t count_ = 0;
  horingRedOp_t op_ = horingSum;
  uint64_t salt_ = 0;
  std::vector<uint32_t> in_, out_;
};

bool readWord(const std::string& word, Job& job) {
  const size_t colon = word.find(':');
  const auto after = [&](const char* name) { return word.c_str() + std::strlen(name); };
  const auto behind_colon = colon == std::string::npos ? "" : word.c_str() + colon + 1;
  if (word.starts_with("victim=")) {
    job.victim = std::atoi(after("victim="));
    job.kill_after_ms = std::atol(behind_colon);
  } else if (word.starts_with("odd=")) {
    job.odd_rank = std::atoi(after("odd="));
    job.odd_mode = behind_colon;
  } else if (word.starts_with("output=")) {
    job.output = fdopen(std::atoi(after("output=")), "w");
  } else {
    return false;
  }
  return job.output != nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  Job job;
  bool is_usable = argc >= 3;
  for (int i = 3; i < argc; ++i) is_usable = readWord(argv[i], job) && is_usable;
  if (!is_usable) {
    std::fprintf(stderr, "usage: horing_soak_rank SEED SECONDS [WORD...], under horing-run\n");
    return 2;
  }
  job.seed = std::strtoull(argv[1], nullptr, 10);
  job.seconds = std::atof(argv[2]);
  std::setlocale(LC_ALL, "");
  return SoakRank(job).run();
}
