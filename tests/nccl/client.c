/* A program in NCCL's names that was linked with another libnccl. C99. Prints the version it got and a sum of two ranks. */
#include <stdio.h>

#include "nccl.h"

int main(void) {
  int version = 0;
  ncclComm_t comms[2];
  float x[2] = {1, 2};
  ncclGetVersion(&version);
  printf("version %d\n", version);
  if (ncclCommInitAll(comms, 2, NULL) != ncclSuccess) return 1;
  ncclGroupStart();
  for (int i = 0; i < 2; ++i) ncclAllReduce(&x[i], &x[i], 1, ncclFloat, ncclSum, comms[i], NULL);
  if (ncclGroupEnd() != ncclSuccess) return 1;
  printf("sum %g\n", x[0]);
  for (int i = 0; i < 2; ++i) ncclCommDestroy(comms[i]);
  return 0;
}
