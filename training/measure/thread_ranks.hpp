// SPDX-License-Identifier: Apache-2.0
// Threads of this process as ranks, for measurements with virtual compute, and for tests.
#pragma once
#include <collectives/collectives.hpp>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "../memory/failure.hpp"

namespace training {

/// Calls `run` on `ranks` threads, each with a communicator of all. Throws the first failure.
inline void run_as_threads(std::size_t ranks, const coll_config_t& config,
                           const std::function<void(collectives::Communicator world)>& run) {
  coll_unique_id_t id;
  value_of(collectives::detail::result(coll_get_unique_id(&id)));
  std::vector<std::exception_ptr> failures(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run(value_of(collectives::Communicator::join(id, static_cast<int>(ranks),
                                                     static_cast<int>(rank), &config)));
      } catch (...) {
        failures[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace training
