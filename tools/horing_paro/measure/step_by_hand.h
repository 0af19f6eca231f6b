#pragma once
// An optimizer step without PaRO's client, as one would write it by hand for one strategy: the same collectives, one after the other,
// on gradients that are cleared before each micro-step and added up after it. Nothing is computed.
#include <vector>

#include "base/status.h"
#include "horing/paro.h"
#include "horing_paro/measure/scopes.h"

namespace horing::paro {

// One thread. Neither copied nor moved; the scopes must outlive it.
class StepByHand {
 public:
  // `estimate` has the strategy's collectives; the vector has `bytes` of `type`: bfloat16, float32 or float64.
  StepByHand(Scopes& scopes, const horingParoEstimate_t& estimate, size_t bytes, horingDataType_t type)
      : scopes_(scopes),
        estimate_(estimate),
        type_(type),
        gathered_(bytes),
        gradient_(bytes),
        sum_(bytes),
        shard_(bytes) {}
  StepByHand(const StepByHand&) = delete;
  StepByHand& operator=(const StepByHand&) = delete;

  Status run(int micro_steps);

 private:
  Status microStep(bool is_first);
  void addUp(const char* reduced, size_t bytes, bool is_first);

  Scopes& scopes_;
  const horingParoEstimate_t& estimate_;
  const horingDataType_t type_;
  std::vector<char> gathered_, gradient_, sum_;
  std::vector<char> shard_;  // what this rank keeps of the parameters, at its beginning
};

}  // namespace horing::paro
