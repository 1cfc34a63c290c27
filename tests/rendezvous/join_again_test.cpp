// SPDX-License-Identifier: Apache-2.0
// Ranks that join at one place again and again, after tries that failed, and at the same time.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <collectives/collectives.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

bool last_error_says(const char* word) {
  return std::strstr(coll_last_error(), word) != nullptr;
}

/// A file in the temporary directory that nobody has yet.
std::string fresh_file() {
  static std::atomic<int> files{0};
  const std::string name = "coll-c-api-" + std::to_string(getpid()) + "-" + std::to_string(files++);
  return "file://" + (std::filesystem::temp_directory_path() / name).string();
}

/// Runs `body` for each rank on a thread of its own.
void on_threads(int size, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

TEST(JoinAgain, TheConfigsInterfaceIsTheRendezvousToo) {
  const std::string place = fresh_file();
  on_threads(2, [&](int rank) {
    coll_config_t config = COLL_CONFIG_INIT;
    config.rendezvous = place.c_str();
    config.interface = "nosuch0";
    config.transports = "shm";
    config.connect_s = 0.5;
    coll_comm_t comm = nullptr;
    EXPECT_NE(coll_comm_init(&comm, 2, rank, &config), COLL_SUCCESS);
    EXPECT_TRUE(rank != 0 || last_error_says("nosuch0")) << coll_last_error();
  });
}

TEST(JoinAgain, ARankThatFailedByItselfMeetsThoseAtTheirFirstTry) {
  const std::string place = fresh_file();
  on_threads(2, [&](int rank) {
    coll_config_t config = COLL_CONFIG_INIT;
    config.rendezvous = place.c_str();
    config.connect_s = 20;
    coll_comm_t comm = nullptr;
    for (int time = 0; time < 3 && rank == 1; ++time) {
      config.algorithm = "none that exists";
      EXPECT_EQ(coll_comm_init(&comm, 2, rank, &config), COLL_INVALID_ARGUMENT);
      config.algorithm = nullptr;
    }
    ASSERT_EQ(coll_comm_init(&comm, 2, rank, &config), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(coll_comm_destroy(comm), COLL_SUCCESS);
  });
}

TEST(JoinAgain, RanksThatFailedDifferentlyOftenMeet) {
  const std::string place = fresh_file();
  std::atomic<bool> failed{false};
  on_threads(2, [&](int rank) {
    coll_config_t config = COLL_CONFIG_INIT;
    config.rendezvous = place.c_str();
    coll_comm_t comm = nullptr;
    for (int time = 0; time < 2 && rank == 0; ++time) {
      config.connect_s = 0.1;
      EXPECT_EQ(coll_comm_init(&comm, 2, rank, &config), COLL_DEADLINE);
    }
    if (rank == 0) failed = true;
    while (!failed) std::this_thread::yield();
    config.connect_s = 20;
    ASSERT_EQ(coll_comm_init(&comm, 2, rank, &config), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(coll_comm_destroy(comm), COLL_SUCCESS);
  });
}

TEST(JoinAgain, ThreadsThatJoinAtOnePlaceDoSoOneAfterAnother) {
  constexpr int kThreads = 4;
  const std::string place = fresh_file();
  on_threads(2 * kThreads, [&](int thread) {
    coll_config_t config = COLL_CONFIG_INIT;
    config.rendezvous = place.c_str();
    config.connect_s = 60;
    coll_comm_t comm = nullptr;
    const int rank = thread % 2;
    ASSERT_EQ(coll_comm_init(&comm, 2, rank, &config), COLL_SUCCESS) << coll_last_error();
    int value = rank + 1;
    EXPECT_EQ(coll_all_reduce(&value, &value, 1, COLL_INT32, COLL_SUM, comm, nullptr), COLL_SUCCESS)
        << coll_last_error();
    EXPECT_EQ(value, 3);
    EXPECT_EQ(coll_comm_destroy(comm), COLL_SUCCESS);
  });
}

TEST(JoinAgain, AThreadWaitsNoLongerToJoinThanItWasTold) {
  const std::string place = fresh_file();
  on_threads(2, [&](int thread) {
    coll_config_t config = COLL_CONFIG_INIT;
    config.rendezvous = place.c_str();
    config.connect_s = thread == 0 ? 3 : 0.2;
    coll_comm_t comm = nullptr;
    while (thread == 1 && !std::ifstream(place.substr(7)).good()) std::this_thread::yield();
    EXPECT_EQ(coll_comm_init(&comm, 2, 0, &config), COLL_DEADLINE);
    EXPECT_TRUE(last_error_says(thread == 0 ? "rank 1 of 2 has not come" : "another thread"))
        << coll_last_error();
  });
}

}  // namespace
