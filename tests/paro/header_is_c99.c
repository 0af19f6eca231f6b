/* Compiles only if the header is C99. */
#include "horing/paro.h"

horingParoConfig_t horingTestParoConfig(void);

horingParoConfig_t horingTestParoConfig(void) {
  const horingParoConfig_t config = HORING_PARO_CONFIG_INITIALIZER;
  return config;
}
