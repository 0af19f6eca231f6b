/* Beside MPI: MPI carries the unique ID, horing the data. For launchers whose variables horing does not read, or programs that have
 * MPI already. */
#include <mpi.h>

#include "check.h"

int main(int argc, char** argv) {
  horingUniqueId id;
  horingComm_t comm;
  int rank, ranks;
  float given, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0) CHECK(horingGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  CHECK(horingCommInitRank(&comm, ranks, id, rank));
  given = (float)(rank + 1);
  CHECK(horingAllReduce(&given, &sum, 1, horingFloat, horingSum, comm, NULL));
  printf("sum %g\n", sum);
  CHECK(horingCommDestroy(comm));
  MPI_Finalize();
  return sum == (float)(ranks * (ranks + 1) / 2) ? 0 : 1;
}
