// SPDX-License-Identifier: Apache-2.0
// What communicators keep in memory, one of them and hundreds.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <collectives/collectives.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "communicator/rank_processes.hpp"

namespace collectives::testing {
namespace {

coll_mem_stats_t memory_of(coll_comm_t comm) {
  coll_mem_stats_t stats = COLL_MEM_STATS_INIT;
  EXPECT_TRUE(ok(coll_comm_mem_stats(comm, &stats)));
  return stats;
}

TEST(MemStats, CountWhatCallsHaveMade) {
  for (const char* transports : {"shm", "tcp"}) {
    coll_config_t config = config_with();
    config.transports = transports;
    run_ranks(
        3,
        [](coll_comm_t comm, int) {
          coll_mem_stats_t stats = memory_of(comm);
          EXPECT_EQ(stats.connections + stats.connection_bytes + stats.programs, 0U)
              << "nothing before the first call";
          Values data(100, 1);
          EXPECT_TRUE(ok(all_reduce(data, data, comm)));
          const coll_mem_stats_t first = memory_of(comm);
          EXPECT_GE(first.connections, 1U);
          EXPECT_GE(first.connection_bytes, first.connections * 4096);
          EXPECT_EQ(first.programs, 1U);
          EXPECT_GT(first.program_bytes, 0U);
          EXPECT_EQ(first.call_bytes, 0U);
          EXPECT_TRUE(ok(all_reduce(data, data, comm)));
          stats = memory_of(comm);
          EXPECT_EQ(stats.programs, 1U) << "a call that repeats makes nothing";
          EXPECT_EQ(stats.connection_bytes, first.connection_bytes);
          EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
          EXPECT_EQ(memory_of(comm).programs, 2U);
        },
        config);
  }
}

/// What calls of parts have needed is kept for the next ones, up to a limit.
TEST(MemStats, CountWhatPartsNeed) {
  run_ranks(2, [](coll_comm_t comm, int) {
    Values data((1 << 20) + 1, 1);
    coll_call_t call = asked(COLL_ALL_REDUCE, 0);
    const auto run_part_of = [&](std::size_t count) {
      // Not one behind the other.
      const coll_part_t parts[] = {{&data.back(), &data.back(), 1},
                                   {data.data(), data.data(), count - 1}};
      call.parts = parts;
      call.part_count = 2;
      EXPECT_TRUE(ok(coll_run(&call, comm)));
    };
    run_part_of(1000);
    const std::uint64_t small = memory_of(comm).call_bytes;
    EXPECT_EQ(small, 8192U) << "8,000 bytes, in whole pages";
    run_part_of(1000);
    EXPECT_EQ(memory_of(comm).call_bytes, small);
    for (std::size_t count = 1 << 19; count <= 1 << 20; count += 1 << 16) run_part_of(count);
    EXPECT_LE(memory_of(comm).call_bytes, 64U << 20);
  });
}

TEST(MemStats, AreFilledWhereTheyAreInitialised) {
  run_ranks(1, [](coll_comm_t comm, int) {
    coll_mem_stats_t stats = {};
    EXPECT_FALSE(wrong(0, "stats", coll_comm_mem_stats(comm, &stats), COLL_INVALID_ARGUMENT,
                       "COLL_MEM_STATS_INIT"));
    EXPECT_EQ(coll_comm_mem_stats(nullptr, &stats), COLL_INVALID_ARGUMENT);
    EXPECT_EQ(coll_comm_mem_stats(comm, nullptr), COLL_INVALID_ARGUMENT);
  });
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// Each with a call of its own; in every process.
TEST(MemStats, HundredsOfCommunicatorsTakeUnderAMebibyteEach) {
  constexpr int kRanks = 4, kMany = 100;
  const Meetings meetings;
  RankProcesses ranks(kRanks, [&](int rank) {
    coll_comm_t world = join(meetings.place(0), "shm,tcp", kRanks, rank);
    if (world == nullptr) return 1;
    int failures = wrong(rank, "barrier", coll_barrier(world, nullptr), COLL_SUCCESS);
    const std::size_t before = resident_bytes();
    std::vector<coll_comm_t> many(kMany);
    for (coll_comm_t& each : many) {
      failures +=
          wrong(rank, "duplicate", coll_comm_duplicate(world, nullptr, &each), COLL_SUCCESS);
      Values sum{1};
      failures += wrong(rank, "sum", all_reduce(sum, sum, each), COLL_SUCCESS);
      failures += sum[0] == kRanks ? 0 : 1;
    }
    [[maybe_unused]] const std::size_t each = (resident_bytes() - before) / kMany;
#ifndef SANITIZED
    if (each > std::size_t{1} << 20) {
      std::cerr << "rank " << rank << ": " << each << " bytes each\n";
      ++failures;
    }
#endif
    for (coll_comm_t one : many) {
      failures += wrong(rank, "destroy", coll_comm_destroy(one), COLL_SUCCESS);
    }
    return failures + wrong(rank, "leave", coll_comm_destroy(world), COLL_SUCCESS);
  });
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(ranks.wait_for(rank), 0) << "rank " << rank;
}

}  // namespace
}  // namespace collectives::testing
