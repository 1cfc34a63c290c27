// SPDX-License-Identifier: Apache-2.0
// perf/: tools around the library. This file: fork, watch, forward signals, report who died.
#include "coll_run_ranks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "coll_run_environment.hpp"
#include "coll_run_output.hpp"

namespace perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTimedOut = 124;
constexpr int kNotStarted = 127;

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  fmt::print(stderr, "coll-run: {}\n", fmt::format(text, std::forward<Args>(args)...));
}

std::string ranks_text(int count) {
  return fmt::format("{} rank{}", count, count == 1 ? "" : "s");
}

struct RankProcess {
  pid_t pid = -1;
  bool running = false;
};

class Run {
 public:
  explicit Run(const RunOptions& options) : options_(options) {}
  int run();

 private:
  bool start(int rank, const JobEnvironment& job);
  [[noreturn]] void become(int rank, const JobEnvironment& job, int out, int error, int failure);
  void turn();
  void take_signals();
  void reap();
  void ended(int rank, int status);
  void on_time();
  void signal_all(int signal) const;
  [[nodiscard]] int running() const {
    return static_cast<int>(std::ranges::count(ranks_, true, &RankProcess::running));
  }

  const RunOptions& options_;
  sigset_t before_{};
  int signals_ = -1;
  std::vector<RankProcess> ranks_;
  std::vector<RankOutput> outputs_;
  int code_ = 0;
  std::optional<Clock::time_point> timeout_;
  std::optional<Clock::time_point> kill_;
  bool killed_ = false;
};

/// In the child, until the program runs.
void Run::become(int rank, const JobEnvironment& job, int out, int error, int failure) {
  // No orphans when coll-run is killed itself; it may be dead already.
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNotStarted);
  setpgid(0, 0);  // a key on the terminal reaches coll-run alone, which forwards it
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  if (error >= 0) dup2(error, STDERR_FILENO);
  if (options_.pin) pin_to_share(rank, options_.ranks);
  job.set(rank);
  std::vector<char*> arguments;
  for (const std::string& word : options_.command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int why = errno;
  [[maybe_unused]] const auto told = write(failure, &why, sizeof why);
  _exit(kNotStarted);
}

bool Run::start(int rank, const JobEnvironment& job) {
  int out[2] = {-1, -1};
  int error[2] = {-1, -1};
  int failure[2] = {-1, -1};
  const bool piped =
      !options_.prefix || (pipe2(out, O_CLOEXEC) == 0 && pipe2(error, O_CLOEXEC) == 0);
  const pid_t pid = piped && pipe2(failure, O_CLOEXEC) == 0 ? fork() : -1;
  if (pid == 0) become(rank, job, out[1], error[1], failure[1]);
  int why = pid < 0 ? errno : 0;
  if (pid > 0) {
    setpgid(pid, pid);  // also here: whoever comes first
    ranks_.push_back({pid, true});
    close(failure[1]);
    // Closed by the exec, or the reason why there was none.
    while (read(failure[0], &why, sizeof why) < 0 && errno == EINTR) {
    }
  }
  for (const int fd : {out[1], error[1], failure[0]}) {
    if (fd >= 0) close(fd);
  }
  if (options_.prefix && pid > 0) {
    outputs_.emplace_back(out[0], STDOUT_FILENO, fmt::format("[{}] ", rank));
    outputs_.emplace_back(error[0], STDERR_FILENO, fmt::format("[{}] ", rank));
  }
  if (why == 0) return true;
  say("cannot start rank {}, {}: {}", rank, options_.command[0], std::strerror(why));
  return false;
}

void Run::signal_all(int signal) const {
  for (const RankProcess& rank : ranks_) {
    // The group: a rank may be a shell with the program below it.
    if (rank.running) kill(-rank.pid, signal);
  }
}

void Run::take_signals() {
  signalfd_siginfo info{};
  while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    say("got {}, forwarding it to {}", strsignal(signal), ranks_text(running()));
    signal_all(signal);
    if (code_ == 0) code_ = 128 + signal;
    if (!kill_) kill_ = after(options_.grace_s);
  }
}

void Run::ended(int rank, int status) {
  RankProcess& one = ranks_[static_cast<std::size_t>(rank)];
  one.running = false;
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const int code = signal != 0 ? 128 + signal : WEXITSTATUS(status);
  if (code == 0 || killed_) return;
  const std::string how =
      signal != 0 ? fmt::format("was killed by signal {} ({}){}", signal, strsignal(signal),
                                WCOREDUMP(status) ? ", core dumped" : "")
                  : fmt::format("exited with code {}", code);
  std::string then;
  if (!kill_) {
    kill_ = after(options_.grace_s);
    if (running() > 0)
      then = fmt::format("; waiting {:g} s for the other {}", options_.grace_s, running());
  }
  if (code_ == 0) code_ = code;
  say("rank {} (pid {}) {}{}", rank, one.pid, how, then);
}

void Run::reap() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    int status = 0;
    if (ranks_[rank].running && waitpid(ranks_[rank].pid, &status, WNOHANG) == ranks_[rank].pid) {
      ended(static_cast<int>(rank), status);
    }
  }
}

void Run::on_time() {
  const auto now = Clock::now();
  if (timeout_ && now >= *timeout_) {
    timeout_.reset();
    say("the time of {:g} s is over with {} running; ending them", options_.timeout_s,
        ranks_text(running()));
    if (code_ == 0) code_ = kTimedOut;
    signal_all(SIGTERM);
    if (!kill_) kill_ = after(options_.grace_s);
  }
  if (kill_ && now >= *kill_ && !killed_ && running() > 0) {
    std::string who;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].running) who += fmt::format("{}{}", who.empty() ? "" : ", ", rank);
    }
    say("killing what still runs: rank {}", who);
    killed_ = true;
    signal_all(SIGKILL);
  }
}

void Run::turn() {
  std::vector<pollfd> fds{{signals_, POLLIN, 0}};
  for (const RankOutput& one : outputs_) fds.push_back({one.fd(), POLLIN, 0});
  auto wake = Clock::now() + std::chrono::seconds(1);
  if (timeout_) wake = std::min(wake, *timeout_);
  if (kill_ && !killed_) wake = std::min(wake, *kill_);
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(wake - Clock::now()).count();
  poll(fds.data(), fds.size(), static_cast<int>(std::max<long>(wait, 0)));
  std::set<int> over;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (fds[i + 1].revents != 0 && !outputs_[i].pump()) over.insert(outputs_[i].fd());
  }
  std::erase_if(outputs_, [&](const RankOutput& one) { return over.contains(one.fd()); });
  if (fds[0].revents != 0) take_signals();
  reap();
  on_time();
}

int Run::run() {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    sigaddset(&ours, signal);
  }
  sigprocmask(SIG_BLOCK, &ours, &before_);
  signals_ = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
  JobEnvironment job;
  if (signals_ < 0 || !job.prepare(options_.ranks, options_.rendezvous)) {
    say("cannot prepare the job: {}", std::strerror(errno));
    return kNotStarted;
  }
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (start(rank, job)) continue;
    signal_all(SIGKILL);
    killed_ = true;
    code_ = kNotStarted;
    break;
  }
  if (options_.timeout_s > 0) timeout_ = after(options_.timeout_s);
  while (running() > 0) turn();
  // What the ranks left in the pipes; a grandchild that keeps one open is not waited for.
  const auto until = Clock::now() + std::chrono::milliseconds(200);
  while (!outputs_.empty() && Clock::now() < until) {
    std::vector<pollfd> fds;
    for (const RankOutput& one : outputs_) fds.push_back({one.fd(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), 50) <= 0) break;
    std::erase_if(outputs_, [&](RankOutput& one) {
      const auto at = std::ranges::find(fds, one.fd(), &pollfd::fd);
      return at->revents != 0 && !one.pump();
    });
  }
  return code_;
}

}  // namespace

int run_ranks(const RunOptions& options) {
  return Run(options).run();
}

}  // namespace perf
