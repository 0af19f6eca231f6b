/* Groups: each rank sends to its right neighbor and receives from its left one. In a group both happen at once. Without it, every rank
 * would wait in its send for a receive that no rank has called. */
#include "check.h"

int main(void) {
  horingComm_t comm;
  int rank, ranks, given, received = -1, left, right;
  CHECK(horingCommInitFromEnv(&comm));
  CHECK(horingCommUserRank(comm, &rank));
  CHECK(horingCommCount(comm, &ranks));
  left = (rank + ranks - 1) % ranks;
  right = (rank + 1) % ranks;
  given = 10 * rank;

  CHECK(horingGroupStart());
  CHECK(horingSend(&given, 1, horingInt, right, comm, NULL));
  CHECK(horingRecv(&received, 1, horingInt, left, comm, NULL));
  CHECK(horingGroupEnd());

  printf("rank %d received %d from rank %d\n", rank, received, left);
  CHECK(horingCommDestroy(comm));
  return received == 10 * left ? 0 : 1;
}
