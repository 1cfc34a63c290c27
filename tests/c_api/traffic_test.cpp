// SPDX-License-Identifier: Apache-2.0
// What a call would move, and what calls have moved.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <collectives/collectives.hpp>
#include <functional>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api_calls.hpp"
#include "api_ranks.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace {

struct Asked {
  coll_operation_t operation = COLL_BARRIER;
  std::size_t count = 0;
  int root = 0;
};

coll_prediction_t predict(coll_comm_t comm, const Asked& of) {
  return predicted(comm, asked(of.operation, of.count, COLL_INT64, of.root));
}

coll_call_t call_of(const Asked& of, const Values& send, Values& recv) {
  coll_call_t call = asked(of.operation, of.count, COLL_INT64, of.root);
  call.send = send.data();
  call.recv = recv.data();
  return call;
}

/// Ranks with settings of their own.
void run_with(int size, const char* algorithm, const char* transports,
              const std::function<void(coll_comm_t, int)>& body) {
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      coll_config_t config = COLL_CONFIG_INIT;
      config.deadline_s = 30;
      config.algorithm = algorithm;
      config.transports = transports;
      coll_comm_t comm = nullptr;
      ASSERT_TRUE(ok(coll_comm_init_rank(&comm, size, &id, rank, &config)));
      body(comm, rank);
      EXPECT_TRUE(ok(coll_comm_destroy(comm)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Elements that all ranks send, by the algorithm's closed formula.
struct Formula {
  const char* algorithm;
  coll_operation_t operation;
  std::size_t (*elements)(std::size_t ranks, std::size_t count);
};

constexpr Formula kFormulas[] = {
    {"ring", COLL_ALL_REDUCE, [](std::size_t p, std::size_t n) { return 2 * (p - 1) * n; }},
    {"ring", COLL_ALL_GATHER, [](std::size_t p, std::size_t n) { return p * (p - 1) * n; }},
    {"ring", COLL_REDUCE_SCATTER, [](std::size_t p, std::size_t n) { return p * (p - 1) * n; }},
    {"one_shot", COLL_ALL_REDUCE, [](std::size_t p, std::size_t n) { return p * (p - 1) * n; }},
    {"two_shot", COLL_ALL_REDUCE, [](std::size_t p, std::size_t n) { return 2 * (p - 1) * n; }},
    {"recursive_doubling", COLL_ALL_REDUCE, [](std::size_t, std::size_t n) { return 8 * n; }},
    {"binomial", COLL_BROADCAST, [](std::size_t p, std::size_t n) { return (p - 1) * n; }},
    {"pairwise", COLL_ALL_TO_ALL, [](std::size_t p, std::size_t n) { return p * (p - 1) * n; }},
    {"dissemination", COLL_BARRIER, [](std::size_t, std::size_t) { return std::size_t{0}; }},
};

/// Counts that fit the chunks, and counts that do not.
TEST(Traffic, IsPredictedAsTheClosedFormulaSays) {
  constexpr std::size_t kRanks = 4;
  for (const Formula& formula : kFormulas) {
    constexpr std::size_t kCounts[] = {0, 1, 4096, 100'003, 3'000'017};
    std::atomic<std::size_t> sent[std::size(kCounts)]{}, received[std::size(kCounts)]{};
    run_with(kRanks, formula.algorithm, "shm", [&](coll_comm_t comm, int) {
      for (std::size_t i = 0; i < std::size(kCounts); ++i) {
        const coll_prediction_t made = predict(comm, {formula.operation, kCounts[i], 0});
        EXPECT_STREQ(made.algorithm, formula.algorithm);
        EXPECT_GE(made.lanes, 1U);
        EXPECT_GT(made.microseconds, 0);
        sent[i] += made.bytes_sent;
        received[i] += made.bytes_received;
        if (formula.operation == COLL_ALL_REDUCE && kCounts[i] == 4096) {
          EXPECT_EQ(made.bytes_sent * kRanks,
                    formula.elements(kRanks, kCounts[i]) * sizeof(std::int64_t))
              << "all ranks do the same";
        }
      }
    });
    for (std::size_t i = 0; i < std::size(kCounts); ++i) {
      const std::size_t count = formula.operation == COLL_BARRIER ? 0 : kCounts[i];
      EXPECT_EQ(sent[i].load(), formula.elements(kRanks, count) * sizeof(std::int64_t))
          << formula.algorithm << " of operation " << formula.operation << ", count " << count;
      EXPECT_EQ(received[i].load(), sent[i].load());
    }
  }
}

/// Random calls: those that block, with a handle, on a stream, in a group.
TEST(Traffic, IsCountedAsItWasPredicted) {
  const std::uint64_t seed = coll::test::test_seed();
  for (const auto& [size, transports] : {std::pair(3, "shm"), std::pair(2, "tcp")}) {
    run_with(size, nullptr, transports, [&, ranks = size](coll_comm_t comm, int rank) {
      std::mt19937_64 common(seed);
      coll_stream_t stream = nullptr;
      ASSERT_TRUE(ok(coll_stream_create(&stream)));
      const coll_stats_t before = stats_of(comm);
      EXPECT_EQ(before.operations, 0U);
      coll_stats_t expected = before;
      const auto expect = [&](const Asked& of) {
        const coll_prediction_t made = predict(comm, of);
        ++expected.operations;
        expected.bytes_sent += made.bytes_sent;
        expected.bytes_received += made.bytes_received;
      };
      for (int i = 0; i < 60; ++i) {
        Asked drawn;
        drawn.operation = static_cast<coll_operation_t>(common() % COLL_OPERATION_COUNT);
        drawn.count = common() % 8 == 0 ? common() % 300'000 : common() % 3000;
        const int first = static_cast<int>(common() % static_cast<std::uint64_t>(ranks));
        const auto way = common() % 4;
        const int repeats = common() % 3 == 0 ? 3 : 1;
        drawn.root = first;
        if (drawn.operation == COLL_SEND || drawn.operation == COLL_RECV) {
          const int second = (first + 1) % ranks;
          if (rank != first && rank != second) continue;
          drawn.operation = rank == first ? COLL_SEND : COLL_RECV;
          drawn.root = rank == first ? second : first;
        }
        const Values send(drawn.count * static_cast<std::size_t>(ranks) + 1, 1);
        Values recv(send.size());
        for (int again = 0; again < repeats; ++again) {
          expect(drawn);
          const coll_call_t call = call_of(drawn, send, recv);
          coll_work_t work = nullptr;
          if (way == 0) {
            ASSERT_TRUE(ok(coll_group_start()));
          }
          ASSERT_TRUE(ok(coll_start(&call, comm, way == 1 ? stream : nullptr, &work)));
          if (way == 0) {
            ASSERT_TRUE(ok(coll_group_end()));
          }
          ASSERT_TRUE(ok(coll_work_wait(work, -1)));
          ASSERT_TRUE(ok(coll_work_free(work)));
        }
        // The same buffers, blocking: the shortest way through the library.
        for (int again = 0; way == 2 && again < repeats; ++again) {
          const Asked sums{COLL_ALL_REDUCE, drawn.count, 0};
          if (drawn.operation == COLL_SEND || drawn.operation == COLL_RECV) break;
          expect(sums);
          ASSERT_TRUE(ok(coll_all_reduce(send.data(), recv.data(), drawn.count, COLL_INT64,
                                         COLL_SUM, comm, nullptr)));
        }
        const coll_stats_t now = stats_of(comm);
        ASSERT_EQ(now.operations, expected.operations) << "operation " << drawn.operation;
        ASSERT_EQ(now.bytes_sent, expected.bytes_sent) << "operation " << drawn.operation;
        ASSERT_EQ(now.bytes_received, expected.bytes_received) << "operation " << drawn.operation;
      }
      EXPECT_TRUE(ok(coll_stream_destroy(stream)));
    });
  }
}

/// Each block goes to the two other ranks once.
TEST(Traffic, OfUnequalBlocksIsPredictedAndCounted) {
  run_with(3, "ring", "shm", [](coll_comm_t comm, int rank) {
    constexpr std::size_t kCounts[] = {5, 0, 700'001};
    const auto own = static_cast<std::size_t>(rank);
    const Values send(kCounts[own], rank);
    Values recv(700'006);
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_ALL_GATHER;
    call.type = COLL_INT64;
    call.unequal = 1;
    call.recv_counts = kCounts;
    const coll_prediction_t made = predicted(comm, call);
    EXPECT_STREQ(made.algorithm, "ring");
    EXPECT_GT(made.microseconds, 0);
    EXPECT_EQ(made.bytes_received, 8 * (700'006 - kCounts[own]));
    // A rank of a ring sends all blocks but that of the rank behind it.
    EXPECT_EQ(made.bytes_sent, 8 * (700'006 - kCounts[(own + 1) % 3]));
    for (std::uint64_t i = 1; i <= 2; ++i) {
      ASSERT_TRUE(ok(
          coll_all_gatherv(send.data(), recv.data(), kCounts, nullptr, COLL_INT64, comm, nullptr)));
      EXPECT_EQ(stats_of(comm).operations, i);
      EXPECT_EQ(stats_of(comm).bytes_received, i * made.bytes_received);
      EXPECT_EQ(stats_of(comm).bytes_sent, i * made.bytes_sent);
    }
  });
}

TEST(Traffic, OfCallsThatFailIsNotCounted) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    const Values in(100, 1);
    Values out(100);
    ASSERT_TRUE(ok(all_reduce(in, out, comm)));
    const coll_stats_t before = stats_of(comm);
    EXPECT_EQ(before.operations, 1U);
    EXPECT_GT(before.bytes_sent, 0U);
    if (rank == 1) {
      ASSERT_TRUE(ok(coll_comm_abort(comm)));
    }
    EXPECT_EQ(all_reduce(in, out, comm), COLL_ABORTED);
    EXPECT_EQ(stats_of(comm).operations, 1U);
    EXPECT_EQ(stats_of(comm).bytes_sent, before.bytes_sent);
  });
}

/// More different calls than are remembered, while a thread reads: no sum ever goes back.
TEST(Traffic, IsReadWhileCallsRun) {
  run_ranks(2, [](coll_comm_t comm, int) {
    std::atomic<bool> over{false};
    std::thread reader([&] {
      coll_stats_t last = stats_of(comm);
      while (!over) {
        const coll_stats_t now = stats_of(comm);
        ASSERT_GE(now.operations, last.operations);
        ASSERT_GE(now.bytes_sent, last.bytes_sent);
        ASSERT_GE(now.bytes_received, last.bytes_received);
        last = now;
      }
    });
    const Values in(200, 1);
    Values out(200);
    constexpr std::size_t kCalls = 3000;
    std::uint64_t sent = 0;
    for (std::size_t i = 0; i < kCalls; ++i) {
      const std::size_t count = i * 7 % 200;
      if (i < 200) sent += 15 * predict(comm, {COLL_ALL_REDUCE, count, 0}).bytes_sent;
      ASSERT_TRUE(
          ok(coll_all_reduce(in.data(), out.data(), count, COLL_INT64, COLL_SUM, comm, nullptr)));
    }
    over = true;
    reader.join();
    EXPECT_EQ(stats_of(comm).operations, kCalls);
    EXPECT_EQ(stats_of(comm).bytes_sent, sent);
  });
}

TEST(Traffic, OfOneRankIsNothing) {
  run_ranks(1, [](coll_comm_t comm, int) {
    for (int operation = 0; operation < COLL_OPERATION_COUNT; ++operation) {
      const coll_prediction_t made =
          predict(comm, {static_cast<coll_operation_t>(operation), 1000, 0});
      EXPECT_EQ(made.bytes_sent, 0U);
      EXPECT_EQ(made.bytes_received, 0U);
    }
  });
}

TEST(Traffic, RefusesWhatMakesNoSense) {
  run_ranks(2, [](coll_comm_t comm, int) {
    coll_prediction_t made = COLL_PREDICTION_INIT;
    coll_stats_t stats = COLL_STATS_INIT;
    const auto refused = [](coll_status_t status, const char* words) {
      EXPECT_EQ(status, COLL_INVALID_ARGUMENT);
      EXPECT_NE(std::string(coll_last_error()).find(words), std::string::npos) << coll_last_error();
    };
    const auto ask = [&](coll_comm_t of, int operation, std::size_t count, int type, int root,
                         coll_prediction_t* into) {
      const coll_call_t call = asked(static_cast<coll_operation_t>(operation), count,
                                     static_cast<coll_dtype_t>(type), root);
      return coll_comm_predict(of, &call, into);
    };
    refused(ask(nullptr, 0, 1, COLL_INT8, 0, &made), "comm is null");
    refused(ask(comm, 0, 1, COLL_INT8, 0, nullptr), "prediction is null");
    refused(coll_comm_predict(comm, nullptr, &made), "call is null");
    refused(ask(comm, 99, 1, COLL_INT8, 0, &made), "unknown operation");
    refused(ask(comm, 0, 1, 99, 0, &made), "unknown dtype");
    refused(ask(comm, COLL_BROADCAST, 1, COLL_INT8, 2, &made), "root 2");
    refused(ask(comm, 0, ~std::size_t{0} / 4, COLL_INT64, 0, &made), "more than memory");
    made.size = 8;
    refused(ask(comm, 0, 1, COLL_INT8, 0, &made), "COLL_PREDICTION_INIT");
    refused(coll_comm_stats(nullptr, &stats), "comm is null");
    refused(coll_comm_stats(comm, nullptr), "stats is null");
    stats.version = 0;
    refused(coll_comm_stats(comm, &stats), "COLL_STATS_INIT");
  });
}

TEST(CppTraffic, IsPredictedAndCounted) {
  run_ranks(2, [](coll_comm_t handle, int rank) {
    coll_unique_id_t id;
    std::fill(std::begin(id.bytes), std::end(id.bytes), '\0');
    if (rank == 0) {
      ASSERT_TRUE(ok(coll_get_unique_id(&id)));
    }
    ASSERT_TRUE(
        ok(coll_broadcast(id.bytes, id.bytes, sizeof id.bytes, COLL_INT8, 0, handle, nullptr)));
    auto comm = Communicator::join(id, 2, rank);
    ASSERT_TRUE(comm);
    const auto made = comm->predict(asked(COLL_BROADCAST, 10, COLL_INT64, 1));
    ASSERT_TRUE(made) << made.error().text;
    EXPECT_EQ(made->bytes_sent, rank == 1 ? 80U : 0U);
    Values values(10, rank);
    ASSERT_TRUE(comm->broadcast(std::span(values), 1));
    EXPECT_EQ(comm->stats()->bytes_received, rank == 0 ? 80U : 0U);
    EXPECT_EQ(comm->predict(asked(COLL_BROADCAST, 10, COLL_INT64, 7)).error().code,
              COLL_INVALID_ARGUMENT);
  });
}

}  // namespace
}  // namespace collectives::testing
