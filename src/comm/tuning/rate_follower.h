#pragma once
// Lets a running job follow rates of groups that change: between two large all-reduces the ranks measure again, and change their plan.
#include <functional>

#include "base/status.h"
#include "comm/communicator.h"
#include "comm/tuning/group_rates.h"
#include "comm/tuning/rate_watch.h"

namespace horing {

// Used by the thread that runs the calls of the communicator, which must outlive it.
class RateFollower final : public CallObserver {
 public:
  using Measure = std::function<Result<GroupRates>(Communicator&)>;
  // After the measurement of the communicator's rates (Choices), which took so long. `measure` is collective.
  RateFollower(Communicator& communicator, double took_ns, Measure measure = measureWithinCall);

  // Collective where a look is due. Errors: the communicator's.
  Status ended(size_t bytes, int64_t took_ns) override;

 private:
  static Result<GroupRates> measureWithinCall(Communicator& communicator) {
    return measureGroupRates(communicator, communicator.timeoutMs());
  }
  Status measureAgain();

  Communicator& communicator_;
  const Measure measure_;
  RateWatch watch_;
};

}  // namespace horing
