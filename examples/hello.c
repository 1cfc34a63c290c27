/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest C program.
 * Start it with any launcher: coll-run -n 4 -- hello */
#include <collectives/collectives.h>
#include <stdio.h>

int main(void) {
  coll_comm_t comm = NULL;
  int rank = 0, size = 0, highest = 0;
  if (coll_comm_init_env(&comm, NULL) != COLL_SUCCESS ||
      coll_comm_rank(comm, &rank) != COLL_SUCCESS || coll_comm_size(comm, &size) != COLL_SUCCESS ||
      coll_all_reduce(&rank, &highest, 1, COLL_INT32, COLL_MAX, comm, NULL) != COLL_SUCCESS) {
    fprintf(stderr, "%s\n", coll_last_error());
    return 1;
  }
  printf("hello from rank %d of %d; the highest rank is %d\n", rank, size, highest);
  return coll_comm_destroy(comm) != COLL_SUCCESS;
}
