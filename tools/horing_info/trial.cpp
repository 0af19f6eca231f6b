// Finds out whether a transport is usable by using it: the ranks of a small communicator are threads of this process, but do not take
// advantage of that.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>

#include "horing/horing.h"
#include "horing_info/facts.h"

namespace horing::info {

namespace {

constexpr const char* kTransports[] = {"shm", "verbs", "socket"};
constexpr const char* kTrialInitMs = "20000";
constexpr size_t kTrialCount = 4096;

// The text begins with the name of the code.
Status failed(horingResult_t result, horingComm_t comm) {
  return Status(static_cast<Code>(result), horingGetLastError(comm));
}

// Sets an environment variable, and restores it in the destructor.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~ScopedVariable() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// Every rank sends a part to every other.
horingResult_t exchangeWithAll(const std::vector<float>& input, std::vector<float>& output,
                               horingComm_t comm) {
  horingResult_t result = horingGroupStart();
  for (size_t at = 0; at < input.size() && result == horingSuccess; at += kTrialCount) {
    const int peer = static_cast<int>(at / kTrialCount);
    result = horingSend(input.data() + at, kTrialCount, horingFloat32, peer, comm, nullptr);
    if (result == horingSuccess)
      result = horingRecv(output.data() + at, kTrialCount, horingFloat32, peer, comm, nullptr);
  }
  const horingResult_t ended = horingGroupEnd();
  return result == horingSuccess ? ended : result;
}

Status useCommunicator(horingComm_t comm, int ranks, uint64_t& bytes) {
  std::vector<float> whole(kTrialCount * static_cast<size_t>(ranks), 1.0f);
  std::vector<float> part(kTrialCount, 1.0f);
  horingResult_t result =
      horingAllReduce(whole.data(), whole.data(), whole.size(), horingFloat32, horingSum, comm, nullptr);
  if (result == horingSuccess)
    result =
        horingReduceScatter(whole.data(), part.data(), part.size(), horingFloat32, horingMax, comm, nullptr);
  if (result == horingSuccess)
    result = horingAllGather(part.data(), whole.data(), part.size(), horingFloat32, comm, nullptr);
  // Sends and receives use separate links.
  std::vector<float> received(whole.size());
  if (result == horingSuccess) result = exchangeWithAll(whole, received, comm);
  if (result == horingSuccess) result = horingCommMemoryBytes(comm, &bytes);
  if (result != horingSuccess) return failed(result, comm);
  const auto wanted = static_cast<float>(ranks);
  const auto is_right = [wanted](float value) { return value == wanted; };
  const bool right = std::all_of(whole.begin(), whole.end(), is_right) &&
                     std::all_of(received.begin(), received.end(), is_right);
  return right ? Status() : Status(Code::kInternalError, "a collective gave a wrong result");
}

struct RankOutcome {
  Status status;
  uint64_t bytes = 0;
};

void runRank(const horingUniqueId& id, int rank, int ranks, RankOutcome& outcome) {
  horingComm_t comm = nullptr;
  const horingResult_t result = horingCommInitRank(&comm, ranks, id, rank);
  if (result != horingSuccess) {
    outcome.status = failed(result, nullptr);
    return;
  }
  outcome.status = useCommunicator(comm, ranks, outcome.bytes);
  (void)(outcome.status.ok() ? horingCommDestroy(comm) : horingCommAbort(comm));
}

TransportTrial tryTransport(const char* name, int ranks) {
  TransportTrial trial;
  trial.name = name;
  const ScopedVariable only("HORING_TRANSPORTS", name);
  const ScopedVariable soon("HORING_INIT_TIMEOUT_MS", kTrialInitMs);
  horingUniqueId id;
  const horingResult_t result = horingGetUniqueId(&id);
  if (result != horingSuccess) {
    trial.status = failed(result, nullptr);
    return trial;
  }
  std::vector<RankOutcome> outcomes(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back(runRank, std::cref(id), rank, ranks, std::ref(outcomes[static_cast<size_t>(rank)]));
  for (std::thread& thread : threads) thread.join();
  for (const RankOutcome& outcome : outcomes) {
    if (trial.status.ok()) trial.status = outcome.status;
    trial.bytes_per_rank = std::max(trial.bytes_per_rank, outcome.bytes);
  }
  return trial;
}

}  // namespace

std::vector<TransportTrial> tryTransports(int ranks) {
  std::vector<TransportTrial> trials;
  for (const char* name : kTransports) trials.push_back(tryTransport(name, ranks));
  return trials;
}

}  // namespace horing::info
