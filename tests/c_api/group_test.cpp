// SPDX-License-Identifier: Apache-2.0
// Groups: operations that are issued together and move side by side.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "api_calls.hpp"
#include "api_ranks.hpp"

namespace collectives::testing {
namespace {

TEST(Group, RanksThatBothSendFirstGetThrough) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    const Values mine(kLong, rank + 1);
    Values other(kLong);
    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(send(mine, 1 - rank, comm)));
    EXPECT_TRUE(ok(recv(other, 1 - rank, comm)));
    ASSERT_TRUE(ok(coll_group_end()));
    EXPECT_EQ(other, Values(kLong, 2 - rank));
  });
}

/// Every rank sends to every rank, itself too, and each pair has a length of its own.
void all_pairs(int ranks, std::size_t most) {
  run_ranks(ranks, [ranks, most](coll_comm_t comm, int rank) {
    const auto length = [&](int from, int to) {
      return static_cast<std::size_t>(from * 31 + to * 17) % most;
    };
    std::vector<Values> out, in;
    for (int peer = 0; peer < ranks; ++peer) {
      out.emplace_back(length(rank, peer), rank * 1000 + peer);
      in.emplace_back(length(peer, rank));
    }
    for (int round = 0; round < 2; ++round) {
      ASSERT_TRUE(ok(coll_group_start()));
      for (int peer = 0; peer < ranks; ++peer) {
        ASSERT_TRUE(ok(send(out[static_cast<std::size_t>(peer)], peer, comm)));
        ASSERT_TRUE(ok(recv(in[static_cast<std::size_t>(peer)], peer, comm)));
      }
      ASSERT_TRUE(ok(coll_group_end()));
      for (int peer = 0; peer < ranks; ++peer) {
        Values& got = in[static_cast<std::size_t>(peer)];
        ASSERT_EQ(got, Values(length(peer, rank), peer * 1000 + rank)) << "from rank " << peer;
        std::ranges::fill(got, 0);
      }
    }
  });
}

TEST(Group, AllPairsWithThemselves) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    SCOPED_TRACE(ranks);
    all_pairs(ranks, 40'000);
  }
}

TEST(Group, AllPairsOf64Ranks) {
  all_pairs(64, 50);
}

TEST(Group, OfCommunicatorsNamedInAnyOrder) {
  std::array<coll_unique_id_t, 3> ids;
  for (coll_unique_id_t& id : ids) ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&ids, rank] {
      std::array<coll_comm_t, 3> comms{};
      for (std::size_t i = 0; i < 3; ++i) comms[i] = join(ids[i], 2, rank);
      const Values in(kLong, 1);
      std::array<Values, 3> out;
      for (Values& each : out) each.resize(kLong);
      for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(ok(coll_group_start()));
        for (std::size_t i = 0; i < 3; ++i) {
          // Each rank begins with another communicator.
          const std::size_t at = rank == 0 ? i : 2 - i;
          EXPECT_TRUE(ok(at == 1 ? (rank == 0 ? send(in, 1, comms[1]) : recv(out[1], 0, comms[1]))
                                 : all_reduce(in, out[at], comms[at])));
        }
        ASSERT_TRUE(ok(coll_group_end()));
        EXPECT_EQ(out[0], Values(kLong, 2));
        EXPECT_EQ(out[2], Values(kLong, 2));
        EXPECT_EQ(out[1], rank == 1 ? in : Values(kLong));
        for (Values& each : out) std::ranges::fill(each, 0);
      }
      for (coll_comm_t comm : comms) EXPECT_TRUE(ok(coll_comm_destroy(comm)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Both ranks are this thread.
TEST(Group, OfSeveralRanksInOneThread) {
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  std::array<coll_comm_t, 2> comms{};
  std::thread other([&] { comms[1] = join(id, 2, 1); });
  comms[0] = join(id, 2, 0);
  other.join();
  const Values in(kLong, 5);
  std::array<Values, 2> out{Values(kLong), Values(kLong)};
  ASSERT_TRUE(ok(coll_group_start()));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(ok(all_reduce(in, out[rank], comms[rank])));
  }
  ASSERT_TRUE(ok(coll_group_end()));
  EXPECT_EQ(out[0], Values(kLong, 10));
  EXPECT_EQ(out[1], Values(kLong, 10));
  std::thread leaves([&] { EXPECT_TRUE(ok(coll_comm_destroy(comms[1]))); });
  EXPECT_TRUE(ok(coll_comm_destroy(comms[0])));
  leaves.join();
}

/// Each step reads what the one before has written.
TEST(Group, OnAStreamIsOneOperation) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    coll_stream_t stream = nullptr;
    ASSERT_TRUE(ok(coll_stream_create(&stream)));
    const Values in(kLong, rank + 1);
    Values sum(kLong), got(kLong), copy(kLong), total(kLong);
    for (int round = 0; round < 10; ++round) {
      ASSERT_TRUE(ok(all_reduce(in, sum, comm, stream)));
      ASSERT_TRUE(ok(coll_group_start()));
      EXPECT_TRUE(ok(send(sum, 1 - rank, comm, stream)));
      EXPECT_TRUE(ok(send(sum, rank, comm, stream)));
      EXPECT_TRUE(ok(recv(copy, rank, comm, stream)));
      EXPECT_TRUE(ok(recv(got, 1 - rank, comm, stream)));
      ASSERT_TRUE(ok(coll_group_end()));
      ASSERT_TRUE(ok(all_reduce(got, total, comm, stream)));
      ASSERT_TRUE(ok(coll_stream_synchronize(stream)));
      EXPECT_EQ(copy, Values(kLong, 3));
      EXPECT_EQ(total, Values(kLong, 6));
      for (Values* each : {&sum, &got, &copy, &total}) std::ranges::fill(*each, 0);
    }
    ASSERT_TRUE(ok(coll_stream_destroy(stream)));
  });
}

/// More operations than a stream holds, and none can end before all are issued.
TEST(Group, OfThousandsOnAStream) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    coll_stream_t stream = nullptr;
    ASSERT_TRUE(ok(coll_stream_create(&stream)));
    constexpr std::size_t kCalls = 3000;
    std::vector<Values> out(kCalls, Values(600)), in(kCalls, Values(600));
    ASSERT_TRUE(ok(coll_group_start()));
    for (std::size_t i = 0; i < kCalls; ++i) {
      std::ranges::fill(out[i], static_cast<std::int64_t>(i) * 2 + rank);
      ASSERT_TRUE(ok(send(out[i], 1 - rank, comm, stream)));
    }
    for (std::size_t i = 0; i < kCalls; ++i) ASSERT_TRUE(ok(recv(in[i], 1 - rank, comm, stream)));
    ASSERT_TRUE(ok(coll_group_end()));
    ASSERT_TRUE(ok(coll_stream_synchronize(stream)));
    for (std::size_t i = 0; i < kCalls; ++i) {
      ASSERT_EQ(in[i], Values(600, static_cast<std::int64_t>(i) * 2 + 1 - rank)) << i;
    }
    ASSERT_TRUE(ok(coll_stream_destroy(stream)));
  });
}

/// The calls in flight end; what stands behind them on the stream, on another communicator, runs.
TEST(Group, EndsWithItsCommunicator) {
  std::atomic<bool> issued{false};
  run_ranks(2, [&issued](coll_comm_t comm, int rank) {
    ASSERT_TRUE(ok(coll_barrier(comm, nullptr)));
    if (rank == 1) {
      issued.wait(false);
      ASSERT_TRUE(ok(coll_comm_abort(comm)));
      return;
    }
    coll_unique_id_t id;
    ASSERT_TRUE(ok(coll_get_unique_id(&id)));
    coll_comm_t other = join(id, 1, 0);
    coll_stream_t stream = nullptr;
    ASSERT_TRUE(ok(coll_stream_create(&stream)));
    const Values out(kLong, 1);
    Values in(kLong), sum(kLong), copy(kLong);
    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(send(out, 1, comm, stream)));
    EXPECT_TRUE(ok(recv(in, 1, comm, stream)));
    EXPECT_TRUE(ok(all_reduce(out, sum, comm, stream)));
    ASSERT_TRUE(ok(coll_group_end()));
    EXPECT_TRUE(ok(all_reduce(out, copy, other, stream)));
    issued = true;
    issued.notify_all();
    EXPECT_EQ(coll_stream_synchronize(stream), COLL_ABORTED);
    EXPECT_EQ(copy, out);
    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_EQ(send(out, 1, comm), COLL_ABORTED);
    EXPECT_TRUE(ok(all_reduce(out, copy, other)));
    EXPECT_EQ(coll_group_end(), COLL_ABORTED);
    EXPECT_TRUE(ok(coll_stream_destroy(stream)));
    EXPECT_TRUE(ok(coll_comm_destroy(other)));
  });
}

TEST(Group, OwnExchangesAreCopiesWhateverIsForced) {
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&id, rank] {
      coll_config_t config = COLL_CONFIG_INIT;
      config.algorithm = "broadcast=chain";
      coll_comm_t comm = nullptr;
      ASSERT_TRUE(ok(coll_comm_init_rank(&comm, 3, &id, rank, &config)));
      const Values in(kLong, rank);
      Values out(kLong), root(kLong, 7);
      ASSERT_TRUE(ok(coll_group_start()));
      EXPECT_TRUE(ok(send(in, rank, comm)));
      EXPECT_TRUE(
          ok(coll_broadcast(root.data(), root.data(), kLong, COLL_INT64, 1, comm, nullptr)));
      EXPECT_TRUE(ok(recv(out, rank, comm)));
      EXPECT_TRUE(ok(coll_group_end()));
      EXPECT_EQ(out, in);
      EXPECT_TRUE(ok(coll_comm_destroy(comm)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Threads that enqueue groups on the same streams, named in opposite orders, and a third that
/// waits for them; the streams are full at times.
TEST(Group, OfSeveralThreadsOnTheSameStreams) {
  run_ranks(1, [](coll_comm_t comm, int) {
    coll_unique_id_t id;
    ASSERT_TRUE(ok(coll_get_unique_id(&id)));
    coll_comm_t other = join(id, 1, 0);
    std::array<coll_stream_t, 2> streams{};
    for (coll_stream_t& stream : streams) ASSERT_TRUE(ok(coll_stream_create(&stream)));
    constexpr int kRounds = 1500;
    std::atomic<int> left{2};
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < 2; ++first) {
      threads.emplace_back([&, first] {
        const Values in(4, 3);
        std::array<Values, 2> out{Values(4), Values(4)};
        for (int round = 0; round < kRounds; ++round) {
          EXPECT_TRUE(ok(coll_group_start()));
          EXPECT_TRUE(ok(all_reduce(in, out[0], comm, streams[first])));
          EXPECT_TRUE(ok(all_reduce(in, out[1], other, streams[1 - first])));
          EXPECT_TRUE(ok(coll_group_end()));
          EXPECT_TRUE(ok(all_reduce(in, out[0], other, streams[first])));
        }
        for (coll_stream_t stream : streams) EXPECT_TRUE(ok(coll_stream_synchronize(stream)));
        EXPECT_EQ(out[0], in);
        EXPECT_EQ(out[1], in);
        --left;
      });
    }
    while (left != 0) EXPECT_TRUE(ok(coll_stream_synchronize(streams[0])));
    for (std::thread& thread : threads) thread.join();
    for (coll_stream_t stream : streams) EXPECT_TRUE(ok(coll_stream_destroy(stream)));
    EXPECT_TRUE(ok(coll_comm_destroy(other)));
  });
}

}  // namespace
}  // namespace collectives::testing
