#include "horing_check/loss_diagnosis.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace horing::check {

namespace {

// The longest segment of TCP. Fewer segments than the bytes need: another transport moved them, such as RDMA.
constexpr uint64_t kMostSegmentBytes = 65536;
// Shares of resent segments below it are usual for TCP.
constexpr double kLeastShare = 2e-4;
constexpr double kTimesUsual = 4;
// The least share on a side or path that is slow.
constexpr double kShareIfSlow = 0.01;
// Lossy samples beyond those expected of noise, for a suspicion and for blame.
constexpr double kSuspected = 1.5, kBlamed = 4;
constexpr double kDeviations = 4;
// Where many samples are lossy, a side is also blamed if so many are by chance on one of all sides with the probability above, each with the
// share that three of four sides do not exceed.
constexpr double kUsualNoise = 0.75;
// The samples of a path before it is blamed, the part of them that has to be lossy, and the accepted probability that noise does that to
// any path.
constexpr int kLossySamplesOfPath = 4;
constexpr double kPathShare = 0.75, kLossByAccident = 0.001;
// One sample alone raises suspicion of a path only if it has lost so much.
constexpr double kShareOfOneSample = 0.002;

using LossyPath = std::pair<int, int>;  // from, to

struct LossTally {
  int samples = 0, lossy = 0;
  double sent = 0, resent = 0;
  std::set<LossyPath> lossy_paths;

  void add(const Sample& sample, bool is_lossy) {
    ++samples;
    lossy += is_lossy;
    sent += static_cast<double>(sample.segments);
    resent += static_cast<double>(sample.segments_resent);
    if (is_lossy) lossy_paths.insert({sample.from, sample.to});
  }
  double share() const { return resent / sent; }
  double lossyPart() const { return static_cast<double>(lossy) / samples; }
};

// That at least `lossy` of so many samples are, each with this probability.
double chanceOf(int lossy, int samples, double probability) {
  double chance = 0;
  if (probability <= 0) return 0;
  for (int i = lossy; i <= samples; ++i)
    chance +=
        std::exp(std::lgamma(samples + 1.0) - std::lgamma(i + 1.0) - std::lgamma(samples - i + 1.0) +
                 i * std::log(probability) + (samples - i) * std::log1p(-std::min(probability, 1 - 1e-9)));
  return chance;
}

class Losses {
 public:
  explicit Losses(const Figures& figures) : nodes_(static_cast<size_t>(figures.nodes)) {
    for (const Sample& sample : figures.samples)
      if (sample.segments > 0 && sample.segments >= sample.bytes / kMostSegmentBytes)
        samples_.push_back(&sample);
    std::vector<double> shares;
    for (const Sample* sample : samples_) shares.push_back(shareOf(*sample));
    limit_ = std::max(kLeastShare, kTimesUsual * quantile(std::move(shares), 0.5));
  }

  // The worst side first; its samples explain no more. Then the paths.
  void find(std::vector<Finding>& findings) {
    while (const std::optional<Finding> finding = worstSide()) {
      report(*finding, findings);
      std::erase_if(samples_, [&](const Sample* sample) {
        return (finding->part == Part::kSends ? sample->from : sample->to) == finding->node;
      });
    }
    findPaths(findings);
  }

 private:
  static void report(const Finding& loss, std::vector<Finding>& findings) {
    if (loss.factor >= kShareIfSlow || !isSlow(loss, findings)) findings.push_back(loss);
  }
  static bool isSlow(const Finding& loss, const std::vector<Finding>& findings) {
    return std::any_of(findings.begin(), findings.end(), [&](const Finding& other) {
      return other.quantity == Quantity::kRate && other.part == loss.part && other.node == loss.node &&
             other.to == loss.to;
    });
  }
  static double shareOf(const Sample& sample) {
    return static_cast<double>(sample.segments_resent) / static_cast<double>(sample.segments);
  }
  bool isLossy(const Sample& sample) const { return shareOf(sample) > limit_; }
  static double quantile(std::vector<double> values, double part) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(static_cast<double>(values.size() - 1) * part)];
  }

  // Noise is what the better half of the sides shows: a lossy receiver makes samples of all senders lossy.
  std::optional<Finding> worstSide() const {
    std::vector<LossTally> sides(2 * nodes_);  // first all that send
    for (const Sample* sample : samples_) {
      sides[static_cast<size_t>(sample->from)].add(*sample, isLossy(*sample));
      sides[nodes_ + static_cast<size_t>(sample->to)].add(*sample, isLossy(*sample));
    }
    std::vector<double> parts;
    for (const LossTally& tally : sides)
      if (tally.samples > 0) parts.push_back(tally.lossyPart());
    if (parts.empty()) return std::nullopt;
    std::sort(parts.begin(), parts.end());
    const std::vector<double> all_parts = parts;
    parts.resize((parts.size() + 1) / 2);
    const double noise = std::accumulate(parts.begin(), parts.end(), 0.0) / static_cast<double>(parts.size());
    // Among many sides, noise alone makes some of them worse.
    const double blamed = kBlamed + std::log10(std::max(1.0, static_cast<double>(all_parts.size()) / 16));
    std::optional<Finding> found;
    double most = 0;
    const double usual = quantile(all_parts, kUsualNoise), count = static_cast<double>(all_parts.size());
    for (size_t side = 0; side < sides.size(); ++side) {
      const LossTally& tally = sides[side];
      const double expected = noise * tally.samples;
      const double excess = tally.lossy - expected - kDeviations * std::sqrt(expected);
      // With one lossy partner only it may be the path.
      if (excess <= kSuspected || tally.lossy_paths.size() < 2 || tally.lossyPart() <= most) continue;
      most = tally.lossyPart();
      found =
          Finding{Quantity::kLoss,
                  side < nodes_ ? Part::kSends : Part::kReceives,
                  static_cast<int>(side % nodes_),
                  -1,
                  tally.share(),
                  static_cast<int>(tally.lossy_paths.size()),
                  excess > blamed || (tally.lossy - expected > blamed &&
                                      count * chanceOf(tally.lossy, tally.samples, usual) < kLossByAccident)};
    }
    return found;
  }

  void findPaths(std::vector<Finding>& findings) const {
    std::map<LossyPath, LossTally> paths;
    int lossy = 0;
    for (const Sample* sample : samples_) {
      paths[{sample->from, sample->to}].add(*sample, isLossy(*sample));
      lossy += isLossy(*sample);
    }
    for (const auto& [path, tally] : paths) {
      const bool is_lossy = tally.lossy > 1 || tally.share() >= kShareOfOneSample;
      if (!is_lossy || tally.lossyPart() < kPathShare || tally.share() <= kTimesUsual * limit_) continue;
      const double noise = static_cast<double>(lossy - tally.lossy) / static_cast<double>(samples_.size());
      const double accident = static_cast<double>(paths.size()) * std::pow(noise, tally.lossy);
      const bool is_sure = tally.samples >= kLossySamplesOfPath && accident <= kLossByAccident;
      report({Quantity::kLoss, Part::kPath, path.first, path.second, tally.share(), 1, is_sure}, findings);
    }
  }

  size_t nodes_;
  std::vector<const Sample*> samples_;
  double limit_ = 0;
};

}  // namespace

void findLosses(const Figures& figures, std::vector<Finding>& findings) {
  Losses(figures).find(findings);
}

}  // namespace horing::check
