#include "horing_paro/measure/client_step.h"

#include "horing_paro/train/sharded_layers.h"

namespace horing::paro {

Result<std::unique_ptr<ClientStep>> ClientStep::create(horingComm_t comm, const Model& model) {
  horingParoConfig_t config = HORING_PARO_CONFIG_INITIALIZER;
  config.strategy = model.strategy;
  config.bucketBytes = SIZE_MAX;
  config.microSteps = model.micro_steps;
  // The empty parameter is for waiting, see run().
  const horingParoParam_t params[] = {{model.params, model.type, 1}, {0, model.type, 1}};
  horingParo_t client = nullptr;
  HORING_TRY(statusOfParo(horingParoCreate(&client, comm, &config, params, std::size(params))));
  return std::unique_ptr<ClientStep>(new ClientStep(client, model));
}

Status ClientStep::gather() {
  const void* values = nullptr;
  HORING_TRY(statusOfParo(horingParoGatherParams(client_, 0)));
  return statusOfParo(horingParoGetParam(client_, 0, &values));
}

Status ClientStep::microStep() {
  HORING_TRY(gather());
  HORING_TRY(statusOfParo(horingParoReleaseParams(client_, 0)));
  HORING_TRY(gather());
  HORING_TRY(statusOfParo(horingParoOpenGrads(client_, 0)));
  HORING_TRY(statusOfParo(horingParoReleaseParams(client_, 0)));
  return statusOfParo(horingParoReduceGrads(client_, 0));
}

Status ClientStep::run() {
  for (int i = 0; i < model_.micro_steps; ++i) HORING_TRY(microStep());
  HORING_TRY(statusOfParo(horingParoSyncGrads(client_)));
  horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
  HORING_TRY(statusOfParo(horingParoGetShard(client_, 0, &shard)));
  HORING_TRY(statusOfParo(horingParoSyncParams(client_)));
  // Sets nothing, but returns only when the bucket's parameters have arrived.
  return statusOfParo(horingParoSetParam(client_, 1, nullptr, 0, model_.type));
}

}  // namespace horing::paro
