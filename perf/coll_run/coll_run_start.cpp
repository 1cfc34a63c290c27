// SPDX-License-Identifier: Apache-2.0
// Fork, and what a child does until its program runs.
#include "coll_run/coll_run_start.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>

#include "coll_run/coll_run_ranks.hpp"

namespace perf {
namespace {

[[noreturn]] void become(const RankStart& how, pid_t parent, int out, int error, int failure) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNotStarted);  // it is dead already
  setpgid(0, 0);  // a key on the terminal reaches coll-run alone, which forwards it
  sigprocmask(SIG_SETMASK, how.signals, nullptr);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  if (error >= 0) dup2(error, STDERR_FILENO);
  if (how.pin) pin_to_share(how.rank, how.ranks);
  how.job->set(how.rank);
  std::vector<char*> arguments;
  for (const std::string& word : *how.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int why = errno;
  [[maybe_unused]] const auto told = write(failure, &why, sizeof why);
  _exit(kNotStarted);
}

}  // namespace

StartedRank start_rank(const RankStart& how) {
  int out[2] = {-1, -1};
  int error[2] = {-1, -1};
  int failure[2] = {-1, -1};
  const bool piped = !how.piped || (pipe2(out, O_CLOEXEC) == 0 && pipe2(error, O_CLOEXEC) == 0);
  const pid_t parent = getpid();
  StartedRank started;
  started.pid = piped && pipe2(failure, O_CLOEXEC) == 0 ? fork() : -1;
  if (started.pid == 0) become(how, parent, out[1], error[1], failure[1]);
  if (started.pid < 0) started.why = errno;
  if (started.pid > 0) {
    setpgid(started.pid, started.pid);  // also here: whoever comes first
    close(failure[1]);
    failure[1] = -1;
    // Closed by the exec, or the reason why there was none.
    while (read(failure[0], &started.why, sizeof started.why) < 0 && errno == EINTR) {
    }
    started.out = out[0];
    started.error = error[0];
    out[0] = error[0] = -1;
  }
  for (const int fd : {out[0], out[1], error[0], error[1], failure[0], failure[1]}) {
    if (fd >= 0) close(fd);
  }
  return started;
}

}  // namespace perf
