#include "comm/tuning/rate_follower.h"

#include <algorithm>
#include <utility>

#include "comm/tuning/calibration.h"
#include "selection/group_shares.h"

namespace horing {

RateFollower::RateFollower(Communicator& communicator, double took_ns, Measure measure)
    : communicator_(communicator),
      measure_(std::move(measure)),
      watch_(took_ns, differ(communicator.choices().rates)) {}

Status RateFollower::ended(size_t bytes, int64_t took_ns) {
  if (!watch_.ended(bytes, took_ns)) return {};
  HORING_ASSIGN(const std::vector<double> figures, numbersOfAll(communicator_, watch_.nsPerByte()));
  const bool measures = watch_.look(*std::min_element(figures.begin(), figures.end()));
  return measures ? measureAgain() : Status();
}

Status RateFollower::measureAgain() {
  HORING_ASSIGN(const GroupRates measured, measure_(communicator_));
  Choices choices = communicator_.choices();
  const bool changed = haveChanged(choices.rates, measured.by_group);
  if (changed) choices.rates = withoutNoise(measured.by_group);
  const bool unequal = differ(choices.rates);
  if (changed) {
    communicator_.choose(std::move(choices));
    if (const Membership& membership = communicator_.membership(); membership.rank() == 0)
      membership.log().info(
          "tuning",
          "the speed of groups' links has changed, and large all-reduces follow it (%s) from "
          "the next one on; by group:%s",
          unequal ? kUnequalAlgorithm : "as if all were equal", ratesText(measured.by_group).c_str());
  }
  watch_.measured(measured.took_ns, changed, unequal);
  return {};
}

}  // namespace horing
