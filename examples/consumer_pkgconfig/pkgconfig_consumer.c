/* SPDX-License-Identifier: Apache-2.0 */
/* C, built with pkg-config: the mean of all ranks. */
#include <collectives/collectives.h>
#include <stdio.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, coll_last_error());
  return 1;
}

int main(void) {
  coll_comm_t comm;
  if (coll_comm_init_env(&comm, NULL) != COLL_SUCCESS) return failed("joining");

  int rank = 0, size = 0;
  coll_comm_rank(comm, &rank);
  coll_comm_size(comm, &size);

  double mean[2] = {rank, 10.0 * rank};
  if (coll_all_reduce(mean, mean, 2, COLL_FLOAT64, COLL_AVG, comm, NULL) != COLL_SUCCESS)
    return failed("all_reduce");
  printf("rank %d of %d: %g %g\n", rank, size, mean[0], mean[1]);
  return coll_comm_destroy(comm) == COLL_SUCCESS ? 0 : failed("leaving");
}
