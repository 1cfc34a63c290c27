// SPDX-License-Identifier: Apache-2.0
// The library's threads leave signals to the user's.
#include "sys/own_thread.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <csignal>
#include <new>

#include "failing_allocations.hpp"

namespace coll {
namespace {

sigset_t mask_of_this_thread() {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return mask;
}

TEST(OwnThread, BlocksSignalsButThoseOfItsOwnFaults) {
  sigset_t there{};
  std::array<char, 16> name{};
  auto thread = start_thread("coll-test", "to look at its signals", [&] {
    there = mask_of_this_thread();
    pthread_getname_np(pthread_self(), name.data(), name.size());
  });
  ASSERT_TRUE(thread.ok()) << thread.status().text();
  thread->join();
  for (const int taken : {SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGUSR1, SIGPIPE}) {
    EXPECT_EQ(sigismember(&there, taken), 1) << taken;
    const sigset_t here = mask_of_this_thread();
    EXPECT_EQ(sigismember(&here, taken), 0) << taken << " is blocked on the caller's now";
  }
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE}) EXPECT_EQ(sigismember(&there, fault), 0);
}

TEST(OwnThread, LeavesTheCallersSignalsAloneWhereMemoryRunsOut) {
  NEEDS_FAILING_ALLOCATIONS();
  using coll::test::FailingAllocations;
  long which = 0;
  for (bool fired = true; fired;) {
    FailingAllocations::arm(++which, FailingAllocations::Mode::one);
    try {
      auto thread = start_thread("coll-test", "that may not start", [] {});
      if (thread.ok()) thread->join();
    } catch (const std::bad_alloc&) {  // as documented: the door catches it
    }
    fired = FailingAllocations::disarm();
    const sigset_t here = mask_of_this_thread();
    EXPECT_EQ(sigismember(&here, SIGTERM), 0) << "after allocation " << which << " failed";
  }
  EXPECT_GT(which, 1);
}

}  // namespace
}  // namespace coll
