// SPDX-License-Identifier: Apache-2.0
// Descriptors that a child made by fork does not keep.
#include <pthread.h>

#include <mutex>
#include <new>
#include <set>

#include "sys/fd.hpp"

namespace coll {
namespace {

// Not inside a function: a fork could come while another thread makes them.
constinit std::mutex g_kept_sockets_mutex;  // guards what follows, and is held over a fork
constinit std::set<int>* g_kept_sockets = nullptr;
constinit unsigned g_generation = 1;

void close_in_child() {
  if (g_kept_sockets != nullptr) {
    for (const int fd : *g_kept_sockets) ::close(fd);
    g_kept_sockets->clear();
  }
  ++g_generation;  // what the parent's objects say of these numbers means nothing here
  g_kept_sockets_mutex.unlock();
}

/// Before all others of the library, so that a fork takes this mutex last: who holds another one
/// may close sockets.
[[gnu::constructor(200)]] void register_first() {
  pthread_atfork([] { g_kept_sockets_mutex.lock(); }, [] { g_kept_sockets_mutex.unlock(); },
                 close_in_child);
}

}  // namespace

Fd::NoFork::NoFork() {
  g_kept_sockets_mutex.lock();
}

Fd::NoFork::~NoFork() {
  g_kept_sockets_mutex.unlock();
}

void Fd::keep() {
  if (g_kept_sockets == nullptr)
    g_kept_sockets = new std::set<int>;  // for ever: sockets close to the very end
  g_kept_sockets->insert(fd_);
  kept_ = g_generation;
}

void Fd::close_kept(int fd, unsigned generation) {
  const NoFork now;
  if (generation != g_generation) return;
  g_kept_sockets->erase(fd);
  ::close(fd);
}

}  // namespace coll
