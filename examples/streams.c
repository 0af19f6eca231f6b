/* Streams: an all-reduce runs while the program computes. Operations of one stream run in the order of their calls. */
#include "check.h"

#define COUNT 100000

static float gradients[COUNT], sums[COUNT], maxima[COUNT];

int main(void) {
  horingComm_t comm;
  horingStream_t stream;
  int rank, ranks, i;
  double computed = 0;
  CHECK(horingCommInitFromEnv(&comm));
  CHECK(horingCommUserRank(comm, &rank));
  CHECK(horingCommCount(comm, &ranks));
  CHECK(horingStreamCreate(&stream));
  for (i = 0; i < COUNT; ++i) gradients[i] = (float)(rank + 1);

  /* Both calls return at once. The second one reads what the first one writes. */
  CHECK(horingAllReduce(gradients, sums, COUNT, horingFloat, horingSum, comm, stream));
  CHECK(horingAllReduce(sums, maxima, COUNT, horingFloat, horingMax, comm, stream));

  for (i = 1; i < 1000000; ++i) computed += 1.0 / i; /* anything that leaves the buffers alone */

  CHECK(horingStreamSynchronize(stream));
  printf("sum %g, computed %.1f meanwhile\n", maxima[COUNT - 1], computed);
  CHECK(horingStreamDestroy(stream));
  CHECK(horingCommDestroy(comm));
  return maxima[COUNT - 1] == (float)(ranks * (ranks + 1) / 2) ? 0 : 1;
}
