#include "selection/group_shares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

namespace horing {

namespace {

// Integers, so that all ranks compute the same parts, whatever processors they have.
constexpr int64_t kFullRate = 1000;
constexpr double kEqualRates = 1.2;

// In 1 / kFullRate of the largest.
std::vector<int64_t> countedRates(std::span<const double> rates) {
  const double most = *std::max_element(rates.begin(), rates.end());
  std::vector<int64_t> counted(rates.size());
  std::transform(rates.begin(), rates.end(), counted.begin(),
                 [&](double rate) { return std::max<int64_t>(std::llround(rate * kFullRate / most), 1); });
  return counted;
}

}  // namespace

std::vector<double> withoutNoise(std::span<const double> rates) {
  std::vector<double> certain(rates.begin(), rates.end());
  const double most = rates.empty() ? 0 : *std::max_element(rates.begin(), rates.end());
  for (double& rate : certain)
    if (rate * kEqualRates >= most) rate = most;
  return certain;
}

bool differ(std::span<const double> rates) {
  return std::adjacent_find(rates.begin(), rates.end(), std::not_equal_to()) != rates.end();
}

std::vector<int32_t> groupsBySpeed(std::span<const double> rates) {
  if (!differ(rates)) return {};
  std::vector<int32_t> groups(rates.size());
  std::iota(groups.begin(), groups.end(), 0);
  std::stable_sort(groups.begin(), groups.end(), [&](int32_t one, int32_t other) {
    return rates[static_cast<size_t>(one)] > rates[static_cast<size_t>(other)];
  });
  return groups;
}

bool haveChanged(std::span<const double> followed, std::span<const double> measured) {
  if (followed.empty()) return false;
  const double before = *std::max_element(followed.begin(), followed.end());
  const double now = *std::max_element(measured.begin(), measured.end());
  return !std::equal(followed.begin(), followed.end(), measured.begin(), [&](double one, double other) {
    const double old_part = one / before, new_part = other / now;
    return std::max(old_part, new_part) <= kEqualRates * std::min(old_part, new_part);
  });
}

Shares sharesByRate(std::span<const double> rates) {
  if (rates.size() <= 2) return {};
  const std::vector<int64_t> counted = countedRates(rates);
  std::vector<int64_t> ascending = counted;
  std::sort(ascending.begin(), ascending.end());
  if (ascending.front() == kFullRate) return {};
  const auto others = static_cast<int64_t>(rates.size()) - 2;
  // Groups leave from the slowest on, until the slowest that is left has a share. T = D (others + left) / sum.
  auto left = static_cast<int64_t>(rates.size());
  int64_t sum = std::accumulate(ascending.begin(), ascending.end(), int64_t{0});
  for (const int64_t slowest : ascending) {
    if ((others + left) * slowest >= sum) break;
    sum -= slowest;
    --left;
  }
  std::vector<int32_t> parts;
  int64_t shares = 0;  // of the groups so far: each part is rounded to where the next one begins
  for (const int64_t rate : counted) {
    const int64_t before = shares * Shares::kWhole / (sum * others);
    shares += std::max<int64_t>((others + left) * rate - sum, 0);
    parts.push_back(static_cast<int32_t>(shares * Shares::kWhole / (sum * others) - before));
  }
  return Shares(std::move(parts));
}

}  // namespace horing
