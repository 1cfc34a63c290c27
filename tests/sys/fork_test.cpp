// SPDX-License-Identifier: Apache-2.0
// A fork in the midst of what another thread does.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "base/made_once.hpp"
#include "child_process.hpp"
#include "sys/fd.hpp"
#include "sys/fork_safe_mutex.hpp"
#include "sys/one_per_process.hpp"

namespace coll {
namespace {

std::promise<void>* g_making = nullptr;
std::shared_future<void>* g_go_on = nullptr;

int answer() {
  return made_once([] {
    if (g_making != nullptr) {
      g_making->set_value();
      g_go_on->wait();
    }
    return 42;
  });
}

TEST(Fork, DuringTheMakingOfAValueLeavesTheChildNothingToWaitFor) {
  std::promise<void> making;
  std::promise<void> go_on;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  g_making = &making;
  g_go_on = &may_go_on;
  std::thread maker([] { EXPECT_EQ(answer(), 42); });
  making.get_future().wait();
  EXPECT_EQ(testing::in_child([] {
              g_making = nullptr;  // the child's own making does not wait
              return answer();
            }),
            42);
  go_on.set_value();
  maker.join();
  g_making = nullptr;
  EXPECT_EQ(answer(), 42);
}

ForkSafeMutex g_mutex;
ForkSafeMutex g_other;
int g_guarded = 0;

TEST(Fork, FindsForkSafeMutexesFreeAndWhatTheyGuardWhole) {
  std::promise<void> inside, forked;
  std::thread worker([&] {
    g_mutex.lock();
    g_guarded = 1;  // half of the work
    inside.set_value();
    // The fork below is waiting by now, or will: either way it sees both halves.
    std::this_thread::yield();
    g_guarded = 2;
    g_mutex.unlock();
    forked.get_future().wait();  // the thread sanitizer's child misses a thread that has ended
  });
  inside.get_future().wait();
  EXPECT_EQ(testing::in_child([] {
              for (ForkSafeMutex* one : {&g_other, &g_mutex}) const std::lock_guard lock(*one);
              return g_guarded;
            }),
            2);
  forked.set_value();
  worker.join();
  const std::lock_guard lock(g_mutex);
  EXPECT_EQ(g_guarded, 2);
}

OnePerProcess<int> g_number;

TEST(Fork, LeavesTheParentsOneOfAKindToTheParent) {
  int made = 0;
  const auto make = [&]() -> Result<std::shared_ptr<int>> { return std::make_shared<int>(++made); };
  EXPECT_EQ(g_number.find(), nullptr);
  {
    const auto first = g_number.find_or_make(make);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(*g_number.find_or_make(make), *first);
    EXPECT_EQ(g_number.find(), *first);
    EXPECT_EQ(testing::in_child([&] {
                const bool none = g_number.find() == nullptr;
                const auto own = g_number.find_or_make(make);
                return none && own.ok() && g_number.find() == *own ? **own : 0;
              }),
              2);
  }
  EXPECT_EQ(g_number.find(), nullptr);  // nobody keeps it
  EXPECT_FALSE(
      g_number
          .find_or_make([] { return Result<std::shared_ptr<int>>(failed(Code::internal, "no")); })
          .ok());
  EXPECT_EQ(**g_number.find_or_make(make), 2);
}

/// Of two that are made at the same time, all get the one that was there first.
TEST(OnePerProcess, IsTheFirstThatIsThere) {
  std::shared_ptr<int> first;
  const auto second = g_number.find_or_make([&]() -> Result<std::shared_ptr<int>> {
    COLL_ASSIGN(first, g_number.find_or_make([]() -> Result<std::shared_ptr<int>> {
      return std::make_shared<int>(7);
    }));
    return std::make_shared<int>(8);
  });
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(**second, 7);
  EXPECT_EQ(*second, first);
}

/// Sockets have a mutex of their own, which a fork takes last.
TEST(Fork, WaitsForWhoClosesSocketsWhileHoldingAMutex) {
  std::promise<void> inside, forked;
  std::thread worker([&] {
    {
      const std::lock_guard lock(g_mutex);
      inside.set_value();
      for (int i = 0; i < 20'000; ++i) {  // the fork comes meanwhile
        const Fd socket =
            Fd::kept_from_children([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); });
      }
    }
    forked.get_future().wait();
  });
  inside.get_future().wait();
  EXPECT_EQ(testing::in_child([] { return 7; }), 7);
  forked.set_value();
  worker.join();
}

}  // namespace
}  // namespace coll
