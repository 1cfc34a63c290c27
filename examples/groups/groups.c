/* SPDX-License-Identifier: Apache-2.0 */
/* Groups in C: every rank sends to the next rank and receives from the previous one.
 * cc groups.c -o groups $(pkg-config --cflags --libs collectives) && coll-run -n 4 -- ./groups */
#include <collectives/collectives.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1 << 20 };
static float out[COUNT], in[COUNT];

static void check(coll_status_t status) {
  if (status == COLL_SUCCESS) return;
  fprintf(stderr, "%s\n", coll_last_error());
  exit(1);
}

int main(void) {
  coll_comm_t comm = NULL;
  int rank = 0, size = 0;
  check(coll_comm_init_env(&comm, NULL));
  check(coll_comm_rank(comm, &rank));
  check(coll_comm_size(comm, &size));
  for (int i = 0; i < COUNT; i++) out[i] = (float)rank;

  check(coll_group_start());
  coll_send(out, COUNT, COLL_FLOAT32, (rank + 1) % size, comm, NULL);
  coll_recv(in, COUNT, COLL_FLOAT32, (rank + size - 1) % size, comm, NULL);
  check(coll_group_end()); /* waits; it also fails if a call above was refused */

  printf("rank %d of %d: from rank %g\n", rank, size, (double)in[COUNT - 1]);
  check(coll_comm_destroy(comm));
  return 0;
}
