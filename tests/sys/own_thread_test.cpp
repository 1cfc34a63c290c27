// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: the library's threads leave signals to the user's.
#include "sys/own_thread.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <csignal>

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

}  // namespace
}  // namespace coll
