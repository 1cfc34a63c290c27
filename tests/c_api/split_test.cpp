// SPDX-License-Identifier: Apache-2.0
// Communicators made from communicators.
#include <gtest/gtest.h>

#include <algorithm>
#include <collectives/collectives.hpp>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "api_calls.hpp"
#include "api_ranks.hpp"
#include "test_seed.hpp"

namespace {

using collectives::testing::asked;
using collectives::testing::explained;
using collectives::testing::run_ranks;

int rank_of(coll_comm_t comm) {
  int rank = -1;
  EXPECT_EQ(coll_comm_rank(comm, &rank), COLL_SUCCESS);
  return rank;
}

/// The old ranks of a communicator's ranks, which all of them must be able to say.
std::vector<int> members_of(coll_comm_t comm, int old_rank) {
  int size = 0;
  EXPECT_EQ(coll_comm_size(comm, &size), COLL_SUCCESS);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  EXPECT_EQ(coll_all_gather(&old_rank, ranks.data(), 1, COLL_INT32, comm, nullptr), COLL_SUCCESS)
      << coll_last_error();
  return ranks;
}

coll_comm_t must_split(coll_comm_t comm, int color, int key) {
  coll_comm_t part = nullptr;
  EXPECT_EQ(coll_comm_split(comm, color, key, nullptr, &part), COLL_SUCCESS) << coll_last_error();
  return part;
}

TEST(Split, AnyColoursAndKeys) {
  const std::uint64_t seed = coll::test::test_seed();
  for (const int ranks : {1, 2, 3, 5, 8}) {
    SCOPED_TRACE(ranks);
    run_ranks(ranks, [ranks, seed](coll_comm_t comm, int rank) {
      std::mt19937_64 random(seed);  // alike on all ranks
      for (int round = 0; round < 6; ++round) {
        std::vector<std::pair<int, int>> wishes;  // color, key
        for (int i = 0; i < ranks; ++i) {
          wishes.emplace_back(static_cast<int>(random() % 3) - 1,
                              static_cast<int>(random() % 5) - 2);
        }
        const auto [color, key] = wishes[static_cast<std::size_t>(rank)];
        coll_comm_t part = must_split(comm, color, key);
        if (color == COLL_SPLIT_NONE) {
          EXPECT_EQ(part, nullptr);
          continue;
        }
        std::vector<std::pair<int, int>> expected;  // key, old rank
        for (int i = 0; i < ranks; ++i) {
          const auto& wish = wishes[static_cast<std::size_t>(i)];
          if (wish.first == color) expected.emplace_back(wish.second, i);
        }
        std::ranges::sort(expected);
        const std::vector<int> members = members_of(part, rank);
        ASSERT_EQ(members.size(), expected.size());
        for (std::size_t i = 0; i < members.size(); ++i) EXPECT_EQ(members[i], expected[i].second);
        EXPECT_EQ(members[static_cast<std::size_t>(rank_of(part))], rank);
        EXPECT_EQ(coll_comm_destroy(part), COLL_SUCCESS);
      }
    });
  }
}

/// A grid's rows and columns, as tensor and data parallelism have them, after their parent's end.
TEST(Split, PartsOutliveTheirParent) {
  run_ranks(4, [](coll_comm_t comm, int rank) {
    coll_comm_t both = must_split(comm, 7, 0);
    coll_comm_t row = must_split(both, rank / 2, rank), column = must_split(both, rank % 2, rank);
    EXPECT_EQ(coll_comm_destroy(both), COLL_SUCCESS);
    EXPECT_EQ(members_of(row, rank), (std::vector{rank / 2 * 2, rank / 2 * 2 + 1}));
    EXPECT_EQ(members_of(column, rank), (std::vector{rank % 2, rank % 2 + 2}));
    EXPECT_EQ(coll_comm_destroy(row), COLL_SUCCESS);
    EXPECT_EQ(coll_comm_destroy(column), COLL_SUCCESS);
  });
}

TEST(Split, DuplicatesAreIndependent) {
  run_ranks(3, [](coll_comm_t comm, int rank) {
    coll_comm_t copy = nullptr;
    ASSERT_EQ(coll_comm_duplicate(comm, nullptr, &copy), COLL_SUCCESS) << coll_last_error();
    ASSERT_EQ(rank_of(copy), rank);
    // Its calls may stand in any order to those of the other.
    coll_stream_t stream = nullptr;
    ASSERT_EQ(coll_stream_create(&stream), COLL_SUCCESS);
    const std::vector<float> in(1000, 1);
    std::vector<float> out(1000), other(1000);
    const auto add = [&](coll_comm_t to, std::vector<float>& sums, coll_stream_t on) {
      EXPECT_EQ(coll_all_reduce(in.data(), sums.data(), in.size(), COLL_FLOAT32, COLL_SUM, to, on),
                COLL_SUCCESS)
          << coll_last_error();
    };
    if (rank == 1) add(copy, other, stream);
    add(comm, out, nullptr);
    if (rank != 1) add(copy, other, stream);
    EXPECT_EQ(coll_stream_synchronize(stream), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(out, std::vector<float>(1000, 3));
    EXPECT_EQ(other, out);
    EXPECT_EQ(coll_stream_destroy(stream), COLL_SUCCESS);
    EXPECT_EQ(coll_comm_destroy(copy), COLL_SUCCESS);
  });
}

TEST(Split, InheritsTheSettings) {
  run_ranks(2, [](coll_comm_t comm, int) {
    const auto algorithm_of = [](coll_comm_t of) {
      return explained(of, asked(COLL_ALL_REDUCE, 1000, COLL_FLOAT32));
    };
    coll_config_t config = COLL_CONFIG_INIT;
    config.algorithm = "all_reduce=ring";
    coll_comm_t ring = nullptr;
    ASSERT_EQ(coll_comm_split(comm, 0, 0, &config, &ring), COLL_SUCCESS) << coll_last_error();
    coll_comm_t child = must_split(ring, 0, 0);
    EXPECT_NE(algorithm_of(ring).find("forced by COLL_ALGORITHM"), std::string::npos);
    EXPECT_EQ(algorithm_of(comm).find("forced by COLL_ALGORITHM"), std::string::npos);
    EXPECT_EQ(algorithm_of(child), algorithm_of(ring));
    EXPECT_EQ(coll_comm_destroy(child), COLL_SUCCESS);
    EXPECT_EQ(coll_comm_destroy(ring), COLL_SUCCESS);
  });
}

std::uint64_t calls_of(coll_comm_t comm) {
  coll_stats_t stats = COLL_STATS_INIT;
  EXPECT_EQ(coll_comm_stats(comm, &stats), COLL_SUCCESS) << coll_last_error();
  return stats.operations;
}

/// The calls of `comm` that its duplicate takes; `use` sees the duplicate.
template <class Use>
std::uint64_t calls_to_duplicate(coll_comm_t comm, const coll_config_t* config, Use use) {
  const std::uint64_t before = calls_of(comm);
  coll_comm_t copy = nullptr;
  EXPECT_EQ(coll_comm_duplicate(comm, config, &copy), COLL_SUCCESS) << coll_last_error();
  const std::uint64_t taken = calls_of(comm) - before;
  const int rank = rank_of(comm);
  std::vector<int> all(members_of(comm, rank).size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(members_of(copy, rank), all);
  use(copy);
  EXPECT_EQ(coll_comm_destroy(copy), COLL_SUCCESS);
  return taken;
}

/// Ranks that keep their places, paths and settings have nothing to agree on.
TEST(Split, AnEqualDuplicateTakesOneExchange) {
  for (const int ranks : {2, 3, 5}) {
    SCOPED_TRACE(ranks);
    run_ranks(ranks, [](coll_comm_t comm, int rank) {
      const auto plan_of = [](coll_comm_t of) {
        return explained(of, asked(COLL_ALL_REDUCE, 1000, COLL_FLOAT32));
      };
      const auto same_plan = [&](coll_comm_t copy) { EXPECT_EQ(plan_of(copy), plan_of(comm)); };
      EXPECT_EQ(calls_to_duplicate(comm, nullptr, same_plan), 1U);
      coll_config_t config = COLL_CONFIG_INIT;
      config.name = "copy";  // it is this rank's affair
      config.deadline_s = 100;
      EXPECT_EQ(calls_to_duplicate(comm, rank == 1 ? &config : nullptr, [](coll_comm_t) {}), 1U);
      // A duplicate of a duplicate, and of a communicator with settings and paths of its own.
      EXPECT_EQ(calls_to_duplicate(comm, nullptr,
                                   [&](coll_comm_t copy) {
                                     EXPECT_EQ(calls_to_duplicate(copy, nullptr, same_plan), 1U);
                                   }),
                1U);
      config.transports = "tcp";
      config.algorithm = "all_reduce=ring";
      const std::uint64_t anew = calls_to_duplicate(comm, &config, [&](coll_comm_t own) {
        EXPECT_EQ(calls_to_duplicate(
                      own, nullptr,
                      [&](coll_comm_t copy) {
                        const std::string plan = plan_of(copy);
                        EXPECT_NE(plan.find("forced by COLL_ALGORITHM"), std::string::npos) << plan;
                        EXPECT_NE(plan.find(rank == 0 ? "1:tcp" : "0:tcp"), std::string::npos)
                            << plan;
                      }),
                  1U);
      });
      EXPECT_EQ(anew, 3U);
    });
  }
}

/// Where one rank asks for other settings, all agree: rank 0's count.
TEST(Split, AnotherSettingOfOneRankIsAgreedOn) {
  for (const int other : {0, 2}) {
    SCOPED_TRACE(other);
    run_ranks(3, [other](coll_comm_t comm, int rank) {
      coll_config_t config = COLL_CONFIG_INIT;
      config.algorithm = "all_reduce=ring";
      const std::uint64_t taken =
          calls_to_duplicate(comm, rank == other ? &config : nullptr, [other](coll_comm_t copy) {
            const std::string plan = explained(copy, asked(COLL_ALL_REDUCE, 1000, COLL_FLOAT32));
            const bool forced = plan.find("forced by COLL_ALGORITHM") != std::string::npos;
            EXPECT_EQ(forced, other == 0) << plan;
          });
      EXPECT_EQ(taken, 3U);
    });
  }
}

/// Longer than the block in which the old communicator carries what ranks tell each other.
TEST(Split, LongSettingsOfOneRankReachAll) {
  run_ranks(5, [](coll_comm_t comm, int rank) {
    std::string algorithm = "all_reduce=ring";
    for (int i = 0; i < 200; ++i) algorithm += ",all_reduce=ring";
    coll_config_t config = COLL_CONFIG_INIT;
    if (rank == 2) config.algorithm = algorithm.c_str();  // the first of its part
    coll_comm_t part = nullptr;
    ASSERT_EQ(coll_comm_split(comm, rank == 1 ? 1 : 0, rank == 2 ? -1 : 0, &config, &part),
              COLL_SUCCESS)
        << coll_last_error();
    if (rank != 1) {
      const std::string plan = explained(part, asked(COLL_ALL_REDUCE, 1000, COLL_FLOAT32));
      EXPECT_NE(plan.find("forced by COLL_ALGORITHM"), std::string::npos) << plan;
    }
    EXPECT_EQ(coll_barrier(part, nullptr), COLL_SUCCESS);
    EXPECT_EQ(coll_comm_destroy(part), COLL_SUCCESS);
  });
}

TEST(Split, RefusedOnOneRankFailsOnAll) {
  run_ranks(3, [](coll_comm_t comm, int rank) {
    coll_comm_t part = nullptr;
    EXPECT_EQ(coll_comm_split(comm, rank == 1 ? -2 : 0, 0, nullptr, &part), COLL_INVALID_ARGUMENT);
    EXPECT_NE(std::string(coll_last_error()).find(rank == 1 ? "-2" : "rank 1"), std::string::npos)
        << coll_last_error();
    coll_config_t config = COLL_CONFIG_INIT;
    config.transports = rank == 2 ? "pigeon" : nullptr;
    EXPECT_EQ(coll_comm_split(comm, 0, 0, &config, &part), COLL_INVALID_ARGUMENT);
    EXPECT_EQ(coll_comm_split(comm, 0, 0, nullptr, rank == 0 ? nullptr : &part),
              COLL_INVALID_ARGUMENT);
    EXPECT_EQ(part, nullptr);
    part = must_split(comm, 0, 0);
    EXPECT_EQ(members_of(part, rank).size(), 3U);
    EXPECT_EQ(coll_comm_destroy(part), COLL_SUCCESS);
  });
}

TEST(Subset, OnlyItsRanksCall) {
  run_ranks(5, [](coll_comm_t comm, int rank) {
    const std::vector<int> wanted{3, 0, 4};
    if (std::ranges::find(wanted, rank) == wanted.end()) return;
    coll_comm_t part = nullptr;
    ASSERT_EQ(coll_comm_subset(comm, wanted.data(), 3, nullptr, &part), COLL_SUCCESS)
        << coll_last_error();
    EXPECT_EQ(members_of(part, rank), wanted);
    EXPECT_EQ(coll_comm_destroy(part), COLL_SUCCESS);
  });
}

TEST(Subset, RefusesListsThatAreWrong) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    const auto subset = [&](std::vector<int> ranks) {
      coll_comm_t part = nullptr;
      const coll_status_t status =
          coll_comm_subset(comm, ranks.data(), static_cast<int>(ranks.size()), nullptr, &part);
      EXPECT_TRUE(part == nullptr || coll_comm_destroy(part) == COLL_SUCCESS);
      return status;
    };
    EXPECT_EQ(subset({0, 1, 2}), COLL_INVALID_ARGUMENT);
    EXPECT_EQ(subset({rank, rank}), COLL_INVALID_ARGUMENT);
    EXPECT_EQ(subset({1 - rank}), COLL_INVALID_ARGUMENT);
    EXPECT_NE(std::string(coll_last_error()).find("not among"), std::string::npos);
    EXPECT_EQ(coll_comm_subset(comm, nullptr, 1, nullptr, nullptr), COLL_INVALID_ARGUMENT);
    EXPECT_EQ(subset({rank}), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(subset({1, 0}), COLL_SUCCESS) << coll_last_error();
  });
}

/// The first rank hears that the others do not come, though they stay.
TEST(Subset, ListsThatDifferAreAMismatch) {
  run_ranks(3, [](coll_comm_t comm, int rank) {
    coll_config_t config = COLL_CONFIG_INIT;
    config.connect_s = 5;
    const std::vector<std::vector<int>> lists{{0, 1, 2}, {0, 1}, {0, 2, 1}};
    const std::vector<int>& ranks = lists[static_cast<std::size_t>(rank)];
    coll_comm_t part = nullptr;
    const coll_status_t status =
        coll_comm_subset(comm, ranks.data(), static_cast<int>(ranks.size()), &config, &part);
    if (rank == 0) {
      EXPECT_EQ(status, COLL_PEER_LOST) << coll_last_error();
    } else {
      EXPECT_EQ(status, COLL_MISMATCH) << coll_last_error();
    }
    EXPECT_EQ(part, nullptr);
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_SUCCESS) << coll_last_error();
  });
}

TEST(Split, RefusesWhatSaysNothing) {
  run_ranks(1, [](coll_comm_t comm, int) {
    coll_comm_t part = nullptr;
    EXPECT_EQ(coll_comm_split(comm, -2, 0, nullptr, &part), COLL_INVALID_ARGUMENT);
    EXPECT_EQ(coll_comm_split(comm, 0, 0, nullptr, nullptr), COLL_INVALID_ARGUMENT);
    EXPECT_EQ(coll_comm_split(nullptr, 0, 0, nullptr, &part), COLL_INVALID_ARGUMENT);
    auto alone = must_split(comm, 0, 0);
    EXPECT_EQ(members_of(alone, 0), std::vector{0});
    EXPECT_EQ(coll_comm_destroy(alone), COLL_SUCCESS);
  });
}

TEST(Split, ManyCommunicators) {
  run_ranks(4, [](coll_comm_t comm, int rank) {
    std::vector<coll_comm_t> many;
    for (int i = 0; i < 40; ++i) many.push_back(must_split(comm, (rank + i) % 2, 0));
    for (coll_comm_t each : many) {
      EXPECT_EQ(members_of(each, rank).size(), 2U);
      EXPECT_EQ(coll_comm_destroy(each), COLL_SUCCESS);
    }
  });
}

TEST(Split, ThroughTheCppFace) {
  run_ranks(2, [](coll_comm_t handle, int rank) {
    coll_comm_t copy = nullptr;
    ASSERT_EQ(coll_comm_duplicate(handle, nullptr, &copy), COLL_SUCCESS);
    EXPECT_EQ(coll_comm_destroy(copy), COLL_SUCCESS);
    coll_unique_id_t id{};
    ASSERT_TRUE(rank != 0 || coll_get_unique_id(&id) == COLL_SUCCESS);
    ASSERT_EQ(coll_broadcast(&id, &id, sizeof id, COLL_UINT8, 0, handle, nullptr), COLL_SUCCESS);
    auto comm = collectives::Communicator::join(id, 2, rank);
    ASSERT_TRUE(comm.ok()) << comm.error().text;
    auto part = comm->split(rank == 0 ? 5 : COLL_SPLIT_NONE);
    ASSERT_TRUE(part.ok()) << part.error().text;
    EXPECT_EQ(part->has_value(), rank == 0);
    auto second = comm->duplicate();
    ASSERT_TRUE(second.ok()) << second.error().text;
    const std::vector<int> reversed{1, 0};
    auto third = second->subset(reversed);
    ASSERT_TRUE(third.ok()) << third.error().text;
    EXPECT_EQ(third->rank(), 1 - rank);
  });
}

}  // namespace
