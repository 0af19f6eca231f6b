#pragma once
// An optimizer step of PaRO's client without computation: measures the client's overhead over its collectives.
#include <memory>

#include "base/status.h"
#include "horing/paro.h"

namespace horing::paro {

// One thread. Neither copied nor moved.
class ClientStep {
 public:
  // The model: one bucket.
  struct Model {
    horingParoStrategy_t strategy;
    uint64_t params;
    horingDataType_t type;
    int micro_steps;
  };
  // Collective; `comm` must outlive it. Errors: those of horingParoCreate.
  static Result<std::unique_ptr<ClientStep>> create(horingComm_t comm, const Model& model);
  ~ClientStep() { (void)horingParoDestroy(client_); }
  ClientStep(const ClientStep&) = delete;
  ClientStep& operator=(const ClientStep&) = delete;

  // From the first gathering to the last parameter's arrival.
  Status run();

 private:
  ClientStep(horingParo_t client, const Model& model) : client_(client), model_(model) {}
  Status gather();
  Status microStep();

  horingParo_t client_;
  Model model_;
};

}  // namespace horing::paro
