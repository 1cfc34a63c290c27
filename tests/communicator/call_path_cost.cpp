// SPDX-License-Identifier: Apache-2.0
// A rank whose small calls never wait, for call_path_cost_test.py to count their instructions under
// callgrind.
//
// Rank 0 broadcasts, rank 1 receives. A line on rank 1's standard input says that all messages have
// come, so that neither looks in vain. Only the counted calls are in the last dump.
#include <collectives/collectives.h>
#include <valgrind/callgrind.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kCalls = 32;  ///< fewer than a connection has cells

void must(coll_status_t status) {
  if (status == COLL_SUCCESS) return;
  std::fprintf(stderr, "%s\n", coll_last_error());
  std::exit(1);
}

}  // namespace

int main() {
  coll_comm_t comm = nullptr;
  must(coll_comm_init_env(&comm, nullptr));
  int rank = 0;
  must(coll_comm_rank(comm, &rank));
  float data[2] = {1, 2};
  for (int i = 0; i < 3; ++i) {  // connections, plans, first touches
    must(coll_broadcast(data, data, 2, COLL_FLOAT32, 0, comm, nullptr));
    must(coll_barrier(comm, nullptr));
  }
  if (rank == 1 && std::getchar() == EOF) return 1;
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
  for (int i = 0; i < kCalls; ++i) {
    must(coll_broadcast(data, data, 2, COLL_FLOAT32, 0, comm, nullptr));
  }
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS_AT("calls");
  if (rank == 0) {
    std::puts("sent");
    std::fflush(stdout);
  }
  must(coll_barrier(comm, nullptr));
  must(coll_comm_destroy(comm));
  return 0;
}
