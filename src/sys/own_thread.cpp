// SPDX-License-Identifier: Apache-2.0
// sys/: the operating system as values and owners. This file: starting a thread that takes no
// signals.
#include "sys/own_thread.hpp"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <utility>

namespace coll {

Result<std::thread> start_thread(const char* name, const std::string& purpose,
                                 std::function<void()> body) {
  sigset_t blocked;
  sigset_t before;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
    sigdelset(&blocked, fault);
  }
  std::thread thread;
  int error = 0;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);  // the new thread begins with its maker's mask
  try {
    thread = std::thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name);
  } catch (const std::system_error& failure) {
    error = failure.code().value();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) return thread;
  return system_failure("starting a thread " + purpose, error,
                        "raise the limit of threads (ulimit -u)");
}

}  // namespace coll
