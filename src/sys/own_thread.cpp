// SPDX-License-Identifier: Apache-2.0
// Starting a thread that takes no signals.
#include "sys/own_thread.hpp"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <utility>

namespace coll {
namespace {

/// Blocks all signals but those of a thread's own faults while it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      sigdelset(&blocked, fault);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

Result<std::thread> start_thread(const char* name, const std::string& purpose,
                                 std::function<void()> body) {
  const SignalsBlocked blocked;  // the new thread begins with its maker's mask
  try {
    std::thread thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name);
    return thread;
  } catch (const std::system_error& failure) {
    return system_failure("starting a thread " + purpose, failure.code().value(),
                          "raise the limit of threads (ulimit -u)");
  }
}

}  // namespace coll
