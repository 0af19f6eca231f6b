#include "peers/turns.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "perf/collectives.h"
#include "perf/data_check.h"

namespace horing::bench {

namespace {

constexpr size_t kPage = 4096;

struct Turn {
  const perf::CollectiveTest* test = nullptr;  // in the table of the *_perf programs
  Collective collective = Collective::kAllReduce;
  uint64_t bytes = 0;
  int warmups = 0;
  int iterations = 1;
  bool checked = false;
};

struct Outcome {
  int64_t elapsed_ns = 0;
  uint64_t wrong = 0;
};

Result<Fd> connectTo(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return makeStatus(Code::kInvalidArgument, "the path of a socket is at most %zu bytes: %s",
                      sizeof address.sun_path - 1, path.c_str());
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return systemError(errno, "connecting to the conductor at %s", path.c_str());
  return fd;
}

// Lines to and from the conductor.
class Wire {
 public:
  explicit Wire(Fd fd) : fd_(std::move(fd)) {}

  // Nothing at the end of the connection.
  std::optional<std::string> receive() {
    while (true) {
      const size_t end = pending_.find('\n');
      if (end != std::string::npos) {
        std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        return line;
      }
      char bytes[256];
      const ssize_t got = read(fd_.get(), bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return std::nullopt;
      pending_.append(bytes, static_cast<size_t>(got));
    }
  }

  // A conductor that is gone shows at the next receive().
  void send(const std::string& line) {
    const std::string text = line + "\n";
    (void)::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }

 private:
  Fd fd_;
  std::string pending_;
};

// The thread that makes the calls; the libraries' threads stay unbound.
Status bind(const std::string& line) {
  int core = 0;
  if (std::sscanf(line.c_str(), "core %d", &core) != 1)
    return makeStatus(Code::kInvalidArgument, "no core: '%s'", line.c_str());
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &cores);
  if (sched_setaffinity(0, sizeof cores, &cores) != 0) return systemError(errno, "binding to core %d", core);
  return {};
}

Result<Turn> parseTurn(const std::string& line) {
  char name[32];
  char check[8];
  unsigned long long bytes = 0;
  Turn turn;
  if (std::sscanf(line.c_str(), "%31s %llu %d %d %7s", name, &bytes, &turn.warmups, &turn.iterations,
                  check) != 5)
    return makeStatus(Code::kInvalidArgument, "no turn: '%s'", line.c_str());
  turn.bytes = bytes;
  turn.checked = std::strcmp(check, "check") == 0;
  for (const perf::CollectiveTest& test : perf::collectiveTests())
    if (std::strcmp(name, test.name) == 0) turn.test = &test;
  for (int i = 0; turn.test && i < kCollectives; ++i) {
    turn.collective = static_cast<Collective>(i);
    if (std::strcmp(name, collectiveName(turn.collective)) == 0) return turn;
  }
  return makeStatus(Code::kInvalidArgument, "unknown collective '%s'", name);
}

// A buffer for calls of many sizes.
struct Room {
  Memory memory;
  size_t elements = 0;

  std::byte* bytes() const { return reinterpret_cast<std::byte*>(memory.get()); }
  Status grow(Library& library, size_t wanted) {
    if (elements >= wanted) return {};
    memory.reset();
    HORING_ASSIGN(memory, library.allocate(wanted * sizeof(float)));
    elements = wanted;
    return {};
  }
};

class Player {
 public:
  explicit Player(Library& library) : library_(library) {}

  Result<Outcome> play(const Turn& turn) {
    const perf::Layout layout =
        turn.test->layout({DataType::kFloat32, library_.size(), library_.rank(), turn.bytes});
    HORING_TRY(send_.grow(library_, layout.send.count));
    HORING_TRY(receive_.grow(library_, layout.receiveCount()));
    const Call call = {turn.collective, layout.argument, send_.memory.get(), receive_.memory.get()};
    Outcome outcome;
    if (turn.checked) {
      HORING_ASSIGN(outcome.wrong, check(call, *turn.test, layout));
    }
    HORING_TRY(barrier());
    for (int i = 0; i < turn.warmups; ++i) HORING_TRY(run(call));
    HORING_TRY(barrier());
    const int64_t start_ns = clock_.nowNs();
    for (int i = 0; i < turn.iterations; ++i) HORING_TRY(run(call));
    outcome.elapsed_ns = clock_.nowNs() - start_ns;
    return outcome;
  }

 private:
  Status run(const Call& call) { return library_.run(call).status(); }

  Status barrier() { return run({Collective::kAllReduce, 1, &barrier_in_, &barrier_out_}); }

  Result<uint64_t> check(const Call& call, const perf::CollectiveTest& test, const perf::Layout& layout) {
    perf::CheckedOperation data;
    data.ranks = library_.size();
    data.seed = 1;
    if (test.reduces) data.op = RedOp::kSum;
    const size_t received_bytes = layout.receiveCount() * sizeof(float);
    HORING_ASSIGN(const Memory memory, library_.Library::allocate(received_bytes));
    auto* const expected = reinterpret_cast<std::byte*>(memory.get());
    perf::fillInput(data, library_.rank(), layout.send.first, send_.bytes(), layout.send.count);
    size_t at = 0;
    for (const perf::Stretch& stretch : layout.receive) {
      perf::fillExpected(data, stretch.first, expected + at * sizeof(float), stretch.count);
      at += stretch.count;
    }
    std::memset(receive_.bytes(), 0xff, received_bytes);
    HORING_ASSIGN(const float* result, library_.run(call));
    const uint64_t wrong = perf::countWrong(data, reinterpret_cast<const std::byte*>(result), expected, at);
    // Sums of zeros stay zeros for a library that works in place, however often it is asked.
    std::memset(send_.bytes(), 0, layout.send.count * sizeof(float));
    return wrong;
  }

  Library& library_;
  SteadyClock clock_;
  Room send_;
  Room receive_;
  float barrier_in_ = 0;
  float barrier_out_ = 0;
};

std::string answer(Player& player, const std::string& line) {
  if (line.starts_with("core ")) {
    const Status bound = bind(line);
    return bound.ok() ? "ok" : "failed " + bound.message();
  }
  const Result<Turn> turn = parseTurn(line);
  if (!turn.ok()) return "failed " + turn.status().message();
  const Result<Outcome> outcome = player.play(turn.value());
  if (!outcome.ok()) return "failed " + outcome.status().message();
  return formatString("ok %lld %llu", static_cast<long long>(outcome.value().elapsed_ns),
                      static_cast<unsigned long long>(outcome.value().wrong));
}

}  // namespace

Result<Memory> Library::allocate(size_t bytes) {
  const size_t pages = (bytes + kPage - 1) / kPage * kPage;
  Memory memory(static_cast<float*>(std::aligned_alloc(kPage, pages)), std::free);
  if (!memory) return makeStatus(Code::kSystemError, "no memory for a buffer of %zu bytes", bytes);
  std::memset(memory.get(), 0, pages);
  return memory;
}

int takeTurns(Library& library, int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s SOCKET (started by bench/peers/sweep.py)\n", argv[0]);
    return 2;
  }
  Result<Fd> connected = connectTo(argv[1]);
  if (!connected.ok()) {
    std::fprintf(stderr, "%s: %s\n", argv[0], connected.status().message().c_str());
    return 3;
  }
  Wire wire(connected.take());
  Player player(library);
  wire.send(formatString("%d %d", library.rank(), library.size()));
  while (const std::optional<std::string> line = wire.receive()) wire.send(answer(player, *line));
  return 0;
}

}  // namespace horing::bench
