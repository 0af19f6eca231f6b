/* A first all-reduce: each rank gives its number plus 1, and every rank gets the sum. Exit codes: 0, the sum is right. */
#include <horing/horing.h>
#include <stdio.h>

int main(void) {
  horingComm_t comm;
  int rank, ranks, version;
  float given, sum = 0;
  if (horingGetVersion(&version) != horingSuccess || version != HORING_VERSION_CODE) return 4;
  if (horingCommInitFromEnv(&comm) != horingSuccess) {
    fprintf(stderr, "%s\n", horingGetLastError(NULL));
    return 1;
  }
  horingCommUserRank(comm, &rank);
  horingCommCount(comm, &ranks);
  given = (float)(rank + 1);
  if (horingAllReduce(&given, &sum, 1, horingFloat, horingSum, comm, NULL) != horingSuccess) {
    fprintf(stderr, "%s\n", horingGetLastError(comm));
    horingCommAbort(comm);
    return 2;
  }
  printf("sum %g\n", sum);
  horingCommDestroy(comm);
  return sum == (float)(ranks * (ranks + 1) / 2) ? 0 : 3;
}
