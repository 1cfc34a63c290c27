// SPDX-License-Identifier: Apache-2.0
// Joins that do not block: one thread joins as several ranks, and goes on meanwhile.
#include <collectives/collectives.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "communicator/rank_processes.hpp"
#include "temporary_folder.hpp"

namespace collectives::testing {
namespace {

/// A config that makes a join give `joining` instead of waiting.
coll_config_t config_for(coll_joining_t& joining, double connect_s = 30) {
  coll_config_t config = config_with(30, connect_s);
  config.joining = &joining;
  return config;
}

coll_comm_t waited(coll_joining_t joining) {
  coll_comm_t comm = nullptr;
  EXPECT_TRUE(ok(coll_joining_wait(joining, -1, &comm)));
  EXPECT_TRUE(ok(coll_joining_free(joining)));
  return comm;
}

/// All ranks of a communicator in this thread.
std::vector<coll_comm_t> join_all(int size) {
  coll_unique_id_t id;
  EXPECT_TRUE(ok(coll_get_unique_id(&id)));
  std::vector<coll_joining_t> joinings(static_cast<std::size_t>(size));
  std::vector<coll_comm_t> comms;
  for (int rank = 0; rank < size; ++rank) {
    coll_config_t config = config_for(joinings[static_cast<std::size_t>(rank)]);
    coll_comm_t none = reinterpret_cast<coll_comm_t>(&config);
    EXPECT_TRUE(ok(coll_comm_init_rank(&none, size, &id, rank, &config)));
    EXPECT_EQ(none, nullptr) << "it is handed out later";
  }
  for (coll_joining_t joining : joinings) comms.push_back(waited(joining));
  return comms;
}

/// In a group, all ranks move together.
void sum_over(const std::vector<coll_comm_t>& comms, std::size_t count) {
  std::vector<Values> data;
  for (std::size_t rank = 0; rank < comms.size(); ++rank) {
    data.emplace_back(count, static_cast<std::int64_t>(rank + 1));
  }
  EXPECT_TRUE(ok(coll_group_start()));
  for (std::size_t rank = 0; rank < comms.size(); ++rank) {
    EXPECT_TRUE(ok(all_reduce(data[rank], data[rank], comms[rank])));
  }
  EXPECT_TRUE(ok(coll_group_end()));
  const auto size = static_cast<std::int64_t>(comms.size());
  for (const Values& sums : data) EXPECT_EQ(sums, Values(count, size * (size + 1) / 2));
}

TEST(Joining, OneThreadIsSeveralRanks) {
  for (const int size : {1, 3}) {
    const std::vector<coll_comm_t> comms = join_all(size);
    for (int rank = 0; rank < size; ++rank) {
      int told = -1;
      EXPECT_TRUE(ok(coll_comm_rank(comms[static_cast<std::size_t>(rank)], &told)));
      EXPECT_EQ(told, rank);
    }
    for (const std::size_t count : {1U, 1000U, 1'000'000U}) sum_over(comms, count);
    for (coll_comm_t comm : comms) EXPECT_TRUE(ok(coll_comm_destroy(comm)));
  }
}

/// Also of communicators made from others: what they exchange is over before the call returns.
TEST(Joining, OfSplitsAndSubsets) {
  run_ranks(3, [](coll_comm_t comm, int rank) {
    coll_joining_t joining = nullptr;
    const coll_config_t config = config_for(joining);
    coll_comm_t part = nullptr;
    EXPECT_TRUE(ok(coll_comm_split(comm, rank == 2 ? COLL_SPLIT_NONE : 0, -rank, &config, &part)));
    EXPECT_EQ(part, nullptr);
    part = waited(joining);
    EXPECT_EQ(part == nullptr, rank == 2) << "a rank without a part gets none";
    coll_comm_t copy = nullptr;
    EXPECT_TRUE(ok(coll_comm_duplicate(comm, &config, &copy)));
    EXPECT_TRUE(ok(coll_barrier(comm, nullptr))) << "meanwhile the old one goes on";
    copy = waited(joining);
    Values sum{1};
    EXPECT_TRUE(ok(all_reduce(sum, sum, copy)));
    EXPECT_EQ(sum, Values{3});
    EXPECT_TRUE(ok(coll_comm_destroy(copy)));
    if (rank == 2) return;
    const int both[] = {1, 0};
    coll_comm_t pair = nullptr;
    EXPECT_TRUE(ok(coll_comm_subset(part, both, 2, &config, &pair)));
    pair = waited(joining);
    sum = {1};
    EXPECT_TRUE(ok(all_reduce(sum, sum, pair)));
    EXPECT_EQ(sum, Values{2});
    EXPECT_TRUE(ok(coll_comm_destroy(pair)));
    EXPECT_TRUE(ok(coll_comm_destroy(part)));
  });
}

/// The old communicator need not wait for what becomes of it.
TEST(Joining, OfADuplicateOutlivesTheOldCommunicator) {
  run_ranks(3, [](coll_comm_t comm, int) {
    coll_comm_t first = nullptr;
    EXPECT_TRUE(ok(coll_comm_duplicate(comm, nullptr, &first)));
    coll_joining_t joining = nullptr;
    const coll_config_t config = config_for(joining);
    coll_comm_t copy = nullptr;
    EXPECT_TRUE(ok(coll_comm_duplicate(first, &config, &copy)));
    EXPECT_TRUE(ok(coll_comm_destroy(first)));
    copy = waited(joining);
    Values sum{1};
    EXPECT_TRUE(ok(all_reduce(sum, sum, copy)));
    EXPECT_EQ(sum, Values{3});
    EXPECT_TRUE(ok(coll_comm_destroy(copy)));
  });
}

/// At one place the communicators of a thread come in the order in which it asked for them.
TEST(Joining, KeepTheirOrderAtOnePlace) {
  const coll::test::TemporaryFolder folder;
  const std::string place = "file://" + folder.path() + "/meet";
  const auto run_rank = [&](int rank) {
    constexpr int kMany = 6;
    std::vector<coll_joining_t> joinings(kMany);
    for (int i = 0; i < kMany; ++i) {
      coll_config_t config = config_for(joinings[static_cast<std::size_t>(i)]);
      const std::string name = "number " + std::to_string(i);
      config.rendezvous = place.c_str();
      config.name = name.c_str();
      coll_comm_t none = nullptr;
      ASSERT_TRUE(ok(coll_comm_init(&none, 2, rank, &config)));
    }
    for (int i = 0; i < kMany; ++i) {
      coll_comm_t comm = waited(joinings[static_cast<std::size_t>(i)]);
      Values number{i};
      EXPECT_TRUE(ok(all_reduce(number, number, comm)));
      EXPECT_EQ(number, Values{2 * i}) << "both ends are number " << i;
      EXPECT_TRUE(ok(coll_comm_destroy(comm)));
    }
  };
  std::thread other(run_rank, 1);
  run_rank(0);
  other.join();
}

TEST(Joining, SaysWhetherItIsOverAndHowItFailed) {
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  coll_joining_t joining = nullptr;
  const coll_config_t config = config_for(joining, 2);
  coll_comm_t comm = nullptr;
  ASSERT_TRUE(ok(coll_comm_init_rank(&comm, 2, &id, 0, &config)));
  EXPECT_EQ(coll_joining_wait(joining, 0, &comm), COLL_IN_PROGRESS);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(wrong(0, "late", coll_joining_wait(joining, -1, &comm), COLL_DEADLINE, "rank 1"));
  }
  EXPECT_EQ(comm, nullptr);
  EXPECT_TRUE(ok(coll_joining_free(joining)));
}

TEST(Joining, IsHandedOutOnceAndElseDestroyed) {
  coll_joining_t joining = nullptr, left = nullptr;
  const coll_config_t config = config_for(joining), other = config_for(left);
  coll_unique_id_t id;
  coll_comm_t comm = nullptr;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  ASSERT_TRUE(ok(coll_comm_init_rank(&comm, 1, &id, 0, &config)));
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  ASSERT_TRUE(ok(coll_comm_init_rank(&comm, 1, &id, 0, &other)));
  EXPECT_TRUE(ok(coll_joining_wait(joining, -1, &comm)));
  EXPECT_TRUE(ok(coll_comm_destroy(comm)));
  EXPECT_FALSE(wrong(0, "twice", coll_joining_wait(joining, -1, &comm), COLL_INVALID_USAGE,
                     "was handed out by an earlier call"));
  EXPECT_TRUE(ok(coll_joining_free(joining)));
  EXPECT_TRUE(ok(coll_joining_free(left)));
  EXPECT_TRUE(ok(coll_joining_free(nullptr)));
}

/// What nobody takes leaves as its owner would: the other rank sees no death.
TEST(Joining, IsFreedWhileItRuns) {
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  coll_joining_t joining = nullptr;
  const coll_config_t config = config_for(joining);
  coll_comm_t comm = nullptr;
  ASSERT_TRUE(ok(coll_comm_init_rank(&comm, 2, &id, 0, &config)));
  std::thread other([&] {
    coll_comm_t own = join(id, 2, 1);
    ASSERT_NE(own, nullptr);
    EXPECT_TRUE(ok(coll_comm_status(own, nullptr)));
    EXPECT_TRUE(ok(coll_comm_destroy(own)));
  });
  EXPECT_TRUE(ok(coll_joining_free(joining)));
  other.join();
}

TEST(Joining, RefusesWhatItCannotDo) {
  coll_joining_t joining = nullptr;
  const coll_config_t config = config_for(joining);
  coll_comm_t comm = nullptr;
  coll_store_t store = COLL_STORE_INIT;
  store.set = [](void*, const char*, const char*, std::size_t) { return COLL_SUCCESS; };
  store.get = [](void*, const char*, char*, std::size_t, std::size_t*, double) {
    return COLL_DEADLINE;
  };
  EXPECT_FALSE(wrong(0, "store", coll_comm_init_store(&comm, 1, 0, &store, "key", &config),
                     COLL_INVALID_ARGUMENT, "leave `joining` null"));
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  EXPECT_EQ(coll_comm_init_rank(&comm, 1, &id, 1, &config), COLL_INVALID_ARGUMENT);
  EXPECT_EQ(joining, nullptr) << "refused at once";
  EXPECT_EQ(coll_joining_wait(nullptr, 0, &comm), COLL_INVALID_ARGUMENT);
  ASSERT_TRUE(ok(coll_comm_init_rank(&comm, 1, &id, 0, &config)));
  EXPECT_EQ(coll_joining_wait(joining, 0, nullptr), COLL_INVALID_ARGUMENT);
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = coll_joining_wait(joining, -1, &comm) == COLL_INVALID_USAGE;
    // Not _exit(), in which the thread sanitizer takes the parent's thread for a leak of the child.
    syscall(SYS_exit_group, refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "a forked child has no such join";
  EXPECT_TRUE(ok(coll_comm_destroy(waited(joining))));
}

}  // namespace
}  // namespace collectives::testing
