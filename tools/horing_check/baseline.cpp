#include "horing_check/baseline.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace horing::check {

namespace {

constexpr double kLeastLoss = 0.1;
constexpr double kScattersOfLoss = 3;

std::map<std::string, double> mediansOf(const std::vector<std::string>& names, const Figures& figures,
                                        int Sample::*node) {
  std::map<std::string, std::vector<double>> rates;
  for (const Sample& sample : figures.samples)
    if (sample.bytes_per_s > 0)
      rates[names.at(static_cast<size_t>(sample.*node))].push_back(sample.bytes_per_s);
  std::map<std::string, double> medians;
  for (auto& [name, of_node] : rates) {
    const auto middle = of_node.begin() + std::ssize(of_node) / 2;
    std::nth_element(of_node.begin(), middle, of_node.end());
    medians[name] = *middle;
  }
  return medians;
}

}  // namespace

Baseline baselineOf(const std::vector<std::string>& names, const Figures& figures, const Verdict& verdict) {
  return {verdict.bytes_per_s, mediansOf(names, figures, &Sample::from),
          mediansOf(names, figures, &Sample::to)};
}

Result<Baseline> readBaseline(const std::string& path) {
  try {
    const auto json = nlohmann::json::parse(std::ifstream(path));
    const auto names = json.at("nodes").get<std::vector<std::string>>();
    Figures figures;
    for (const auto& each : json.at("samples")) {
      Sample sample;
      for (auto [key, node] : {std::pair{"from", &sample.from}, {"to", &sample.to}}) {
        *node = each.at(key).get<int>();
        if (*node < 0 || *node >= std::ssize(names)) throw std::out_of_range(key);
      }
      sample.bytes_per_s = each.at("bytes_per_s").get<double>();
      figures.samples.push_back(sample);
    }
    Verdict verdict;
    verdict.bytes_per_s = json.at("bytes_per_s").get<double>();
    return baselineOf(names, figures, verdict);
  } catch (const std::exception& error) {
    return makeStatus(Code::kInvalidArgument, "%s is not what --json writes: %s", path.c_str(), error.what());
  }
}

std::vector<Loss> lossesSince(const Baseline& before, const Baseline& now, double scatter) {
  std::vector<Loss> losses;
  if (before.bytes_per_s <= 0 || now.bytes_per_s <= 0) return losses;
  const double least = 1 - std::max(kLeastLoss, kScattersOfLoss * scatter);
  const double of_all = now.bytes_per_s / before.bytes_per_s;
  if (of_all < least) losses.push_back({.share = of_all});
  for (const auto& [part, then, today] : {std::tuple(Part::kSends, &before.sends, &now.sends),
                                          std::tuple(Part::kReceives, &before.receives, &now.receives)})
    for (const auto& [name, rate] : *today) {
      const auto same = then->find(name);
      if (same == then->end()) continue;
      const double share = rate / same->second;
      if (share < least * std::min(of_all, 1.0)) losses.push_back({name, part, share});
    }
  return losses;
}

std::vector<Loss> lossesWithin(const std::vector<std::string>& names, const Figures& figures) {
  int rounds = 0;
  for (const Sample& sample : figures.samples) rounds = std::max(rounds, sample.round + 1);
  Figures first{figures.nodes, {}, figures.shares}, last = first;
  for (const Sample& sample : figures.samples) {
    if (4 * (sample.round + 1) <= rounds) first.samples.push_back(sample);
    if (4 * sample.round >= 3 * rounds) last.samples.push_back(sample);
  }
  const Verdict before = diagnose(first), now = diagnose(last);
  return lossesSince(baselineOf(names, first, before), baselineOf(names, last, now),
                     std::max(before.scatter, now.scatter));
}

}  // namespace horing::check
