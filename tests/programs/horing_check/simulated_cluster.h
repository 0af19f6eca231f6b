#pragma once
// Clusters with planted faults and noise, measured and diagnosed as horing-check does it.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "../../sanitizer.h"
#include "horing_check/diagnosis.h"
#include "horing_check/rounds.h"

namespace horing::check {

// Each figure is off by `spread`, and one of a hundred `outliers` is much too low, as when something else had the processor.
struct Noise {
  double spread = 0.02;
  double outliers = 0.01;
};

class SimulatedCluster {
 public:
  SimulatedCluster(int nodes, unsigned seed, Noise noise = {})
      : sends_(static_cast<size_t>(nodes), 1.0),
        receives_(sends_),
        later_(sends_.size(), 0),
        noise_(noise),
        random_(seed),
        losses_(seed),
        at_once_(seed),
        pausing_(seed) {}

  // Of the fastest node's rate; the check knows of it, or not.
  void haveKinds(const std::vector<double>& shares, bool is_expected) {
    sends_ = receives_ = shares;
    if (is_expected) shares_ = shares;
  }
  void slowSender(int node, double factor) { sends_[static_cast<size_t>(node)] = factor; }
  void slowReceiver(int node, double factor) { receives_[static_cast<size_t>(node)] = factor; }
  void slowPath(int from, int to, double factor) { paths_[{from, to}] = factor; }
  void delayNode(int node, double seconds) { later_[static_cast<size_t>(node)] = seconds; }
  // What these nodes exchange with others shares a link that carries as much as `capacity` of a node's adapter, in each direction; or what
  // they send, and what they receive.
  void shareUplink(const std::set<int>& nodes, double capacity) { shareUplink(nodes, capacity, capacity); }
  void shareUplink(const std::set<int>& nodes, double sends, double receives) {
    uplinks_.push_back({nodes, sends, receives});
  }
  // In this share of the rounds something slows all nodes, such as other programs on a machine of emulated nodes: to a rate between these.
  void pause(double rounds, double least = 0.6, double most = 0.6) {
    pauses_ = rounds;
    to_ = std::uniform_real_distribution<>(least, most);
  }
  // As pause(), in bursts of 3 to 15 rounds that each are slow by about as much, as other programs are. They slow each pair of a round with
  // this probability.
  void pauseInBursts(double rounds, double least = 0.1, double most = 0.7, double pairs = 1) {
    pause(rounds, least, most);
    are_bursts_ = true;
    pauses_pairs_ = pairs;
  }
  // Of what crosses an uplink at once: the deviation of the logarithms of their rates. Precondition: > 0.
  void shareUnequally(double deviation) { unequal_ = std::normal_distribution<>(0, deviation); }
  void corrupt(int from, int to) { corrupt_.insert({from, to}); }
  // Shares of the segments.
  void loseSent(int node, double share) { loses_sent_[node] = share; }
  void loseReceived(int node, double share) { loses_received_[node] = share; }
  void losePath(int from, int to, double share) { loses_path_[{from, to}] = share; }
  // In this share of the samples a queue overflows, and some tens of segments are lost at once.
  void overflow(double samples) { overflows_ = samples; }

  // All rounds, and those that confirm.
  Verdict check(bool all_pairs = false) {
    Rounds rounds(static_cast<int>(sends_.size()), all_pairs, random_(), shares_);
    Verdict verdict;
    for (int done = 0; const auto partner = rounds.after(done, verdict); ++done) {
      measure(*partner, done);
      if (done + 1 >= rounds.planned()) verdict = diagnose(figures());
    }
    return verdict;
  }

  Figures figures() const { return {static_cast<int>(sends_.size()), samples_, shares_}; }

  // Of a pair: one direction after the other, the lower node first, then both at once; all pairs of a round at the same time.
  void measure(const Matching& partner, int round) {
    const double paused = 1e9 * (are_bursts_ ? shareInBursts() : shareInRound());
    std::map<std::pair<int, int>, double> usuals, at_once;
    for (size_t to = 0; to < partner.size(); ++to) {
      if (partner[to] < 0) continue;
      const auto from = static_cast<size_t>(partner[to]);
      Sample sample{partner[to], static_cast<int>(to)};
      sample.round = round;
      const auto [pair, is_new] = at_once.emplace(std::minmax(sample.from, sample.to), 0);
      double& usual = usuals[pair->first];
      if (is_new) usual = hitsPair() ? paused : 1e9;
      sample.bytes_per_s = usual * factorOf(partner, sample.from, sample.to, false) *
                           std::exp(spread_(random_) * noise_.spread) * (hits() ? share_(random_) : 1);
      if (is_new)
        pair->second = usual * atOnce() *
                       std::min(factorOf(partner, sample.from, sample.to, true),
                                factorOf(partner, sample.to, sample.from, true));
      sample.at_once_bytes_per_s = pair->second;
      sample.latency_s = (20e-6 + later_[from] + later_[to]) *
                         std::exp(spread_(random_) * 5 * noise_.spread) * (hits() ? 1 / share_(random_) : 1);
      sample.wrong_bytes = corrupt_.contains({sample.from, sample.to}) ? 7 : 0;
      sample.segments = kSegments;
      sample.segments_resent = resent(sample.from, sample.to);
      samples_.push_back(sample);
    }
  }

 private:
  // Of a sample: a quarter of a second at 200 Mbit/s, packets of 9000 bytes.
  static constexpr int kSegments = 700;

  bool hitsPair() {
    return pauses_pairs_ >= 1 || std::uniform_real_distribution<>(0, 1)(pausing_) < pauses_pairs_;
  }
  // What pauses leave of the rates.
  double shareInRound() {
    const bool pauses = std::uniform_real_distribution<>(0, 1)(pausing_) < pauses_;
    return pauses ? to_(pausing_) : 1;
  }
  double shareInBursts() {
    constexpr double kUsualRounds = 9;  // of a burst
    const double begins = pauses_ / (kUsualRounds * (1 - pauses_));
    if (burst_rounds_ == 0 && std::uniform_real_distribution<>(0, 1)(pausing_) < begins) {
      burst_rounds_ = std::uniform_int_distribution<>(3, 15)(pausing_);
      burst_share_ = to_(pausing_);
    }
    if (burst_rounds_ == 0) return 1;
    --burst_rounds_;
    return burst_share_ * std::exp(std::normal_distribution<>(0, 0.1)(pausing_));
  }
  double factorOf(const Matching& partner, int from, int to, bool both_send) {
    const auto path = paths_.find({from, to});
    return std::min({sends_[static_cast<size_t>(from)], receives_[static_cast<size_t>(to)],
                     path == paths_.end() ? 1.0 : path->second,
                     shareOfUplinks(partner, from, to, both_send)});
  }
  double atOnce() {
    const bool hit = std::uniform_real_distribution<>(0, 1)(at_once_) < noise_.outliers;
    return std::exp(std::normal_distribution<>(0, noise_.spread)(at_once_)) * (hit ? share_(at_once_) : 1);
  }
  // All that crosses the uplink in the same direction at the same time shares it, unequally.
  double shareOfUplinks(const Matching& partner, int from, int to, bool both_send) {
    double share = 1;
    for (const Uplinks& uplink : uplinks_) {
      if (uplink.nodes.contains(from) == uplink.nodes.contains(to)) continue;
      const bool sent = uplink.nodes.contains(from);
      int crossing = 0;
      for (const int node : uplink.nodes) {
        const int other = partner[static_cast<size_t>(node)];
        if (other < 0 || uplink.nodes.contains(other)) continue;
        crossing += both_send || (node < other) == (sent ? from < to : to < from) ? 1 : 0;
      }
      const double equal = (sent ? uplink.sends : uplink.receives) / std::max(crossing, 1);
      if (equal < 1) share = std::min(share, equal * (crossing > 1 ? std::exp(unequal_(at_once_)) : 1));
    }
    return share;
  }
  uint64_t resent(int from, int to) {
    const auto of = [](const auto& losses, const auto& key) {
      const auto found = losses.find(key);
      return found == losses.end() ? 0.0 : found->second;
    };
    const double share =
        of(loses_sent_, from) + of(loses_received_, to) + of(loses_path_, std::pair(from, to));
    const bool overflows = std::uniform_real_distribution<>(0, 1)(losses_) < overflows_;
    return std::poisson_distribution<uint64_t>(share * kSegments + 1e-9)(losses_) + (overflows ? 40 : 0);
  }
  bool hits() { return std::uniform_real_distribution<>(0, 1)(random_) < noise_.outliers; }

  std::vector<double> sends_, receives_, later_, shares_;
  std::map<std::pair<int, int>, double> paths_;
  std::set<std::pair<int, int>> corrupt_;
  std::map<int, double> loses_sent_, loses_received_;
  std::map<std::pair<int, int>, double> loses_path_;
  double overflows_ = 0, pauses_ = 0, pauses_pairs_ = 1;
  std::uniform_real_distribution<> to_;
  bool are_bursts_ = false;
  int burst_rounds_ = 0;  // that are left of it
  double burst_share_ = 1;
  struct Uplinks {
    std::set<int> nodes;
    double sends, receives;
  };
  std::vector<Uplinks> uplinks_;
  Noise noise_;
  std::mt19937 random_;
  std::mt19937 losses_, at_once_,
      pausing_;  // generators of their own, so that losses and pauses change no other figure
  std::normal_distribution<> spread_{0, 1}, unequal_{0, 0.17};  // as in emulated nodes
  std::uniform_real_distribution<> share_{0.3, 0.9};
  std::vector<Sample> samples_;
};

// "3 sends, 5 receives, 1>2": the confirmed faults of one quantity.
inline std::string blamed(const Verdict& verdict, Quantity quantity = Quantity::kRate) {
  std::string text;
  for (const Finding& finding : verdict.findings) {
    if (finding.quantity != quantity || !finding.confirmed) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(finding.node);
    text += finding.part == Part::kPath    ? ">" + std::to_string(finding.to)
            : finding.part == Part::kSends ? " sends"
                                           : " receives";
  }
  return text;
}

// "4 5 6 send, 4 5 6 receive": all uplinks, also doubtful ones.
inline std::string uplinksOf(const Verdict& verdict) {
  std::string text;
  for (const Uplink& uplink : verdict.uplinks) {
    text += text.empty() ? "" : ", ";
    for (const int node : uplink.nodes) text += std::to_string(node) + " ";
    text += uplink.part == Part::kSends ? "send" : "receive";
  }
  return text;
}

}  // namespace horing::check
