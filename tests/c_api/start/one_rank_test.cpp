// SPDX-License-Identifier: Apache-2.0
// What a communicator of one rank costs: some memory, and nothing of the system.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "failing_allocations.hpp"

namespace collectives::testing {
namespace {

using coll::test::FailingAllocations;

long entries_of(const char* folder) {
  return std::ranges::distance(std::filesystem::directory_iterator(folder),
                               std::filesystem::directory_iterator());
}

struct Costs {
  long bytes = FailingAllocations::bytes();
  long descriptors = entries_of("/proc/self/fd");
  long threads = entries_of("/proc/self/task");
};

coll_comm_t join_alone() {
  coll_unique_id_t id;
  EXPECT_TRUE(ok(coll_get_unique_id(&id)));
  return join(id, 1, 0);
}

void use(coll_comm_t comm) {
  Values values(1000, 1);
  EXPECT_TRUE(ok(all_reduce(values, values, comm)));
  EXPECT_TRUE(ok(
      coll_broadcast(values.data(), values.data(), values.size(), COLL_INT64, 0, comm, nullptr)));
  EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
}

TEST(OneRank, CostsSomeMemoryAndNothingElse) {
  NEEDS_FAILING_ALLOCATIONS();
  coll_comm_t first = join_alone();  // what a process makes once, this one pays for
  use(first);
  EXPECT_TRUE(ok(coll_comm_destroy(first)));
  const Costs before;
  constexpr int kMany = 10;
  std::vector<coll_comm_t> comms(kMany);
  for (coll_comm_t& comm : comms) comm = join_alone();
  const Costs made;
  for (coll_comm_t comm : comms) use(comm);
  const Costs used;
  const long each = (made.bytes - before.bytes) / kMany;
  const long each_used = (used.bytes - before.bytes) / kMany;
  std::cout << "bytes of a communicator of one rank: " << each << ", after three operations "
            << each_used << "\n";
  EXPECT_GT(each, 0) << "the test counts";
  EXPECT_LE(each, 32 << 10);
  EXPECT_LE(each_used, 40 << 10);
  EXPECT_EQ(used.descriptors, before.descriptors);
  EXPECT_EQ(used.threads, before.threads);
  for (coll_comm_t comm : comms) {
    coll_mem_stats_t stats = COLL_MEM_STATS_INIT;
    EXPECT_TRUE(ok(coll_comm_mem_stats(comm, &stats)));
    EXPECT_EQ(stats.connections, 0U);
    EXPECT_EQ(stats.connection_bytes + stats.staging_bytes + stats.call_bytes, 0U);
    EXPECT_TRUE(ok(coll_comm_destroy(comm)));
  }
  const Costs after;
  EXPECT_LT(after.bytes - before.bytes, 1 << 10) << "nothing is left";
}

}  // namespace
}  // namespace collectives::testing
