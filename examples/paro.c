/* PaRO, sharded training: parameters, gradients and optimizer state are sharded over all ranks (GGG). Each rank has one sample, its
 * number, and plain gradient descent finds the mean of all. */
#include <horing/paro.h>
#include <stdio.h>

static horingResult_t trainStep(horingParo_t paro, float given) {
  horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
  const void* values = NULL;
  void* grads = NULL;
  horingResult_t result;
  size_t i;
  if ((result = horingParoGatherParams(paro, 0)) != horingSuccess) return result;
  if ((result = horingParoGetParam(paro, 0, &values)) != horingSuccess) return result;
  if ((result = horingParoOpenGrads(paro, 0)) != horingSuccess) return result;
  if ((result = horingParoGetGrad(paro, 0, &grads)) != horingSuccess) return result;
  for (i = 0; i < 100; ++i) ((float*)grads)[i] = ((const float*)values)[i] - given;
  if ((result = horingParoReduceGrads(paro, 0)) != horingSuccess) return result;
  if ((result = horingParoReleaseParams(paro, 0)) != horingSuccess) return result;
  if ((result = horingParoSyncGrads(paro)) != horingSuccess) return result;
  if ((result = horingParoGetShard(paro, 0, &shard)) != horingSuccess) return result;
  for (i = 0; i < shard.count; ++i) ((float*)shard.master)[i] -= 0.5f * ((const float*)shard.grads)[i];
  return horingParoSyncParams(paro);
}

int main(void) {
  horingParoConfig_t config = HORING_PARO_CONFIG_INITIALIZER;
  horingParoParam_t param = {100, horingFloat32, 1};
  horingComm_t comm;
  horingParo_t paro;
  const void* values = NULL;
  int rank, ranks, step;
  float mean, error;
  if (horingCommInitFromEnv(&comm) != horingSuccess) {
    fprintf(stderr, "%s\n", horingGetLastError(NULL));
    return 1;
  }
  horingCommUserRank(comm, &rank);
  horingCommCount(comm, &ranks);
  config.strategy = horingParoGGG;
  if (horingParoCreate(&paro, comm, &config, &param, 1) != horingSuccess) {
    fprintf(stderr, "%s\n", horingParoGetLastError());
    return 2;
  }
  for (step = 0; step < 30; ++step)
    if (trainStep(paro, (float)rank) != horingSuccess) {
      fprintf(stderr, "%s\n", horingParoGetLastError());
      return 3;
    }
  horingParoGatherParams(paro, 0);
  horingParoGetParam(paro, 0, &values);
  mean = (float)(ranks - 1) / 2;
  error = ((const float*)values)[99] - mean;
  printf("learnt %g\n", ((const float*)values)[99]);
  horingParoDestroy(paro);
  horingCommDestroy(comm);
  return error < 1e-5f && error > -1e-5f ? 0 : 4;
}
