// SPDX-License-Identifier: Apache-2.0
// Turns come in order, and the gate may go after them.
#include "communicator/turn_gate.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace coll {
namespace {

TEST(TurnGate, TurnsRunOneAtATimeInTheOrderTheyWereTaken) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 500;
  TurnGate gate;
  std::vector<std::uint64_t> order;  // guarded by the gate
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTurns; ++i) {
        const std::uint64_t turn = gate.take();
        gate.wait(turn);
        order.push_back(turn);
        gate.pass();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(order.size(), std::size_t{kThreads} * kTurns);
  for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], i);
}

/// For the sanitizers: who passes must not touch a gate that is gone.
TEST(TurnGate, MayBeDestroyedOnceItIsDrained) {
  for (int round = 0; round < 300; ++round) {
    auto gate = std::make_unique<TurnGate>();
    int passed = 0;  // guarded by the gate
    std::vector<std::uint64_t> turns;
    for (int t = 0; t < 3; ++t) turns.push_back(gate->take());
    std::vector<std::thread> threads;
    for (const std::uint64_t turn : turns) {
      threads.emplace_back([&passed, turn, raw = gate.get()] {
        raw->wait(turn);
        ++passed;
        raw->pass();
      });
    }
    gate->drain();
    EXPECT_EQ(passed, 3);
    gate.reset();
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(TurnGate, IsTakenIfIdleOnlyWhenNobodyHasATurn) {
  TurnGate gate;
  const std::uint64_t turn = gate.take();
  EXPECT_FALSE(gate.take_if_idle());
  gate.wait(turn);
  gate.pass();
  const auto idle = gate.take_if_idle();
  ASSERT_TRUE(idle);
  EXPECT_EQ(*idle, turn + 1);
  EXPECT_FALSE(gate.take_if_idle());
  std::thread next([&] {
    gate.wait(gate.take());
    gate.pass();
  });
  gate.pass();
  next.join();
  gate.drain();
}

}  // namespace
}  // namespace coll
