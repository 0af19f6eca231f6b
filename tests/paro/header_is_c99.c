/* Compiles only if the header is C99. */
#include "horing/paro.h"

horingParoConfig_t horingTestParoConfig(void);

horingParoConfig_t horingTestParoConfig(void) {
  const horingParoConfig_t config = HORING_PARO_CONFIG_INITIALIZER;
  return config;
}

/* The initialisers of the other structures have all of their fields. */
const horingParoModel_t horingTestParoModel = HORING_PARO_MODEL_INITIALIZER;
const horingParoEstimate_t horingTestParoEstimate = HORING_PARO_ESTIMATE_INITIALIZER;
const horingParoMemory_t horingTestParoMemory = HORING_PARO_MEMORY_INITIALIZER;
const horingParoInfo_t horingTestParoInfo = HORING_PARO_INFO_INITIALIZER;
const horingParoUsage_t horingTestParoUsage = HORING_PARO_USAGE_INITIALIZER;
const horingParoShard_t horingTestParoShard = HORING_PARO_SHARD_INITIALIZER;
