#pragma once
// Adam (Kingma, Ba 2015) on the part of the state that a rank owns.
#include "horing/paro.h"

namespace horing::paro {

struct Adam {
  double learning_rate = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 1e-8;
};

// Update number `step`, counted from 1, of a shard with two values of state, momentum and variance. Gradients of any wire type;
// the arithmetic is that of the state's type, float32 or float64.
void updateWithAdam(const Adam& adam, int step, const horingParoShard_t& shard);

}  // namespace horing::paro
