/* A rank that is late: the last one sleeps for LATE_MS milliseconds before its second call. With HORING_TIMEOUT_MS below that the others
 * learn who keeps them waiting. */
#define _POSIX_C_SOURCE 199309L
#include <time.h>

#include "check.h"

int main(void) {
  const char* late = getenv("LATE_MS");
  const long ms = late ? atol(late) : 0;
  const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  horingComm_t comm;
  int rank, ranks;
  float one = 1, sum = 0;
  CHECK(horingCommInitFromEnv(&comm));
  CHECK(horingAllReduce(&one, &sum, 1, horingFloat, horingSum, comm, NULL));
  CHECK(horingCommUserRank(comm, &rank));
  CHECK(horingCommCount(comm, &ranks));
  if (rank == ranks - 1) nanosleep(&pause, NULL);
  CHECK(horingAllReduce(&one, &sum, 1, horingFloat, horingSum, comm, NULL));
  printf("all were there\n");
  CHECK(horingCommDestroy(comm));
  return 0;
}
