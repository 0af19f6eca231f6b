#pragma once
// The time that collectives of strategies take here, as measured.
#include "base/status.h"
#include "horing/paro.h"
#include "paro/backend.h"

namespace horing::paro {

// See horingParoMeasure; on memory of `backend`.
Result<horingParoRates_t> measureRates(horingComm_t comm, size_t bytes, Backend& backend);
// See horingParoGetSeconds.
double secondsOf(const horingParoEstimate_t& estimate, int vectors, const horingParoRates_t& rates);

}  // namespace horing::paro
