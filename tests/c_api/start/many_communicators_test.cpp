// SPDX-License-Identifier: Apache-2.0
// Communicators that share the control plane of the one that they were made from.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "communicator/rank_processes.hpp"

namespace {

using collectives::testing::asked;
using collectives::testing::explained;
using collectives::testing::join;
using collectives::testing::Meetings;
using collectives::testing::RankProcesses;
using collectives::testing::Signal;
using collectives::testing::wrong;

/// The sum of all ranks' ones; 0 where it fails.
int count_of(coll_comm_t comm) {
  int one = 1, sum = 0;
  return coll_all_reduce(&one, &sum, 1, COLL_INT32, COLL_SUM, comm, nullptr) == COLL_SUCCESS ? sum
                                                                                             : 0;
}

/// Prints where it is not so; how many are wrong.
int expect(int rank, const char* what, bool good) {
  if (!good) std::cerr << "rank " << rank << ": " << what << ": " << coll_last_error() << "\n";
  return good ? 0 : 1;
}

/// A subset of `parent`; null where this rank is none of it, or where it fails.
coll_comm_t part_of(coll_comm_t parent, const std::vector<int>& ranks) {
  int rank = -1;
  coll_comm_rank(parent, &rank);
  coll_comm_t part = nullptr;
  if (std::ranges::find(ranks, rank) == ranks.end()) return nullptr;
  if (coll_comm_subset(parent, ranks.data(), static_cast<int>(ranks.size()), nullptr, &part) !=
      COLL_SUCCESS) {
    std::cerr << "rank " << rank << ", subset: " << coll_last_error() << "\n";
  }
  return part;
}

int destroy(int rank, coll_comm_t comm) {
  return comm == nullptr ? 0 : wrong(rank, "destroy", coll_comm_destroy(comm), COLL_SUCCESS);
}

/// Waits (bounded) until the communicator has failed.
coll_error_info_t await_failure(coll_comm_t comm) {
  coll_error_info_t info = COLL_ERROR_INFO_INIT;
  for (int i = 0; i < 5000; ++i) {
    if (coll_comm_error_info(comm, &info) == COLL_SUCCESS && info.code != COLL_SUCCESS) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return info;
}

void limit_files(rlim_t to) {
  const rlimit lowered{to, to};
  if (setrlimit(RLIMIT_NOFILE, &lowered) != 0) std::abort();
}

std::ptrdiff_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

TEST(ManyCommunicators, AHundredFitIntoTwoHundredFiles) {
  constexpr int kRanks = 4, kMany = 100;
  const Meetings meetings;
  RankProcesses ranks(kRanks, [&](int rank) {
    limit_files(200);
    coll_comm_t world = join(meetings.place(0), "shm,tcp", kRanks, rank);
    if (world == nullptr) return 1;
    int bad = expect(rank, "the first sum", count_of(world) == kRanks);
    const auto threads = entries_of("/proc/self/task");
    std::vector<coll_comm_t> many(kMany);
    for (int i = 0; i < kMany; ++i) {
      // Halves, of which one is without the hub, copies, and copies of copies.
      coll_comm_t& each = many[static_cast<std::size_t>(i)];
      coll_comm_t from = i < 10 || i % 3 != 0 ? world : many[static_cast<std::size_t>(i - 10)];
      const coll_status_t made = i % 10 == 0 ? coll_comm_split(world, rank / 2, 0, nullptr, &each)
                                             : coll_comm_duplicate(from, nullptr, &each);
      if (wrong(rank, "make", made, COLL_SUCCESS)) return bad + 1;
    }
    bad += expect(rank, "no thread is new", entries_of("/proc/self/task") <= threads);
    bad += destroy(rank, world);  // before the others
    for (coll_comm_t each : many) {
      int size = 0;
      coll_comm_size(each, &size);
      bad += expect(rank, "a sum", count_of(each) == size);
    }
    // The ranks end them in different orders.
    if (rank % 2 == 1) std::ranges::reverse(many);
    for (coll_comm_t each : many) bad += destroy(rank, each);
    return bad;
  });
  ranks.expect_all_good();
}

/// The rank that has no room fails on all, and what is there goes on.
TEST(ManyCommunicators, TooManyAreRefusedOnAllRanks) {
  constexpr int kRanks = 3;
  for (const int limited : {0, 1}) {
    const Meetings meetings;
    RankProcesses ranks(kRanks, [&](int rank) {
      if (rank == limited) limit_files(80);
      coll_comm_t world = join(meetings.place(0), "shm,tcp", kRanks, rank);
      if (world == nullptr) return 1;
      int bad = 0;
      std::vector<coll_comm_t> many;
      coll_status_t status = COLL_SUCCESS;
      while (many.size() < 200 && status == COLL_SUCCESS) {
        coll_comm_t one = nullptr;
        status = coll_comm_duplicate(world, nullptr, &one);
        if (status == COLL_SUCCESS) many.push_back(one);
      }
      bad += wrong(rank, "one more", status, COLL_OUT_OF_RESOURCES, "of this process needs");
      bad += wrong(rank, "one more", status, COLL_OUT_OF_RESOURCES, "the limit is 80");
      bad += wrong(rank, "one more", status, COLL_OUT_OF_RESOURCES,
                   ("rank " + std::to_string(limited)).c_str());
      bad += expect(rank, "some fit", many.size() > 10);
      const auto files = entries_of("/proc/self/fd");
      for (int i = 0; i < 3; ++i) {
        coll_comm_t one = nullptr;
        bad +=
            wrong(rank, "again", coll_comm_duplicate(world, nullptr, &one), COLL_OUT_OF_RESOURCES);
      }
      bad += expect(rank, "nothing is left over", entries_of("/proc/self/fd") == files);
      for (coll_comm_t one : many) bad += expect(rank, "a sum", count_of(one) == kRanks);
      // Where there is room again, one fits again.
      bad += destroy(rank, many.back());
      bad += wrong(rank, "room again", coll_comm_duplicate(world, nullptr, &many.back()),
                   COLL_SUCCESS);
      for (coll_comm_t one : many) bad += destroy(rank, one);
      return bad + destroy(rank, world);
    });
    ranks.expect_all_good();
  }
}

/// A killed rank ends the communicators that it is in, also the one of the hub, and no other.
TEST(ManyCommunicators, ADeathEndsThoseOfTheDeadOnly) {
  constexpr int kRanks = 4;
  for (const int victim : {0, 2}) {
    const Meetings meetings;
    const Signal ready;
    RankProcesses ranks(kRanks, [&](int rank) {
      coll_comm_t world = join(meetings.place(0), "shm,tcp", kRanks, rank);
      if (world == nullptr) {
        ready.give();
        return 1;
      }
      int bad = 0;
      // With and without the victim, with and without the hub, which is rank 0.
      std::vector<std::vector<int>> lists{{0, 1, 2}, {3, 1}, {1, 2, 3}, {0, 2}};
      lists.push_back(victim == 0 ? std::vector{2, 1} : std::vector{0, 1, 3});
      std::vector<coll_comm_t> parts;
      for (const auto& list : lists) parts.push_back(part_of(world, list));
      coll_comm_t copy = nullptr;  // of a part without the hub
      if (parts[1] != nullptr) {
        bad += wrong(rank, "copy", coll_comm_duplicate(parts[1], nullptr, &copy), COLL_SUCCESS);
      }
      for (coll_comm_t part : parts) {
        if (part != nullptr) bad += expect(rank, "a sum", count_of(part) != 0);
      }
      bad += expect(rank, "all are here", count_of(world) == kRanks);
      ready.give();
      if (rank == victim) pause();
      const coll_error_info_t lost = await_failure(world);
      bad +=
          expect(rank, "the world has lost it", lost.code == COLL_PEER_LOST && lost.rank == victim);
      for (std::size_t i = 0; i < lists.size(); ++i) {
        if (parts[i] == nullptr) continue;
        const auto found = std::ranges::find(lists[i], victim);
        if (found == lists[i].end()) {
          bad += expect(rank, "another part goes on",
                        count_of(parts[i]) == static_cast<int>(lists[i].size()));
        } else {
          const coll_error_info_t info = await_failure(parts[i]);
          bad += expect(rank, "a part has lost it",
                        info.code == COLL_PEER_LOST && info.rank == found - lists[i].begin());
        }
      }
      // Its watch is there as well: what one rank says, the other one hears.
      if (copy != nullptr) {
        bad += expect(rank, "the copy goes on", count_of(copy) == 2);
        if (rank == 1) bad += wrong(rank, "abort", coll_comm_abort(copy), COLL_SUCCESS);
        bad += expect(rank, "the copy is aborted", await_failure(copy).code == COLL_ABORTED);
        bad += expect(rank, "what it was made from is not", count_of(parts[1]) == 2);
      }
      for (coll_comm_t part : parts) bad += destroy(rank, part);
      return bad + destroy(rank, copy) + destroy(rank, world);
    });
    // A rank that has not ended the last call yet would lose it.
    for (int rank = 0; rank < kRanks; ++rank) ready.wait();
    kill(ranks.pid(victim), SIGKILL);
    for (int rank = 0; rank < kRanks; ++rank) {
      const int status = ranks.wait_for(rank);
      EXPECT_TRUE(status == 0 || rank == victim) << "rank " << rank << ", victim " << victim;
    }
  }
}

TEST(ManyCommunicators, AnAbortEndsOne) {
  collectives::testing::run_ranks(3, [](coll_comm_t comm, int rank) {
    std::vector<coll_comm_t> copies(3);
    for (coll_comm_t& one : copies) {
      ASSERT_EQ(coll_comm_duplicate(comm, nullptr, &one), COLL_SUCCESS) << coll_last_error();
    }
    if (rank == 1) {
      EXPECT_EQ(coll_comm_abort(copies[1]), COLL_SUCCESS);
    }
    EXPECT_EQ(await_failure(copies[1]).code, COLL_ABORTED);
    EXPECT_EQ(count_of(copies[0]), 3);
    EXPECT_EQ(count_of(copies[2]), 3);
    EXPECT_EQ(count_of(comm), 3);
    EXPECT_EQ(count_of(copies[1]), 0);
    for (coll_comm_t one : copies) EXPECT_EQ(coll_comm_destroy(one), COLL_SUCCESS);
  });
}

/// A rank of one is gone while the others go on with another.
TEST(ManyCommunicators, ToLeaveOneIsToLeaveNoOther) {
  collectives::testing::run_ranks(3, [](coll_comm_t comm, int rank) {
    coll_comm_t copy = nullptr, other = nullptr;
    ASSERT_EQ(coll_comm_duplicate(comm, nullptr, &copy), COLL_SUCCESS) << coll_last_error();
    ASSERT_EQ(coll_comm_duplicate(copy, nullptr, &other), COLL_SUCCESS) << coll_last_error();
    if (rank == 1) {
      EXPECT_EQ(coll_comm_destroy(copy), COLL_SUCCESS);
    }
    for (int round = 0; round < 5; ++round) EXPECT_EQ(count_of(other), 3) << coll_last_error();
    if (rank != 1) {
      int one = 1, sum = 0;
      EXPECT_EQ(coll_all_reduce(&one, &sum, 1, COLL_INT32, COLL_SUM, copy, nullptr),
                COLL_PEER_LOST);
      EXPECT_NE(std::strstr(coll_last_error(), "left the communicator"), nullptr)
          << coll_last_error();
      EXPECT_EQ(coll_comm_destroy(copy), COLL_SUCCESS);
    }
    EXPECT_EQ(count_of(other), 3) << coll_last_error();
    EXPECT_EQ(coll_comm_destroy(other), COLL_SUCCESS);
  });
}

/// Two threads of each rank split two communicators, and then what they got.
TEST(ManyCommunicators, TwoThreadsMakeThemAtOnce) {
  collectives::testing::run_ranks(4, [](coll_comm_t comm, int rank) {
    std::array<coll_comm_t, 2> copies{};
    for (coll_comm_t& one : copies) {
      ASSERT_EQ(coll_comm_duplicate(comm, nullptr, &one), COLL_SUCCESS) << coll_last_error();
    }
    std::vector<std::thread> threads;
    for (coll_comm_t from : copies) {
      threads.emplace_back([from, rank] {
        for (int round = 0; round < 10; ++round) {
          coll_comm_t half = nullptr, pair = nullptr;
          ASSERT_EQ(coll_comm_split(from, (rank + round) % 2, rank, nullptr, &half), COLL_SUCCESS)
              << coll_last_error();
          ASSERT_EQ(coll_comm_split(half, 3, -rank, nullptr, &pair), COLL_SUCCESS)
              << coll_last_error();
          if (round % 2 == 0) {
            EXPECT_EQ(coll_comm_destroy(half), COLL_SUCCESS);
          }
          EXPECT_EQ(count_of(pair), 2) << coll_last_error();
          EXPECT_EQ(coll_comm_destroy(pair), COLL_SUCCESS);
          if (round % 2 == 1) {
            EXPECT_EQ(coll_comm_destroy(half), COLL_SUCCESS);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (coll_comm_t one : copies) EXPECT_EQ(coll_comm_destroy(one), COLL_SUCCESS);
  });
}

/// Subsets at the same time, of which each rank is in two.
TEST(ManyCommunicators, SubsetsAreMadeSideBySide) {
  collectives::testing::run_ranks(4, [](coll_comm_t comm, int rank) {
    for (int round = 0; round < 5; ++round) {
      const std::vector<int> row{rank / 2 * 2, rank / 2 * 2 + 1};
      const std::vector<int> column{rank % 2 + 2, rank % 2};
      coll_comm_t in_row = part_of(comm, row);
      coll_comm_t in_column = part_of(comm, column);
      ASSERT_NE(in_row, nullptr);
      ASSERT_NE(in_column, nullptr);
      EXPECT_EQ(count_of(in_row), 2);
      EXPECT_EQ(count_of(in_column), 2);
      EXPECT_EQ(coll_comm_destroy(in_row), COLL_SUCCESS);
      EXPECT_EQ(coll_comm_destroy(in_column), COLL_SUCCESS);
    }
  });
}

/// Where one rank may use other transports than before, all find their paths anew.
TEST(ManyCommunicators, OtherTransportsAreAgreedOnAnew) {
  collectives::testing::run_ranks(3, [](coll_comm_t comm, int rank) {
    coll_config_t config = COLL_CONFIG_INIT;
    config.transports = "tcp";
    coll_comm_t mixed = nullptr;
    ASSERT_EQ(coll_comm_duplicate(comm, rank == 1 ? &config : nullptr, &mixed), COLL_SUCCESS)
        << coll_last_error();
    EXPECT_EQ(count_of(mixed), 3);
    const std::string text = explained(mixed, asked(COLL_ALL_REDUCE, 1, COLL_INT32));
    const bool over_tcp = text.find(rank == 1 ? "0:tcp" : "1:tcp") != std::string::npos;
    EXPECT_TRUE(over_tcp) << text;
    EXPECT_EQ(coll_comm_destroy(mixed), COLL_SUCCESS);
  });
}

}  // namespace
