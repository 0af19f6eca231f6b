// A rank that causes a failure on request, and prints one line for each event.
//
//   rank_program WORD ...      under horing-run; a word is NAME=VALUE for all ranks, or RANK:NAME=VALUE for one
//
// NAME in capitals is put into the environment before anything else, "locale" is the program's. The others are the fields of Script below.
// Events are lines of standard output: "event NAME rank R code C at_ms T took_ms T cpu_ms T text TEXT".
#include <fcntl.h>
#include <horing/horing.h>
#include <locale.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "trap.h"

namespace {

constexpr int kWrongData = 100;  // a code besides those of horingResult_t

struct Script {
  std::string collective =
      "all_reduce";             // all_gather, reduce_scatter, broadcast, exchange (with the neighbours)
  std::string end = "destroy";  // abort, leave (the process, without a word)
  long type = horingInt32;
  long op = horingSum;
  long root = 0;
  long count = 1 << 18;
  long rounds = 1;
  long absent = 0;        // 1: ends before it joins
  std::string join_when;  // a file: joins once it exists
  std::string
      rights;  // nobody, undumpable: the change of its process before its collective number rights_round
  // A file: begins its collective number late_round once it exists, after it has made one of that name and ".RANK".
  std::string call_when;
  long join_late_ms = 0;  // sleeps before it joins
  long call_late_ms = 0;  // sleeps before its collective number late_round
  long late_round = 0;
  long each_late_ms = 0;  // sleeps before each of its collectives
  long rights_round = 0;
  long signal = SIGKILL;      // the signal that it sends to itself
  long signal_after_ms = -1;  // after its first collective began; -1: never
  long trapped = 0;  // 1: in its first collective, in the middle of its own part of its input; lent=1
  long lent = 0;     // 1: from and into memory of horingMemAlloc()
  long in_place = 0;
  std::string
      keep_until;  // a file: when a collective has failed, writes over its output, and looks at it once it exists
};

int rank_here = 0;

double nowMs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void sleepMs(long ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

void beLate(long ms, const std::string& file) {
  sleepMs(ms);
  if (!file.empty())
    ::close(::open((file + "." + std::to_string(rank_here)).c_str(), O_CREAT | O_CLOEXEC, 0600));
  while (!file.empty() && access(file.c_str(), F_OK) != 0) sleepMs(5);
}

struct Clocks {
  double wall_ms = nowMs(CLOCK_MONOTONIC);  // the same for all processes of the machine
  double cpu_ms = nowMs(CLOCK_PROCESS_CPUTIME_ID);
};

// One write, so that lines of several ranks do not mix.
void say(const char* event, int code, const Clocks& began, std::string text = "") {
  std::replace(text.begin(), text.end(), '\n', ' ');
  const Clocks now;
  char line[2048];
  const int length = std::snprintf(
      line, sizeof line, "event %s rank %d code %d at_ms %.0f took_ms %.0f cpu_ms %.0f text %s\n", event,
      rank_here, code, now.wall_ms, now.wall_ms - began.wall_ms, now.cpu_ms - began.cpu_ms, text.c_str());
  [[maybe_unused]] const ssize_t written =
      write(STDOUT_FILENO, line, std::min(static_cast<size_t>(length), sizeof line - 1));
}

bool setField(Script& script, const std::string& name, const std::string& value) {
  if (std::isupper(static_cast<unsigned char>(name[0]))) return setenv(name.c_str(), value.c_str(), 1) == 0;
  if (name == "collective") return script.collective = value, true;
  if (name == "end") return script.end = value, true;
  if (name == "join_when") return script.join_when = value, true;
  if (name == "call_when") return script.call_when = value, true;
  if (name == "locale") return setlocale(LC_ALL, value.c_str()) != nullptr;
  if (name == "rights") return script.rights = value, true;
  if (name == "keep_until") return script.keep_until = value, true;
  const std::pair<const char*, long*> numbers[] = {{"type", &script.type},
                                                   {"op", &script.op},
                                                   {"root", &script.root},
                                                   {"count", &script.count},
                                                   {"rounds", &script.rounds},
                                                   {"absent", &script.absent},
                                                   {"join_late_ms", &script.join_late_ms},
                                                   {"call_late_ms", &script.call_late_ms},
                                                   {"late_round", &script.late_round},
                                                   {"each_late_ms", &script.each_late_ms},
                                                   {"rights_round", &script.rights_round},
                                                   {"signal", &script.signal},
                                                   {"signal_after_ms", &script.signal_after_ms},
                                                   {"trapped", &script.trapped},
                                                   {"lent", &script.lent},
                                                   {"in_place", &script.in_place}};
  for (const auto& [known, number] : numbers)
    if (name == known) return *number = std::atol(value.c_str()), true;
  return false;
}

// Words without a rank are for all, whatever their place.
bool readScript(Script& script, int argc, char** argv) {
  const std::string mine = std::to_string(rank_here) + ":";
  for (const bool own : {false, true}) {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      const bool for_one = std::isdigit(static_cast<unsigned char>(word[0])) != 0;
      if (for_one != own || (own && !word.starts_with(mine))) continue;
      const size_t start = own ? mine.size() : 0;
      const size_t equals = word.find('=');
      if (equals == std::string::npos || equals == start ||
          !setField(script, word.substr(start, equals - start), word.substr(equals + 1))) {
        std::fprintf(stderr, "rank_program: unknown word %s\n", word.c_str());
        return false;
      }
    }
  }
  return true;
}

// Element i of rank r, and what the sum over all ranks must be.
int32_t element(long i, int rank) {
  return static_cast<int32_t>((i + rank) % 1000);
}
bool rightSums(const std::vector<int32_t>& sums, int ranks) {
  for (size_t i = 0; i < sums.size(); ++i) {
    int32_t expected = 0;
    for (int rank = 0; rank < ranks; ++rank) expected += element(static_cast<long>(i), rank);
    if (sums[i] != expected) return false;
  }
  return true;
}

class Rank {
 public:
  Rank(const Script& script, horingComm_t comm) : script_(script), comm_(comm) {
    horingCommCount(comm_, &ranks_);
    const auto elements = static_cast<size_t>(script.count);
    const size_t bytes = elements * 8 * (script.collective == "all_reduce" ? 1 : static_cast<size_t>(ranks_));
    in_ = memoryOf(bytes / sizeof(int32_t));
    for (size_t i = 0; i < in_.size(); ++i) in_[i] = element(static_cast<long>(i), rank_here);
    out_ = script.in_place ? in_ : memoryOf(in_.size());
  }

  void run() {
    for (long round = 0; round < script_.rounds; ++round) {
      if (round == script_.rights_round && !script_.rights.empty() && !changeRights())
        return say("rights", errno, {});
      sleepMs(script_.each_late_ms);
      if (round == script_.late_round) beLate(script_.call_late_ms, script_.call_when);
      if (round == 0 && script_.signal_after_ms >= 0) std::thread([this] { signalMyself(); }).detach();
      if (round == 0 && script_.trapped &&
          !trap::set(middleOfOwnPart(), static_cast<int>(script_.signal), [this] { saySignal(); }))
        return say("trap", errno, {});
      const Clocks began;
      int code = call();
      const std::string text = code == horingSuccess ? "" : horingGetLastError(comm_);
      if (code == horingSuccess && checked() && !right()) code = kWrongData;
      if (code != horingSuccess || round + 1 == script_.rounds) say("collective", code, began, text);
      if (code != horingSuccess) return script_.keep_until.empty() ? void() : keep();
    }
  }

 private:
  bool checked() const {
    return script_.collective == "all_reduce" && script_.type == horingInt32 && script_.op == horingSum;
  }
  bool right() const {
    return rightSums({out_.begin(), out_.begin() + static_cast<ptrdiff_t>(script_.count)}, ranks_);
  }

  // In the middle of memory that is filled with something else, whose pages it does not share.
  std::span<int32_t> memoryOf(size_t elements) {
    const size_t all = 3 * elements;
    int32_t* begin = nullptr;
    if (script_.lent) {
      void* memory = nullptr;
      if (horingMemAlloc(&memory, all * sizeof(int32_t)) != horingSuccess) std::abort();
      begin = static_cast<int32_t*>(memory);
    } else {
      begin = ordinary_.emplace_back(all).data();
    }
    around_.emplace_back(begin, all);
    std::fill_n(begin, all, kAround);
    return {begin + elements, elements};
  }
  const int32_t* middleOfOwnPart() const {
    const auto part = static_cast<size_t>(script_.count / ranks_);
    return &in_[static_cast<size_t>(rank_here) * part + part / 2];
  }

  void keep() {
    const Clocks began;
    std::fill(out_.begin(), out_.end(), kOwn);
    say("wrote", 0, began);
    beLate(0, script_.keep_until);
    const auto all = [](std::span<const int32_t> part, int32_t value) {
      return std::all_of(part.begin(), part.end(), [value](int32_t each) { return each == value; });
    };
    bool kept = all(out_, kOwn);
    for (const auto& memory : around_)
      kept &= all(memory.first(memory.size() / 3), kAround) && all(memory.last(memory.size() / 3), kAround);
    say("kept", kept ? 0 : kWrongData, began);
  }

  bool changeRights() const {
    constexpr uid_t kNobody = 65534;
    if (script_.rights == "undumpable") return prctl(PR_SET_DUMPABLE, 0) == 0;
    return script_.rights == "nobody" && setgid(kNobody) == 0 && setuid(kNobody) == 0;
  }

  horingResult_t call() {
    const auto count = static_cast<size_t>(script_.count);
    const auto type = static_cast<horingDataType_t>(script_.type);
    const auto op = static_cast<horingRedOp_t>(script_.op);
    if (script_.collective == "all_gather")
      return horingAllGather(in_.data(), out_.data(), count, type, comm_, nullptr);
    if (script_.collective == "broadcast")
      return horingBroadcast(in_.data(), out_.data(), count, type, static_cast<int>(script_.root), comm_,
                             nullptr);
    if (script_.collective == "reduce_scatter")
      return horingReduceScatter(in_.data(), out_.data(), count, type, op, comm_, nullptr);
    if (script_.collective == "exchange") return exchange(count, type);
    return horingAllReduce(in_.data(), out_.data(), count, type, op, comm_, nullptr);
  }

  horingResult_t exchange(size_t count, horingDataType_t type) {
    horingGroupStart();
    horingSend(in_.data(), count, type, (rank_here + 1) % ranks_, comm_, nullptr);
    horingRecv(out_.data(), count, type, (rank_here + ranks_ - 1) % ranks_, comm_, nullptr);
    return horingGroupEnd();
  }

  void signalMyself() const {
    sleepMs(script_.signal_after_ms);
    saySignal();
    kill(getpid(), static_cast<int>(script_.signal));
  }

  void saySignal() const {
    say("signal", static_cast<int>(script_.signal), Clocks(), std::to_string(getpid()));
  }

  static constexpr int32_t kAround = 0x77777777, kOwn = 0x5a5a5a5a;
  const Script& script_;
  horingComm_t comm_;
  int ranks_ = 0;
  std::list<std::vector<int32_t>> ordinary_;
  std::vector<std::span<int32_t>> around_;  // all memory
  std::span<int32_t> in_, out_;
};

void end(const Script& script, horingComm_t comm) {
  if (script.end == "leave") return;
  const Clocks began;
  const horingResult_t ended = script.end == "abort" ? horingCommAbort(comm) : horingCommDestroy(comm);
  say(script.end.c_str(), ended, began, ended == horingSuccess ? "" : horingGetLastError(nullptr));
}

}  // namespace

int main(int argc, char** argv) {
  const char* rank = std::getenv("RANK");
  rank_here = rank ? std::atoi(rank) : 0;
  Script script;
  if (!readScript(script, argc, argv)) return 2;
  if (script.absent) return 0;
  beLate(script.join_late_ms, script.join_when);
  const Clocks began;
  horingComm_t comm = nullptr;
  const horingResult_t joined = horingCommInitFromEnv(&comm);
  say("join", joined, began, joined == horingSuccess ? "" : horingGetLastError(nullptr));
  if (joined != horingSuccess) return 1;
  Rank(script, comm).run();
  end(script, comm);
  say("end", 0, began);
  return 0;
}
