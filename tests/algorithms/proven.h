#pragma once
// Expects both proofs of the verifier to succeed for the schedules of all positions.
#include <gtest/gtest.h>

#include <vector>

#include "schedule/verify.h"

namespace horing {

inline void expectAllProven(const std::vector<Schedule>& all) {
  for (InPlace in_place : {InPlace::kNo, InPlace::kYes}) {
    const Status values = verifyValues(all, in_place);
    ASSERT_TRUE(values.ok()) << values.message();
  }
  for (int32_t window : {1, 3}) {
    const PlanParameters plan{3 * window, {window}, 1, slotsNeeded(window, 1), scratchSlicesNeeded(window)};
    const Status progress = verifyProgress(all, plan);
    ASSERT_TRUE(progress.ok()) << progress.message();
  }
}

}  // namespace horing
