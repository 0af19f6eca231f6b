// One rank of a soak job: makes a communicator, runs random collectives, checks every result, ends the communicator, and
// again until the time is up. All ranks throw the same dice. Under horing-run:
//
//   horing_soak_rank SEED SECONDS [VICTIM AFTER_MS]     rank VICTIM kills itself after so long
//
// Says "soak rank R ended rounds N collectives N bytes N fds A B rss_kib A B error CODE TEXT"; A after the first rounds, B at
// the end. Exit code 0: all results were right, and errors came only where a rank was killed.
#include <horing/horing.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kWarmUpRounds = 3;
constexpr size_t kMostElements = size_t{1} << 20;  // of a rank's buffer

struct Job {
  uint64_t seed = 1;
  double seconds = 1;
  int victim = -1;
  long kill_after_ms = 0;
};

struct Use {
  long fds = 0;
  long rss_kib = 0;
};

Use measureUse() {
  // What was freed, malloc may keep: up to 60 MiB of such buffers, seen in jobs that leak nothing.
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
  explicit SoakRank(const Job& job) : job_(job), dice_(job.seed) {}

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
    std::printf(
        "soak rank %d ended rounds %d collectives %ld bytes %lld fds %ld %ld rss_kib %ld %ld error %d %s\n",
        rank_, rounds, collectives_, bytes_, warm.fds, last.fds, warm.rss_kib, last.rss_kib, error_,
        text_.c_str());
    if (wrong_) std::printf("soak rank %d WRONG RESULT: %s\n", rank_, text_.c_str());
    return !wrong_ && (error_ == horingSuccess || job_.victim >= 0) ? 0 : 1;
  }

 private:
  // A life of a communicator. True when all ranks agree to stop.
  bool round(bool time_is_up) {
    horingComm_t comm = nullptr;
    if (!good(horingCommInitFromEnv(&comm), nullptr)) return true;
    horingCommCount(comm, &ranks_);
    horingCommUserRank(comm, &rank_);
    if (job_.victim == rank_ && !doomed_) std::thread([this] { killMyself(); }).detach();
    doomed_ = true;
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

  uint32_t element(int rank, size_t i) const {
    return static_cast<uint32_t>((i + static_cast<size_t>(rank) * 7919 + salt_) * 2654435761u) >> 7;
  }

  bool collective(horingComm_t comm) {
    kind_ = static_cast<int>(dice_() % 3);
    count_ = drawCount();
    op_ = dice_() % 2 ? horingSum : horingMax;
    salt_ = dice_();
    const auto ranks = static_cast<size_t>(ranks_);
    const size_t in_count = kind_ == 1 ? count_ * ranks : count_,
                 out_count = kind_ == 2 ? count_ * ranks : count_;
    in_.resize(in_count);
    for (size_t i = 0; i < in_count; ++i) in_[i] = element(rank_, i);
    out_.assign(out_count, 0);
    ++collectives_;
    bytes_ += static_cast<long long>(std::max(in_count, out_count) * sizeof(uint32_t));
    if (kind_ == 0)
      return good(horingAllReduce(in_.data(), out_.data(), count_, horingUint32, op_, comm, nullptr), comm);
    if (kind_ == 1)
      return good(horingReduceScatter(in_.data(), out_.data(), count_, horingUint32, op_, comm, nullptr),
                  comm);
    return good(horingAllGather(in_.data(), out_.data(), count_, horingUint32, comm, nullptr), comm);
  }

  uint32_t expected(size_t i) const {
    if (kind_ == 2) return element(static_cast<int>(i / count_), i % count_);
    const size_t at = kind_ == 1 ? static_cast<size_t>(rank_) * count_ + i : i;
    uint32_t value = element(0, at);
    for (int rank = 1; rank < ranks_; ++rank) {
      const uint32_t other = element(rank, at);
      value = op_ == horingSum ? value + other : std::max(value, other);
    }
    return value;
  }

  bool check() {
    for (size_t i = 0; i < out_.size(); ++i) {
      if (out_[i] == expected(i)) continue;
      char text[160];
      std::snprintf(text, sizeof text,
                    "collective %d of kind %d, %zu elements, element %zu: %u instead of %u",
                    static_cast<int>(collectives_), kind_, count_, i, out_[i], expected(i));
      text_ = text;
      wrong_ = true;
      return false;
    }
    return true;
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
  size_t count_ = 0;
  horingRedOp_t op_ = horingSum;
  uint64_t salt_ = 0;
  std::vector<uint32_t> in_, out_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 5) {
    std::fprintf(stderr, "usage: horing_soak_rank SEED SECONDS [VICTIM AFTER_MS], under horing-run\n");
    return 2;
  }
  Job job;
  job.seed = std::strtoull(argv[1], nullptr, 10);
  job.seconds = std::atof(argv[2]);
  if (argc == 5) job.victim = std::atoi(argv[3]), job.kill_after_ms = std::atol(argv[4]);
  return SoakRank(job).run();
}
