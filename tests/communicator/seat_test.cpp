// SPDX-License-Identifier: Apache-2.0
// One thread has the seat, and it may go after the last.
#include "communicator/engine/seat.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace coll {
namespace {

void take(Seat& seat) {
  while (!seat.try_take()) seat.sleep([] { return false; });
}

TEST(Seat, OneThreadHasIt) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 2000;
  Seat seat;
  int inside = 0, turns = 0;  // guarded by the seat
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTurns; ++i) {
        take(seat);
        EXPECT_EQ(++inside, 1);
        ++turns;
        --inside;
        seat.give_up();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, kThreads * kTurns);
  ASSERT_TRUE(seat.try_take());
  EXPECT_FALSE(seat.try_take());
}

/// For the sanitizers: who gives it up must not touch a seat that is gone.
TEST(Seat, MayBeDestroyedByTheLastWhoHasIt) {
  for (int round = 0; round < 300; ++round) {
    auto seat = std::make_unique<Seat>();
    std::atomic<int> begun{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&begun, raw = seat.get()] {
        take(*raw);
        ++begun;
        raw->give_up();
      });
    }
    while (begun.load() < 3) std::this_thread::yield();
    take(*seat);
    seat.reset();
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(Seat, WakesSleepersWhoseWaitIsOver) {
  Seat seat;
  ASSERT_TRUE(seat.try_take());
  std::atomic<bool> done{false};
  std::thread sleeper([&] { seat.sleep([&] { return done.load(); }); });
  while (!seat.wanted()) std::this_thread::yield();
  done.store(true);
  seat.wake();
  sleeper.join();
  EXPECT_FALSE(seat.wanted());
  EXPECT_FALSE(seat.try_take()) << "to wake is not to give it up";
}

}  // namespace
}  // namespace coll
