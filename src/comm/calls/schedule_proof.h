#pragma once
// The proofs of schedules before they run.
#include <span>

#include "schedule/plan_parameters.h"
#include "schedule/verify.h"

namespace horing {

// Above this many ranks a proof costs more than init should; tests prove those shapes instead.
inline constexpr int kMostRanksProven = 64;

// Proves the schedules of all ranks, by position: values, data races, and freedom from deadlock.
inline Status proveSchedules(std::span<const Schedule> all, const PlanParameters& parameters) {
  HORING_TRY(verifyValues(all, InPlace::kNo));
  HORING_TRY(verifyValues(all, InPlace::kYes));
  return verifyProgress(all, parameters);
}

}  // namespace horing
