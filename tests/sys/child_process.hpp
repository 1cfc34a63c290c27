// SPDX-License-Identifier: Apache-2.0
// A part of a test in a process of its own.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace coll::testing {

/// Runs `body` in a child of this process and returns what it returned; the status of waitpid
/// instead if a signal ended it, as one does after a minute.
inline int in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    ::_exit(body());
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : status;
}

}  // namespace coll::testing
