// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process that use the C ABI.
#pragma once
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

namespace collectives::testing {

/// A communicator of the id for the calling thread; null if it failed, which fails the test.
inline coll_comm_t join(const coll_unique_id_t& id, int size, int rank,
                        const coll_config_t& config) {
  coll_comm_t comm = nullptr;
  EXPECT_EQ(coll_comm_init_rank(&comm, size, &id, rank, &config), COLL_SUCCESS)
      << coll_last_error();
  return comm;
}

inline coll_config_t config_with(double deadline_s = 30, double connect_s = 30) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.deadline_s = deadline_s;
  config.connect_s = connect_s;
  return config;
}

inline coll_comm_t join(const coll_unique_id_t& id, int size, int rank, double deadline_s = 30,
                        double connect_s = 30) {
  return join(id, size, rank, config_with(deadline_s, connect_s));
}

/// Runs `body` on each rank of a new communicator, in a thread of its own.
inline void run_ranks(int size, const std::function<void(coll_comm_t, int)>& body,
                      const coll_config_t& config) {
  coll_unique_id_t id;
  ASSERT_EQ(coll_get_unique_id(&id), COLL_SUCCESS) << coll_last_error();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      coll_comm_t comm = join(id, size, rank, config);
      ASSERT_NE(comm, nullptr);
      body(comm, rank);
      EXPECT_EQ(coll_comm_destroy(comm), COLL_SUCCESS) << coll_last_error();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

inline void run_ranks(int size, const std::function<void(coll_comm_t, int)>& body,
                      double deadline_s = 30, double connect_s = 30) {
  run_ranks(size, body, config_with(deadline_s, connect_s));
}

}  // namespace collectives::testing
