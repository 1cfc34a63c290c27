/* SPDX-License-Identifier: Apache-2.0 */
/* Overlap in C: the ranks sum one bucket of gradients while they compute the next.
 * cc overlap.c -o overlap $(pkg-config --cflags --libs collectives) && coll-run -n 2 -- ./overlap
 */
#include <collectives/collectives.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUCKETS = 4, COUNT = 1 << 18 };
static float bucket[BUCKETS][COUNT];

static void check(coll_status_t status) {
  if (status == COLL_SUCCESS) return;
  fprintf(stderr, "%s\n", coll_last_error());
  exit(1);
}

/* Stands for a backward pass. */
static void compute(float* gradients, int seed) {
  for (int i = 0; i < COUNT; i++) gradients[i] = (float)seed;
}

int main(void) {
  coll_comm_t comm = NULL;
  int rank = 0, size = 0;
  check(coll_comm_init_env(&comm, NULL));
  check(coll_comm_rank(comm, &rank));
  check(coll_comm_size(comm, &size));

  coll_work_t work[BUCKETS];
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_REDUCE, call.op = COLL_SUM;
  call.type = COLL_FLOAT32, call.count = COUNT;
  for (int i = 0; i < BUCKETS; i++) {
    compute(bucket[i], rank + i);
    call.send = call.recv = bucket[i];
    check(coll_start(&call, comm, NULL, &work[i])); /* returns at once */
  }
  for (int i = 0; i < BUCKETS; i++) {
    check(coll_work_wait(work[i], -1));
    coll_work_free(work[i]);
  }

  printf("rank %d of %d:", rank, size);
  for (int i = 0; i < BUCKETS; i++) printf(" %g", (double)bucket[i][COUNT - 1]);
  printf("\n");
  check(coll_comm_destroy(comm));
  return 0;
}
