// SPDX-License-Identifier: Apache-2.0
// The process that a user sees and may kill, and the keeper below it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "coll_run/coll_run_family.hpp"
#include "coll_run/coll_run_ranks.hpp"

namespace perf {
namespace {

[[noreturn]] void become_keeper(const RunOptions& options, const sigset_t& before,
                                const sigset_t& ours, const int (&life)[2]) {
  close(life[1]);
  setpgid(0, 0);  // nothing that is meant for the whole group of its maker ends it
  prctl(PR_SET_NAME, "coll-keeper");  // nor does killall
  adopt_orphans();
  _exit(keep_ranks(options, before, ours, life[0]));  // leaves threads in writes, if need be
}

/// Forwards signals until the keeper has ended; its code.
int attend(pid_t keeper, const sigset_t& signals) {
  int status = 0;
  while (waitpid(keeper, &status, WNOHANG) != keeper) {
    const int signal = sigwaitinfo(&signals, nullptr);
    if (signal > 0 && signal != SIGCHLD) kill(keeper, signal);
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  fmt::print(stderr,
             "coll-run: the ranks' keeper (pid {}) was killed by signal {}, and the ranks with it; "
             "what they started may still run\n",
             keeper, WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

}  // namespace

int run_ranks(const RunOptions& options) {
  sigset_t ours;
  sigset_t before;
  sigemptyset(&ours);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    sigaddset(&ours, signal);
  }
  std::signal(SIGCHLD, SIG_DFL);  // whoever ignores it never hears of its children
  sigprocmask(SIG_BLOCK, &ours, &before);
  int life[2] = {-1, -1};
  const pid_t keeper = pipe2(life, O_CLOEXEC) == 0 ? fork() : -1;
  if (keeper == 0) become_keeper(options, before, ours, life);
  int code = kNotStarted;
  if (keeper < 0) {
    fmt::print(stderr, "coll-run: cannot start a process: {}\n", std::strerror(errno));
  } else {
    setpgid(keeper, keeper);  // also here: whoever comes first
    close(life[0]);
    life[0] = -1;
    code = attend(keeper, ours);
  }
  for (const int fd : life) {
    if (fd >= 0) close(fd);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return code;
}

}  // namespace perf
