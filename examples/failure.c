/* Failure and shrink: the last rank ends without a word, as a crash would end it. The others learn which one it was, make a
 * communicator without it, and go on. */
#include <unistd.h>

#include "check.h"

int main(void) {
  horingComm_t comm, fewer;
  horingResult_t result;
  int rank, ranks, failed = -1;
  float one = 1, sum = 0;
  CHECK(horingCommInitFromEnv(&comm));
  CHECK(horingCommUserRank(comm, &rank));
  CHECK(horingCommCount(comm, &ranks));
  CHECK(horingAllReduce(&one, &sum, 1, horingFloat, horingSum, comm, NULL));
  if (rank == ranks - 1) _exit(0);

  /* Fails within seconds, and so does every later call: the error sticks to the communicator. */
  do result = horingAllReduce(&one, &sum, 1, horingFloat, horingSum, comm, NULL);
  while (result == horingSuccess);
  printf("%s\n", horingGetLastError(comm));
  CHECK(horingCommGetFailedRank(comm, &failed));

  CHECK(horingCommShrink(comm, &failed, 1, &fewer, NULL, HORING_SHRINK_ABORT));
  CHECK(horingCommAbort(comm));
  CHECK(horingAllReduce(&one, &sum, 1, horingFloat, horingSum, fewer, NULL));
  printf("rank %d was lost; %g ranks go on\n", failed, sum);
  CHECK(horingCommDestroy(fewer));
  return failed == ranks - 1 && sum == (float)(ranks - 1) ? 0 : 1;
}
