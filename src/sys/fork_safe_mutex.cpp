// SPDX-License-Identifier: Apache-2.0
// A mutex that is free in a child made by fork.
#include "sys/fork_safe_mutex.hpp"

#include <pthread.h>

#include <new>

namespace coll {
namespace {

// All of them: made while the library is loaded, by one thread.
constinit ForkSafeMutex* g_first = nullptr;

}  // namespace

ForkSafeMutex::ForkSafeMutex() : next_(g_first) {
  if (g_first == nullptr && pthread_atfork(before_fork, after_fork, after_fork) != 0) {
    throw std::bad_alloc();  // the only reason it has to fail
  }
  g_first = this;
}

void ForkSafeMutex::before_fork() {
  for (ForkSafeMutex* one = g_first; one != nullptr; one = one->next_) one->lock();
}

void ForkSafeMutex::after_fork() {
  for (ForkSafeMutex* one = g_first; one != nullptr; one = one->next_) one->unlock();
}

}  // namespace coll
