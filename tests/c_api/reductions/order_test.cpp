// SPDX-License-Identifier: Apache-2.0
// Sums in the order of the tree: the same bits whatever carries them out.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "c_api/reductions/order_calls.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace {

#ifdef SANITIZED
constexpr int kStep = 3;
constexpr std::size_t kLongCount = 30'000, kForcedCount = 4000;
constexpr int kForcedRanks[] = {3, 4, 6};
#else
constexpr int kStep = 1;  ///< between numbers of ranks
constexpr std::size_t kLongCount = 150'000, kForcedCount = 20'000;
constexpr int kForcedRanks[] = {3, 4, 5, 6, 7, 8};
#endif

/// Every operation that sums, of `count` elements per rank, on one rank of a communicator.
template <class T>
void check_all(coll_comm_t comm, int rank, const Inputs<T>& inputs, coll_dtype_t type) {
  const auto ranks = static_cast<int>(inputs.size());
  const std::vector<T>& mine = inputs[static_cast<std::size_t>(rank)];
  const std::size_t count = mine.size();
  for (const coll_op_t op : {COLL_SUM, COLL_AVG, COLL_PROD}) {
    const std::vector<T> expected = tree(inputs, op);
    const auto is = [&](std::span<const T> result, std::size_t first) {
      return same_bits(result, std::span(expected).subspan(first, result.size()));
    };
    std::vector<T> out(count);
    EXPECT_TRUE(ok(coll_all_reduce(mine.data(), out.data(), count, type, op, comm, nullptr)));
    EXPECT_TRUE(is(out, 0)) << "all_reduce";
    out = mine;
    EXPECT_TRUE(ok(coll_all_reduce(out.data(), out.data(), count, type, op, comm, nullptr)));
    EXPECT_TRUE(is(out, 0)) << "all_reduce in place";
    for (const int root : {0, ranks / 2, ranks - 1}) {
      out.assign(count, T{});
      EXPECT_TRUE(ok(coll_reduce(mine.data(), out.data(), count, type, op, root, comm, nullptr)));
      EXPECT_TRUE(rank != root || is(out, 0)) << "reduce to " << root;
    }
    const std::size_t block = count / inputs.size();
    const auto own = static_cast<std::size_t>(rank);
    out.resize(block);
    EXPECT_TRUE(ok(coll_reduce_scatter(mine.data(), out.data(), block, type, op, comm, nullptr)));
    EXPECT_TRUE(is(out, own * block)) << "reduce_scatter";
    // Blocks of other lengths: rank r's is r times as long as rank 1's, so that of rank 0 is empty.
    std::vector<std::size_t> counts(inputs.size()), displs(inputs.size());
    const std::size_t unit = count / (inputs.size() * inputs.size());
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      counts[r] = r * unit;
      displs[r] = r == 0 ? 0 : displs[r - 1] + counts[r - 1];
    }
    out.resize(counts[own]);
    EXPECT_TRUE(ok(coll_reduce_scatterv(mine.data(), out.data(), counts.data(), displs.data(), type,
                                        op, comm, nullptr)));
    EXPECT_TRUE(is(out, displs[own])) << "reduce_scatterv";
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Order, IsTheTreesForAnyRankCountSizeAndTransport) {
  for (const char* transports : {"shm", "tcp"}) {
    for (int ranks = 1; ranks <= 9; ranks += kStep) {
      SCOPED_TRACE(std::string(transports) + ", " + std::to_string(ranks) + " ranks");
      run_ranks(
          ranks,
          [&](coll_comm_t comm, int rank) {
            for (const std::size_t count : {1U, 200U, 3001U}) {
              check_all(comm, rank, drawn<float>(ranks, count), COLL_FLOAT32);
            }
            check_all(comm, rank, drawn<double>(ranks, 500), COLL_FLOAT64);
          },
          in_tree_order(transports));
      if (HasFailure()) return;
    }
  }
}

TEST(Order, IsTheTreesForManyWindows) {
  for (const int ranks : {3, 4, 6}) {
    const Inputs<float> inputs = drawn<float>(ranks, kLongCount);
    run_ranks(
        ranks, [&](coll_comm_t comm, int rank) { check_all(comm, rank, inputs, COLL_FLOAT32); },
        in_tree_order());
  }
}

/// With lanes and slices of all lengths.
TEST(Order, IsTheTreesWithEveryAlgorithmThatKeepsIt) {
  for (const std::string algorithm :
       {"recursive_doubling/2x4K", "recursive_halving_doubling/4x1K", "one_shot_ordered/2x512",
        "two_shot_ordered/3x2K", "binomial/1x64K"}) {
    for (const int ranks : kForcedRanks) {
      if (algorithm.starts_with("binomial") && ranks % 4 != 0) continue;
      SCOPED_TRACE(algorithm + ", " + std::to_string(ranks) + " ranks");
      const Inputs<float> inputs = drawn<float>(ranks, kForcedCount);
      run_ranks(
          ranks,
          [&](coll_comm_t comm, int rank) {
            const std::string text = explained(comm, asked(COLL_ALL_REDUCE, 1 << 20, COLL_FLOAT32));
            EXPECT_NE(text.find(algorithm.substr(0, algorithm.find('/'))), text.npos);
            EXPECT_NE(text.find("(forced by"), text.npos);
            check_all(comm, rank, inputs, COLL_FLOAT32);
          },
          in_tree_order(nullptr, algorithm.c_str()));
    }
  }
}

/// Else the tests above would show nothing: another order gives other bits.
TEST(Order, OfARingIsAnother) {
  constexpr int kRanks = 4;
  constexpr std::size_t kCount = 1000;
  const Inputs<float> inputs = drawn<float>(kRanks, kCount);
  coll_config_t config = config_with();
  config.order = COLL_ORDER_ANY;
  config.algorithm = "all_reduce=ring";
  run_ranks(
      kRanks,
      [&](coll_comm_t comm, int rank) {
        std::vector<float> out(kCount);
        EXPECT_TRUE(ok(coll_all_reduce(inputs[static_cast<std::size_t>(rank)].data(), out.data(),
                                       kCount, COLL_FLOAT32, COLL_SUM, comm, nullptr)));
        EXPECT_FALSE(same_bits<float>(out, tree(inputs)));
      },
      config);
}

/// Many calls in flight, of one program and its scratch, on streams and in a group.
TEST(Order, IsTheTreesInFlight) {
  constexpr int kRanks = 6, kCalls = 8;
  constexpr std::size_t kCount = 30'000;
  const Inputs<float> inputs = drawn<float>(kRanks, kCount);
  const std::vector<float> expected = tree(inputs);
  run_ranks(
      kRanks,
      [&](coll_comm_t comm, int rank) {
        const std::vector<float>& in = inputs[static_cast<std::size_t>(rank)];
        std::vector<std::vector<float>> outs(kCalls, std::vector<float>(kCount));
        coll_stream_t streams[] = {make_stream(), make_stream()};
        for (std::size_t i = 0; i < outs.size(); ++i) {
          EXPECT_TRUE(ok(coll_all_reduce(in.data(), outs[i].data(), kCount, COLL_FLOAT32, COLL_SUM,
                                         comm, streams[i % 2])));
        }
        for (coll_stream_t stream : streams) EXPECT_TRUE(ok(coll_stream_destroy(stream)));
        for (const auto& out : outs) EXPECT_TRUE(same_bits<float>(out, expected));
        for (auto& out : outs) out.assign(kCount, 0);
        EXPECT_TRUE(ok(coll_group_start()));
        for (auto& out : outs) {
          EXPECT_TRUE(ok(coll_all_reduce(in.data(), out.data(), kCount, COLL_FLOAT32, COLL_SUM,
                                         comm, nullptr)));
        }
        EXPECT_TRUE(ok(coll_group_end()));
        for (const auto& out : outs) EXPECT_TRUE(same_bits<float>(out, expected));
      },
      in_tree_order(nullptr, "two_shot_ordered/2x4K"));
}

/// The products are what is summed.
TEST(Order, OfProductsWithFactors) {
  constexpr int kRanks = 5;
  Inputs<float> inputs = drawn<float>(kRanks, 1000);
  const auto factor_of = [](int rank) { return 1.0F / static_cast<float>(rank + 3); };
  Inputs<float> products = inputs;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (float& value : products[static_cast<std::size_t>(rank)]) value *= factor_of(rank);
  }
  run_ranks(
      kRanks,
      [&](coll_comm_t comm, int rank) {
        std::vector<float> out(1000);
        const float factor = factor_of(rank);
        coll_call_t call = asked(COLL_ALL_REDUCE, out.size(), COLL_FLOAT32);
        call.send = inputs[static_cast<std::size_t>(rank)].data();
        call.recv = out.data();
        call.factor = &factor;
        EXPECT_TRUE(ok(finish(start(call, comm))));
        EXPECT_TRUE(same_bits<float>(out, tree(products)));
      },
      in_tree_order());
}

/// Small floats are rounded after each pass: large and small calls give the same bits.
TEST(Order, OfEveryTypeIsOneForAllSizes) {
  constexpr int kRanks = 5;
  constexpr std::size_t kBytes = 1 << 20, kFew = 48;
  for (const coll_dtype_t type :
       {COLL_FLOAT16, COLL_BFLOAT16, COLL_FLOAT8_E4M3, COLL_FLOAT8_E5M2, COLL_COMPLEX64}) {
    SCOPED_TRACE(type);
    const std::size_t size = type == COLL_COMPLEX64                          ? 8
                             : type == COLL_FLOAT16 || type == COLL_BFLOAT16 ? 2
                                                                             : 1;
    run_ranks(
        kRanks,
        [&](coll_comm_t comm, int rank) {
          std::mt19937_64 random(coll::test::test_seed() + static_cast<std::uint64_t>(rank));
          std::vector<unsigned char> in(kBytes), large(kBytes), small(kFew);
          if (type == COLL_COMPLEX64) {
            std::vector<std::complex<float>> values(kBytes / size);
            for (auto& value : values) {
              value = {static_cast<float>(random() % 1000) / 7,
                       -1.0F / static_cast<float>(rank + 3)};
            }
            std::memcpy(in.data(), values.data(), kBytes);
          } else {
            for (unsigned char& byte : in) byte = static_cast<unsigned char>(random());
          }
          for (const coll_op_t op : {COLL_SUM, COLL_AVG, COLL_PROD}) {
            EXPECT_TRUE(ok(
                coll_all_reduce(in.data(), large.data(), kBytes / size, type, op, comm, nullptr)));
            for (const std::size_t at : {std::size_t{0}, kBytes / 2, kBytes - kFew}) {
              EXPECT_TRUE(ok(coll_all_reduce(in.data() + at, small.data(), kFew / size, type, op,
                                             comm, nullptr)));
              EXPECT_EQ(std::memcmp(small.data(), large.data() + at, kFew), 0) << "op " << op;
            }
          }
        },
        in_tree_order());
  }
}

/// With each rank's own inputs summed in pairs, 1, 2, 4 and 8 ranks get the same bits.
TEST(Order, GivesTheSameBitsOnOneTwoFourOrEightRanks) {
  constexpr int kLeaves = 8;
  constexpr std::size_t kCount = 1000;
  const Inputs<float> leaves = drawn<float>(kLeaves, kCount);
  const std::vector<float> expected = tree(leaves);
  for (const int ranks : {1, 2, 4, 8}) {
    run_ranks(
        ranks,
        [&](coll_comm_t comm, int rank) {
          const auto each = static_cast<std::size_t>(kLeaves / ranks);
          const auto first = leaves.begin() + static_cast<std::ptrdiff_t>(each) * rank;
          const std::vector<float> local =
              tree(Inputs<float>(first, first + static_cast<std::ptrdiff_t>(each)));
          std::vector<float> out(kCount);
          EXPECT_TRUE(ok(coll_all_reduce(local.data(), out.data(), kCount, COLL_FLOAT32, COLL_SUM,
                                         comm, nullptr)));
          EXPECT_TRUE(same_bits<float>(out, expected)) << ranks << " ranks";
        },
        in_tree_order());
  }
}

}  // namespace
}  // namespace collectives::testing
