// SPDX-License-Identifier: Apache-2.0
// Two ends of a connection through shared memory, in one thread: rank 0 sends, rank 1 receives.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>

#include "test_seed.hpp"
#include "transports/transport_backend.hpp"

namespace coll::test {

class ShmPair : public testing::Test {
 protected:
  void open(std::size_t slot_bytes, double ranks_per_core) {
    sender.reset();
    receiver.reset();
    ranks.emplace(Backend{.name = "shm", .make = make_shm_transport});
    ConnectionSpec spec{.peer = 1,
                        .lane = 0,
                        .slot_bytes = slot_bytes,
                        .credits = 4,
                        .ranks_per_core = ranks_per_core};
    sender = ranks->open(0, spec);
    spec.peer = 0;
    receiver = ranks->open(1, spec);
    ASSERT_TRUE(ranks->settle(*sender, *receiver) && sender->ready() && receiver->ready());
  }

  std::mt19937_64 random{test_seed()};
  std::optional<Ranks> ranks;
  std::unique_ptr<Connection> sender, receiver;
};

}  // namespace coll::test
