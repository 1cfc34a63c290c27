// SPDX-License-Identifier: Apache-2.0
// Operations on blocks of unequal lengths: what is refused, what differs between ranks or between
// calls, and what a group makes of them.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "api_calls.hpp"
#include "api_ranks.hpp"

namespace collectives::testing {
namespace {

using Counts = std::vector<std::size_t>;

bool refused(coll_status_t status, const char* word) {
  const bool is =
      status == COLL_INVALID_ARGUMENT && std::strstr(coll_last_error(), word) != nullptr;
  if (!is) std::fprintf(stderr, "%s: %s\n", coll_status_name(status), coll_last_error());
  return is;
}

TEST(Unequal, BadArgumentsAreRefused) {
  run_ranks(1, [](coll_comm_t comm, int /*rank*/) {
    std::int64_t in[8] = {}, out[8] = {};
    const std::size_t one = 1, two = 2, huge = ~std::size_t{0} / 2;
    const auto type = COLL_INT64;
    EXPECT_TRUE(refused(coll_all_gatherv(in, out, nullptr, nullptr, type, comm, nullptr),
                        "all_gatherv: recv_counts is null"));
    EXPECT_TRUE(
        refused(coll_reduce_scatterv(in, out, nullptr, nullptr, type, COLL_SUM, comm, nullptr),
                "send_counts"));
    EXPECT_TRUE(refused(coll_all_gatherv(in, out, &huge, nullptr, type, comm, nullptr), "memory"));
    EXPECT_TRUE(refused(coll_all_gatherv(in, out, &one, &huge, type, comm, nullptr), "memory"));
    EXPECT_TRUE(refused(coll_all_gatherv(nullptr, out, &one, nullptr, type, comm, nullptr),
                        "send is null"));
    EXPECT_TRUE(
        refused(coll_all_gatherv(in, nullptr, &one, nullptr, type, comm, nullptr), "recv is null"));
    EXPECT_TRUE(
        refused(coll_all_to_allv(in, &one, nullptr, out, &two, nullptr, type, comm, nullptr),
                "gives itself 1"));
    EXPECT_TRUE(
        refused(coll_gatherv(in, 2, out, &one, nullptr, type, 0, comm, nullptr), "own count is 2"));
    EXPECT_TRUE(refused(coll_gatherv(in, 1, out, &one, nullptr, type, 3, comm, nullptr), "root 3"));
    EXPECT_TRUE(
        refused(coll_all_gatherv(out + 1, out, &two, nullptr, type, comm, nullptr), "overlap"));
    EXPECT_EQ(coll_all_gatherv(in, out, &one, nullptr, type, nullptr, nullptr),
              COLL_INVALID_ARGUMENT);
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_BROADCAST;
    call.unequal = 1;
    coll_work_t work = nullptr;
    EXPECT_TRUE(refused(coll_start(&call, comm, nullptr, &work), "no block for each rank"));
  });
}

TEST(Unequal, OverlappingResultsAreRefused) {
  run_ranks(2, [](coll_comm_t comm, int /*rank*/) {
    const Counts counts{3, 3};
    const Counts displs{0, 2};
    Values in(3), out(8);
    EXPECT_TRUE(refused(coll_all_gatherv(in.data(), out.data(), counts.data(), displs.data(),
                                         COLL_INT64, comm, nullptr),
                        "share element 2"));
  });
}

/// In place the rank's block of send is written while others are still to be sent.
TEST(Unequal, OverlappingBlocksAreRefusedInPlace) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    const Counts counts{4, 4};
    const Counts displs{0, 2};
    Values data(6);
    EXPECT_TRUE(refused(
        coll_reduce_scatterv(data.data(), data.data() + displs[static_cast<std::size_t>(rank)],
                             counts.data(), displs.data(), COLL_INT64, COLL_SUM, comm, nullptr),
        "two blocks of send share element 2"));
  });
}

/// The same buffers and the same sum of counts, again and again with other counts, which the caller
/// overwrites at once.
TEST(Unequal, EachCallHasItsOwnCounts) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    const Values mine(4, rank + 1);
    Values all(4);
    for (const bool streams : {false, true}) {
      coll_stream_t stream = streams ? make_stream() : nullptr;
      for (int i = 0; i < 6; ++i) {
        const std::size_t first = i % 2 == 0 ? 3 : 1;
        Counts counts{first, 4 - first};
        Counts displs{4 - first, 0};
        all.assign(4, -1);
        EXPECT_TRUE(ok(coll_all_gatherv(mine.data(), all.data(), counts.data(), displs.data(),
                                        COLL_INT64, comm, stream)));
        counts.assign(2, 99);
        displs.assign(2, 99);
        if (streams) {
          EXPECT_TRUE(ok(coll_stream_synchronize(stream)));
        }
        Values expected(4, 2);
        std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(4 - first), first, 1);
        EXPECT_EQ(all, expected) << "call " << i;
      }
      if (streams) {
        EXPECT_TRUE(ok(coll_stream_destroy(stream)));
      }
    }
  });
}

/// Whoever's counts differ from the others' gets no wrong result and waits for nobody.
TEST(Unequal, CountsThatDifferBetweenRanksAreAMismatch) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    const Counts counts{4, rank == 0 ? std::size_t{5} : std::size_t{6}};
    Values in(8), out(16);
    EXPECT_EQ(
        coll_all_gatherv(in.data(), out.data(), counts.data(), nullptr, COLL_INT64, comm, nullptr),
        COLL_MISMATCH)
        << coll_last_error();
    EXPECT_NE(std::strstr(coll_last_error(), "all_gatherv"), nullptr) << coll_last_error();
  });
  // Rank 0 sends windows more than rank 1 waits for.
  run_ranks(2, [](coll_comm_t comm, int rank) {
    const std::size_t long_one = kLong, longer = 4 * kLong;
    const Counts sends{1, rank == 0 ? longer : 1};
    const Counts takes = rank == 0 ? Counts{1, 1} : Counts{long_one, 1};
    const Counts given = rank == 0 ? sends : Counts{1, 1};
    Values in(longer + 8), out(longer + 8);
    EXPECT_EQ(coll_all_to_allv(in.data(), given.data(), nullptr, out.data(), takes.data(), nullptr,
                               COLL_INT64, comm, nullptr),
              COLL_MISMATCH)
        << coll_last_error();
  });
}

TEST(Unequal, MixWithOthersInAGroup) {
  run_ranks(3, [](coll_comm_t comm, int rank) {
    const Counts counts{2, 0, 5};
    const Values mine(counts[static_cast<std::size_t>(rank)], rank);
    const Values in(4, rank + 1);
    Values all(7, -1), sum(4, -1);
    EXPECT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(coll_all_gatherv(mine.data(), all.data(), counts.data(), nullptr, COLL_INT64,
                                    comm, nullptr)));
    EXPECT_TRUE(ok(all_reduce(in, sum, comm)));
    EXPECT_TRUE(ok(coll_group_end()));
    EXPECT_EQ(all, (Values{0, 0, 2, 2, 2, 2, 2}));
    EXPECT_EQ(sum, Values(4, 6));
  });
}

}  // namespace
}  // namespace collectives::testing
