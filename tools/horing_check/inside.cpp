#include "horing_check/inside.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <span>

#include "base/first_line.h"
#include "engine/host/fold.h"
#include "horing_check/pieces.h"

namespace horing::check {

// What a node tells the others.
struct InsideMeter::Told {
  InsideRates rates;
  uint64_t machine = 0;
};

namespace {

using InsideClock = std::chrono::steady_clock;

constexpr int kLeastInsideTurns = 2, kMostInsideTurns = 4;
// A turn of each quantity. Pieces are short, so that most of them run without another process in between.
constexpr double kTurnSeconds = 0.05;
constexpr size_t kCopiedBytes = 32 << 20, kCopiedPiece = 256 << 10, kFoldedPiece = 64 << 10;
// With fewer nodes of a kind it is not known how much they differ.
constexpr size_t kLeastNodes = 3;
constexpr double kInsideDeviations = 6, kDeviationsOfMad = 1.4826;

struct Judged {
  Quantity quantity;
  double InsideRates::*rate;
  double least;  // the logarithm of a loss that counts
};
// Ranks that share memory take turns on the same cores where there are more of them than cores, so that their figures differ more.
constexpr Judged kJudged[] = {{Quantity::kCopy, &InsideRates::copy, 0.22},
                              {Quantity::kFold, &InsideRates::fold, 0.22},
                              {Quantity::kShared, &InsideRates::shared, 0.69},
                              {Quantity::kRunning, &InsideRates::running, 0.22}};

class Buffers {
 public:
  Buffers() : source_(kCopiedBytes, std::byte{1}), copy_(kCopiedBytes, std::byte{2}) {}

  InsideRates measure() {
    const InsideClock::time_point begin = InsideClock::now();
    const double cpu_begin_s = cpuSeconds();
    InsideRates rates = measureRates();
    const double took_s = std::chrono::duration<double>(InsideClock::now() - begin).count();
    rates.running = std::min((cpuSeconds() - cpu_begin_s) / took_s, 1.0);
    return rates;
  }

 private:
  // Of this thread.
  static double cpuSeconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }

  InsideRates measureRates() {
    InsideRates rates;
    rates.copy = rateOfPieces(kCopiedPiece, kTurnSeconds, [&](size_t turn) {
      const size_t at = turn * kCopiedPiece % kCopiedBytes;
      std::byte* const to = &copy_[at];
      streamBytes(&source_[at], std::span(&to, 1), kCopiedPiece);
      streamFence();
    });
    const std::byte* const sources[] = {copy_.data(), source_.data()};
    std::byte* const to = copy_.data();
    FoldArguments fold;
    fold.sources = sources;
    fold.source_count = 2;
    fold.destinations = &to;
    fold.destination_count = 1;
    fold.count = kFoldedPiece / sizeof(float);
    const FoldFunction sum = foldFunction(DataType::kFloat32, RedOp::kSum, detectSimd());
    // Numbers that stay normal: others are slower to add.
    std::vector<float> ones(fold.count, 1);
    std::memcpy(source_.data(), ones.data(), kFoldedPiece);
    std::memcpy(copy_.data(), ones.data(), kFoldedPiece);
    rates.fold = rateOfPieces(kFoldedPiece, kTurnSeconds, [&](size_t) { sum(fold); });
    return rates;
  }

  std::vector<std::byte> source_, copy_;
};

// Nodes with the same one are containers or emulated nodes of one machine.
uint64_t machineOfNode() {
  return std::hash<std::string>()(firstLine("/proc/sys/kernel/random/boot_id"));
}

double middleOf(std::vector<double> values) {
  // Of two middle values the better one, as in the diagnosis of rates.
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Adds the slow ones among these nodes, for all of which the quantity was measured.
void compareKind(const std::vector<InsideRates>& rates, const std::vector<int>& nodes, const Judged& judged,
                 bool confirmed, std::vector<Finding>& findings) {
  if (nodes.size() < kLeastNodes) return;
  std::vector<double> values, off;
  for (const int node : nodes) values.push_back(std::log(rates[static_cast<size_t>(node)].*judged.rate));
  const double base = middleOf(values);
  for (const double value : values) off.push_back(std::abs(value - base));
  const double threshold = std::max(judged.least, kInsideDeviations * kDeviationsOfMad * middleOf(off));
  for (size_t i = 0; i < nodes.size(); ++i)
    if (base - values[i] > threshold)
      findings.push_back(
          {judged.quantity, Part::kInside, nodes[i], -1, std::exp(values[i] - base), 0, confirmed});
}

}  // namespace

Status InsideMeter::measure(Nodes& nodes, const std::vector<std::string>& kinds) {
  kinds_ = kinds;
  rates_.resize(kinds.size());
  Buffers buffers;
  for (int turn = 0; turn < kLeastInsideTurns || (turn < kMostInsideTurns && !findings().empty()); ++turn) {
    HORING_TRY(nodes.gather(&turn, sizeof turn).status());  // all begin together
    Told mine{buffers.measure(), machineOfNode()};
    mine.rates.shared = nodes.sharedBytesPerS();
    HORING_ASSIGN(const std::vector<char> all, nodes.gather(&mine, sizeof mine));
    std::vector<Told> told(rates_.size());
    std::memcpy(told.data(), all.data(), all.size());
    keepBest(told);
  }
  ++times_;
  return {};
}

void InsideMeter::keepBest(const std::vector<Told>& told) {
  for (size_t node = 0; node < rates_.size(); ++node)
    for (const Judged& judged : kJudged) {
      double& best = rates_[node].*judged.rate;
      const double rate = told[node].rates.*judged.rate;
      if (std::isfinite(rate)) best = std::max(best, rate);
    }
  std::map<uint64_t, int> nodes_of;
  for (const Told& one : told) ++nodes_of[one.machine];
  for (size_t node = 0; node < rates_.size(); ++node)
    if (nodes_of[told[node].machine] > 1) rates_[node].running = 0;
}

std::vector<Finding> InsideMeter::findings() const {
  return compareInside(rates_, kinds_, times_ > 1);
}

std::vector<Finding> compareInside(const std::vector<InsideRates>& rates,
                                   const std::vector<std::string>& kinds, bool confirmed) {
  std::vector<Finding> findings;
  for (const Judged& judged : kJudged) {
    std::map<std::string, std::vector<int>> alike;
    for (size_t node = 0; node < rates.size(); ++node)
      if (rates[node].*judged.rate > 0) alike[kinds[node]].push_back(static_cast<int>(node));
    for (const auto& [kind, nodes] : alike) compareKind(rates, nodes, judged, confirmed, findings);
  }
  return findings;
}

double medianInside(const std::vector<InsideRates>& rates, double InsideRates::*rate) {
  std::vector<double> values;
  for (const InsideRates& one : rates)
    if (one.*rate > 0) values.push_back(one.*rate);
  return values.empty() ? 0 : middleOf(std::move(values));
}

}  // namespace horing::check
