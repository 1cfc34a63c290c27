// SPDX-License-Identifier: Apache-2.0
// Drawn groups of drawn operations on drawn communicators and streams, by threads and by processes.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "communicator/rank_processes.hpp"
#include "random_operation.hpp"
#include "random_teams.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace {

/// All ranks run it with the same seed.
class RandomGroups {
 public:
  RandomGroups(coll_comm_t world, int rank, int size, std::uint64_t seed)
      : rank_(rank), random_(seed), teams_(world, rank, size, random_) {
    for (std::size_t i = 1; i < streams_.size(); ++i) streams_[i] = make_stream();
  }
  RandomGroups(const RandomGroups&) = delete;
  RandomGroups& operator=(const RandomGroups&) = delete;
  ~RandomGroups() {
    for (std::size_t i = 1; i < streams_.size(); ++i) {
      EXPECT_TRUE(ok(coll_stream_destroy(streams_[i])));
    }
  }

  /// Issues a few groups and single operations, waits in an order of the rank's own, and compares.
  void run_round() {
    for (std::size_t groups = 1 + random_() % 3; groups > 0; --groups) issue_group();
    std::mt19937_64 own(random_() + static_cast<std::uint64_t>(rank_));
    std::ranges::shuffle(works_, own);
    for (coll_work_t work : works_) {
      EXPECT_TRUE(ok(coll_work_wait(work, -1)));
      EXPECT_TRUE(ok(coll_work_free(work)));
    }
    works_.clear();
    for (std::size_t i = 1; i < streams_.size(); ++i) {
      EXPECT_TRUE(ok(coll_stream_synchronize(streams_[i])));
    }
    for (const Started& one : started_) one.operation->check(one.rank);
    started_.clear();
    if (random_() % 4 == 0) teams_.renew();
  }

 private:
  struct Started {
    std::unique_ptr<RandomOperation> operation;
    int rank;
  };

  void issue_group() {
    const bool grouped = random_() % 4 != 0;
    if (grouped) {
      EXPECT_TRUE(ok(coll_group_start()));
    }
    for (std::size_t left = random_() % 10; left > 0; --left) issue_one(grouped);
    if (grouped) {
      EXPECT_TRUE(ok(coll_group_end()));
    }
  }

  void issue_one(bool grouped) {
    const Team& team = teams_.draw();
    const coll_stream_t stream = streams_[random_() % streams_.size()];
    const bool handle = stream == nullptr || random_() % 2 == 0;
    auto operation = std::make_unique<RandomOperation>(random_, team.size(), ++number_);
    const int rank = team.rank_of(rank_);
    if (rank < 0 || !operation->concerns(rank)) return;
    const bool needs_group = !grouped && operation->is_send_to_itself();
    if (needs_group) {
      EXPECT_TRUE(ok(coll_group_start()));
    }
    operation->start(team.comm, rank, stream, handle ? &works_ : nullptr);
    if (needs_group) {
      EXPECT_TRUE(ok(coll_group_end()));
    }
    started_.push_back({std::move(operation), rank});
  }

  int rank_;
  std::mt19937_64 random_;  ///< alike on all ranks
  RandomTeams teams_;
  std::array<coll_stream_t, 4> streams_{};  ///< the first is none
  std::int64_t number_ = 0;
  std::vector<coll_work_t> works_;
  std::vector<Started> started_;
};

#ifdef TRY_LESS
constexpr int kRounds = 10;
#else
constexpr int kRounds = 40;
#endif

void by_processes(const char* transports) {
  const std::uint64_t seed = coll::test::test_seed();
  constexpr int kSize = 4;
  const Meetings meetings;
  RankProcesses ranks(kSize, [&](int rank) {
    coll_comm_t world = join(meetings.place(0), transports, kSize, rank, 40);
    if (world == nullptr) return 1;
    {
      RandomGroups groups(world, rank, kSize, seed);
      for (int i = 0; i < kRounds; ++i) groups.run_round();
    }
    EXPECT_TRUE(ok(coll_comm_destroy(world)));
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  ranks.expect_all_good();
}

TEST(RandomGroups, OfProcesses) {
  by_processes("shm,tcp");
}

TEST(RandomGroups, OfProcessesOverTcp) {
  by_processes("tcp");
}

void by_threads(int size, const char* transports) {
  const std::uint64_t seed = coll::test::test_seed() + static_cast<std::uint64_t>(size);
  coll_config_t config = config_with();
  config.transports = transports;
  run_ranks(
      size,
      [&](coll_comm_t world, int rank) {
        RandomGroups groups(world, rank, size, seed);
        for (int i = 0; i < kRounds && !::testing::Test::HasFailure(); ++i) groups.run_round();
      },
      config);
}

TEST(RandomGroups, OfThreadsOverSharedMemory) {
  for (const int size : {1, 2, 3, 5}) by_threads(size, "shm");
}

TEST(RandomGroups, OfThreadsOverTcp) {
  for (const int size : {2, 4}) by_threads(size, "tcp");
}

}  // namespace
}  // namespace collectives::testing
