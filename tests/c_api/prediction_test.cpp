// SPDX-License-Identifier: Apache-2.0
// Predictions of calls that coll_call_t alone can say: unequal blocks and tags.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "api_calls.hpp"
#include "api_ranks.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace {

/// Every operation on unequal blocks, with drawn counts, by whatever algorithms are chosen.
TEST(Prediction, OfDrawnUnequalBlocksIsWhatIsCounted) {
  constexpr std::size_t kRanks = 4;
  const std::uint64_t seed = coll::test::test_seed();
  coll_config_t config = config_with();
  config.order = COLL_ORDER_TREE;  // sums with scratch, too
  run_ranks(
      kRanks,
      [&](coll_comm_t comm, int rank) {
        std::mt19937_64 common(seed);
        const auto own = static_cast<std::size_t>(rank);
        for (int round = 0; round < 30; ++round) {
          std::size_t counts[kRanks][kRanks];  // what a rank gives to a rank
          for (auto& row : counts) {
            for (std::size_t& count : row) count = common() % 3 == 0 ? 0 : common() % 90'000;
          }
          std::size_t given[kRanks], taken[kRanks];
          for (std::size_t r = 0; r < kRanks; ++r) {
            given[r] = counts[own][r];
            taken[r] = counts[r][own];
          }
          std::vector<double> send(kRanks * 90'000, 1), recv(kRanks * 90'000);
          coll_call_t call = COLL_CALL_INIT;
          const coll_operation_t all[] = {COLL_ALL_GATHER, COLL_REDUCE_SCATTER, COLL_ALL_TO_ALL,
                                          COLL_GATHER, COLL_SCATTER};
          call.operation = all[round % 5];
          call.type = COLL_FLOAT64;
          call.unequal = 1;
          call.root = static_cast<int>(common() % kRanks);
          call.count = counts[0][own];
          call.send_counts = call.operation == COLL_ALL_TO_ALL ? given : counts[0];
          call.recv_counts = call.operation == COLL_ALL_TO_ALL ? taken : counts[0];
          const coll_prediction_t made = predicted(comm, call);
          call.send = send.data();
          call.recv = recv.data();
          const coll_stats_t before = stats_of(comm);
          ASSERT_TRUE(ok(finish(start(call, comm))));
          const coll_stats_t after = stats_of(comm);
          EXPECT_EQ(after.bytes_sent - before.bytes_sent, made.bytes_sent) << call.operation;
          EXPECT_EQ(after.bytes_received - before.bytes_received, made.bytes_received)
              << call.operation;
          // Whatever the algorithm: a stats' count is no witness, it is of the same making.
          std::size_t others = 0;
          const auto* const each = call.operation == COLL_ALL_TO_ALL ? taken : counts[0];
          for (std::size_t r = 0; r < kRanks; ++r) others += r == own ? 0 : each[r];
          if (call.operation == COLL_ALL_GATHER || call.operation == COLL_ALL_TO_ALL) {
            EXPECT_EQ(made.bytes_received, others * sizeof(double)) << call.operation;
          } else if (call.operation == COLL_REDUCE_SCATTER) {  // by one_shot_ordered
            EXPECT_EQ(made.bytes_sent, others * sizeof(double));
            EXPECT_EQ(made.bytes_received, (kRanks - 1) * counts[0][own] * sizeof(double));
          }
        }
      },
      config);
}

/// A tagged message moves what another one does, once it has met its other end.
TEST(Prediction, OfTaggedMessagesIsPredicted) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    coll_call_t call = asked(rank == 0 ? COLL_SEND : COLL_RECV, 1000, COLL_INT64, 1 - rank);
    call.tagged = 1;
    EXPECT_EQ(predicted(comm, call).bytes_sent, rank == 0 ? 8000U : 0U);
    EXPECT_EQ(predicted(comm, call).bytes_received, rank == 0 ? 0U : 8000U);
    call.root = rank;  // itself: a copy
    EXPECT_EQ(predicted(comm, call).bytes_sent, 0U);
    call.operation = COLL_RECV;
    call.root = COLL_ANY_SOURCE;
    coll_prediction_t made = COLL_PREDICTION_INIT;
    EXPECT_EQ(coll_comm_predict(comm, &call, &made), COLL_INVALID_ARGUMENT);
    EXPECT_NE(std::string(coll_last_error()).find("any source"), std::string::npos);
  });
}

TEST(Prediction, OfUnequalBlocksNeedsTheirCounts) {
  for (const int size : {1, 2}) {
    run_ranks(size, [](coll_comm_t comm, int rank) {
      coll_call_t call = asked(COLL_GATHER, 0);
      call.unequal = 1;
      coll_prediction_t made = COLL_PREDICTION_INIT;
      if (rank == 0) {
        EXPECT_EQ(coll_comm_predict(comm, &call, &made), COLL_INVALID_ARGUMENT);
        EXPECT_NE(std::string(coll_last_error()).find("gatherv: recv_counts is null"),
                  std::string::npos);
      }
      const std::size_t none[2] = {};
      call.recv_counts = none;
      EXPECT_EQ(predicted(comm, call).bytes_sent, 0U);
      EXPECT_EQ(predicted(comm, call).bytes_received, 0U);
      call.operation = COLL_ALL_REDUCE;
      EXPECT_EQ(coll_comm_predict(comm, &call, &made), COLL_INVALID_ARGUMENT);
      EXPECT_NE(std::string(coll_last_error()).find("coll_comm_predict: all_reduce has no block"),
                std::string::npos);
      call.tagged = 1;
      EXPECT_EQ(coll_comm_predict(comm, &call, &made), COLL_INVALID_ARGUMENT);
      EXPECT_NE(std::string(coll_last_error()).find("has no tag"), std::string::npos);
    });
  }
}

/// Where only the root knows all blocks, the others take theirs for usual.
TEST(Prediction, OfAGatherTakesAsLongOnAllRanks) {
  std::atomic<double> at_root{0}, at_other{0};
  run_ranks(3, [&](coll_comm_t comm, int rank) {
    constexpr std::size_t kCounts[] = {50'000, 50'000, 50'000};
    coll_call_t call = asked(COLL_GATHER, 50'000);
    call.unequal = 1;
    call.recv_counts = kCounts;
    (rank == 0 ? at_root : at_other) = predicted(comm, call).microseconds;
  });
  EXPECT_EQ(at_root.load(), at_other.load());
}

/// Equal blocks take as long as unequal ones that are as long.
TEST(Prediction, OfEqualBlocksIsOfAllOfThem) {
  coll_config_t config = config_with();
  config.algorithm = "ring";
  run_ranks(
      3,
      [&](coll_comm_t comm, int) {
        constexpr std::size_t kCounts[] = {50'000, 50'000, 50'000};
        for (const coll_operation_t operation : {COLL_ALL_GATHER, COLL_REDUCE_SCATTER}) {
          coll_call_t call = asked(operation, 50'000);
          const double equal = predicted(comm, call).microseconds;
          call.unequal = 1;
          call.send_counts = call.recv_counts = kCounts;
          EXPECT_EQ(equal, predicted(comm, call).microseconds);
        }
      },
      config);
}

}  // namespace
}  // namespace collectives::testing
