// SPDX-License-Identifier: Apache-2.0
// Ranks of training as threads of one process.
#pragma once
#include <gtest/gtest.h>

#include <collectives/collectives.hpp>
#include <functional>
#include <thread>
#include <vector>

#include "memory/failure.hpp"

namespace training::test {

/// Runs `body` on each rank of a new communicator, in a thread of its own. What it throws fails the
/// test.
inline void run_ranks(int size, const std::function<void(collectives::Communicator&)>& body) {
  coll_unique_id_t id;
  ASSERT_EQ(coll_get_unique_id(&id), COLL_SUCCESS) << coll_last_error();
  coll_config_t config = COLL_CONFIG_INIT;
  config.deadline_s = config.connect_s = 30;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        auto communicator = value_of(collectives::Communicator::join(id, size, rank, &config));
        body(communicator);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace training::test
