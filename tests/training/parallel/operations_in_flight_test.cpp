// SPDX-License-Identifier: Apache-2.0
// Operations that run while units compute: what is counted, who waits, and how a peer's end shows.
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "../training_ranks.hpp"
#include "parallel/group_traffic.hpp"

namespace training {
namespace operations_in_flight_test {

TEST(Traffic, CountsWhatWasWaitedForAndTellsTheObserver) {
  on_ranks(2, [](collectives::Communicator world) {
    Traffic traffic(world);
    std::vector<std::string> seen;
    traffic.observe(
        [&](const char* name, std::size_t bytes, Clock::time_point begin, Clock::time_point end) {
          seen.push_back(std::string(name) + " " + std::to_string(bytes));
          EXPECT_LT(begin, end);
        });
    std::vector<float> all(64, 1), part(32);
    Pending sum = traffic.all_reduce(all.data(), 64, Format::f32);
    EXPECT_TRUE(sum);
    EXPECT_EQ(traffic.times().busy, 0);
    EXPECT_EQ(traffic.times().exposed, 0);
    traffic.wait(sum);
    EXPECT_FALSE(sum);
    EXPECT_EQ(all, std::vector<float>(64, 2));
    const Traffic::Times once = traffic.times();
    EXPECT_GT(once.busy, 0);
    EXPECT_GT(once.exposed, 0);
    traffic.wait(sum);  // empty: nothing
    EXPECT_EQ(traffic.times().exposed, once.exposed);

    Pending scatter = traffic.reduce_scatter(all.data(), part.data(), 32, Format::f32);
    traffic.wait(scatter);
    EXPECT_EQ(part, std::vector<float>(32, 4));
    Pending gather = traffic.all_gather(part.data(), all.data(), 32, Format::f32);
    traffic.wait(gather);
    EXPECT_EQ(all, std::vector<float>(64, 4));
    EXPECT_EQ(seen,
              (std::vector<std::string>{"all_reduce 256", "reduce_scatter 256", "all_gather 256"}));
    EXPECT_GT(traffic.times().busy, once.busy);
    traffic.reset_times();
    EXPECT_EQ(traffic.times().busy, 0);
    EXPECT_EQ(traffic.times().exposed, 0);
  });
}

TEST(Traffic, WhatEndedMeanwhileIsBusyButNotExposed) {
  on_ranks(2, [](collectives::Communicator world) {
    Traffic traffic(world);
    // A thread may be held up within any wait: one of twenty is enough.
    bool hidden = false;
    for (int i = 0; i < 20; ++i) {
      std::vector<float> data(1 << 16, 1);
      traffic.reset_times();
      const std::uint64_t before = (*world.stats()).operations;
      Pending pending = traffic.all_reduce(data.data(), data.size(), Format::f32);
      while ((*world.stats()).operations == before) std::this_thread::yield();
      traffic.wait(pending);
      const Traffic::Times times = traffic.times();
      hidden = hidden || times.exposed < times.busy / 4;
    }
    EXPECT_TRUE(hidden);
  });
}

TEST(Traffic, APendingOperationThatIsDroppedIsWaitedFor) {
  std::promise<void> issued;
  on_ranks(2, [&](collectives::Communicator world) {
    Traffic traffic(world);
    std::vector<float> data(1 << 16, 1);
    if (world.rank() == 0) {
      {
        const Pending dropped = traffic.all_reduce(data.data(), data.size(), Format::f32);
        issued.set_value();
      }
      // The buffer is free: it has the whole sum, and nobody writes to it any more.
      EXPECT_EQ(data, std::vector<float>(data.size(), 2));
      EXPECT_EQ(traffic.times().busy, 0);
    } else {
      issued.get_future().wait();
      Pending pending = traffic.all_reduce(data.data(), data.size(), Format::f32);
      traffic.wait(pending);
    }
  });
}

TEST(Traffic, AnEmptyPendingTakesAnother) {
  on_ranks(2, [](collectives::Communicator world) {
    Traffic traffic(world);
    float one = 1, other = 10;
    Pending kept;
    kept = traffic.all_reduce(&one, 1, Format::f32);
    kept = traffic.all_reduce(&other, 1, Format::f32);  // the first is waited for here
    traffic.wait(kept);
    EXPECT_EQ(one, 2);
    EXPECT_EQ(other, 20);
  });
}

TEST(Traffic, APeerThatIsGoneIsAFailureOfItsOwnKind) {
  on_ranks(3, [](collectives::Communicator world) {
    if (world.rank() == 2) return;  // leaves
    Traffic traffic(world);
    std::vector<float> data(1 << 10, 1);
    try {
      Pending pending = traffic.all_reduce(data.data(), data.size(), Format::f32);
      traffic.wait(pending);
      ADD_FAILURE() << "a sum without rank 2";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Failure::kPeerLost) << failure.what();
      EXPECT_NE(std::string(failure.what()).find("rank 2"), std::string::npos) << failure.what();
    }
  });
}

}  // namespace operations_in_flight_test
}  // namespace training
