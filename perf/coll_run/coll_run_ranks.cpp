// SPDX-License-Identifier: Apache-2.0
// Watch ranks, forward signals, report who died.
#include "coll_run/coll_run_ranks.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "coll_run/coll_run_environment.hpp"
#include "coll_run/coll_run_family.hpp"
#include "coll_run/coll_run_output.hpp"
#include "coll_run/coll_run_start.hpp"
#include "sys/clock.hpp"

namespace perf {
namespace {

using coll::Clock;
using coll::Deadline;

constexpr auto kLongestTurn = std::chrono::seconds(1);
/// For what writes a little later than its rank ends, such as a shell's `> >(filter)`.
constexpr auto kStragglers = std::chrono::milliseconds(200);
constexpr auto kIdle = std::chrono::milliseconds(50);

std::string ranks_text(int count) {
  return fmt::format("{} rank{}", count, count == 1 ? "" : "s");
}

bool is_one_file(int a, int b) {
  struct stat one {};
  struct stat other {};
  return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

struct RankProcess {
  pid_t pid = -1;
  bool running = false;
};

class Run {
 public:
  Run(const RunOptions& options, const sigset_t& before, int signals, int life, int room)
      : options_(options),
        before_(before),
        signals_(signals),
        life_(life),
        room_(room),
        out_(STDOUT_FILENO, room),
        // Lines of both in one file stay whole, and in order.
        error_(is_one_file(STDOUT_FILENO, STDERR_FILENO) ? out_ : Sink(STDERR_FILENO, room)) {}
  int run();

 private:
  bool start_all(const JobEnvironment& job);
  void watch();
  void read_what_is_left();
  void hand_over();
  bool turn(Deadline wake);
  void take_signals();
  bool reap();
  void ended(int rank, int status);
  void on_time();
  void signal_all(int signal);
  void signal_adopted();
  [[nodiscard]] const char* what_is_left() const;
  void hurry(int code);
  [[nodiscard]] int running() const {
    return static_cast<int>(std::ranges::count(ranks_, true, &RankProcess::running));
  }
  /// We ended the job, and nobody has taken what was left to say.
  [[nodiscard]] bool gives_up() const { return hurried_ && Clock::now() >= *kill_; }
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    error_.put(fmt::format("coll-run: {}\n", fmt::format(text, std::forward<Args>(args)...)));
  }

  const RunOptions& options_;
  const sigset_t& before_;
  int signals_, life_, room_;
  Sink out_, error_;
  std::vector<RankProcess> ranks_;
  std::vector<RankOutput> outputs_;
  int code_ = 0;
  std::optional<Deadline> timeout_;
  std::optional<Deadline> kill_;
  int signal_ = 0;               ///< the last that was forwarded
  std::set<pid_t> told_;         ///< who has got it
  std::set<pid_t> told_groups_;  ///< and all of whose members have
  bool hurried_ = false;         ///< the ranks were told to end
  bool killed_ = false;          ///< and made to
  bool deserted_ = false;        ///< the process that a user started is gone
};

bool Run::start_all(const JobEnvironment& job) {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const StartedRank started = start_rank({.rank = rank,
                                            .ranks = options_.ranks,
                                            .pin = options_.pin,
                                            .piped = options_.label,
                                            .signals = &before_,
                                            .job = &job,
                                            .command = &options_.command});
    if (started.pid > 0) ranks_.push_back({started.pid, true});
    if (started.out >= 0) outputs_.emplace_back(started.out, out_, fmt::format("[{}] ", rank));
    if (started.error >= 0)
      outputs_.emplace_back(started.error, error_, fmt::format("[{}] ", rank));
    if (started.why == 0) continue;
    say("cannot start rank {}, {}: {}", rank, options_.command[0], std::strerror(started.why));
    return false;
  }
  return true;
}

/// To all that the ranks started, too. To each process once: a second one may mean haste to it.
void Run::signal_all(int signal) {
  signal_ = signal;
  told_.clear();
  told_groups_.clear();
  for (const RankProcess& rank : ranks_) {
    // The group: a rank may be a shell with the program below it.
    if (rank.running && kill(-rank.pid, signal) == 0) told_groups_.insert(rank.pid);
  }
  signal_adopted();
}

/// What has left its rank's group gets the signal once its parent has ended.
void Run::signal_adopted() {
  for (const pid_t child : children()) {
    if (told_groups_.contains(getpgid(child)) || !told_.insert(child).second) continue;
    kill(child, signal_);
  }
}

/// Why we are still here without ranks.
const char* Run::what_is_left() const {
  return out_.is_empty() && error_.is_empty() ? "what the ranks started still running"
                                              : "output that nobody has read";
}

/// The job is to end, and what is left of it when the grace period is over does not count.
void Run::hurry(int code) {
  hurried_ = true;
  if (code_ == 0) code_ = code;
  if (!kill_) kill_ = coll::after(options_.grace_s);
}

void Run::take_signals() {
  signalfd_siginfo info{};
  while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    if (running() > 0) {
      say("got {}, forwarding it to {}", strsignal(signal), ranks_text(running()));
    } else {
      say("got {}, with {}", strsignal(signal), what_is_left());
    }
    signal_all(signal);
    hurry(128 + signal);
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
    kill_ = coll::after(options_.grace_s);
    if (running() > 0)
      then = fmt::format("; waiting {:g} s for the other {}", options_.grace_s, running());
  }
  if (code_ == 0) code_ = code;
  say("rank {} (pid {}) {}{}", rank, one.pid, how, then);
}

/// Reaps children that have ended, adopted ones too. False if there was none.
bool Run::reap() {
  bool any = false;
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    any = true;
    told_.erase(pid);
    const auto at = std::ranges::find(ranks_, pid, &RankProcess::pid);
    if (at != ranks_.end() && at->running) ended(static_cast<int>(at - ranks_.begin()), status);
  }
  return any;
}

void Run::on_time() {
  const auto now = Clock::now();
  if (timeout_ && now >= *timeout_) {
    timeout_.reset();
    if (running() > 0) {
      say("the time of {:g} s is over with {} running; ending them", options_.timeout_s,
          ranks_text(running()));
    } else {
      say("the time of {:g} s is over with {}", options_.timeout_s, what_is_left());
    }
    signal_all(SIGTERM);
    hurry(kTimedOut);
  }
  if (kill_ && now >= *kill_ && !killed_ && running() > 0) {
    std::string who;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].running) who += fmt::format("{}{}", who.empty() ? "" : ", ", rank);
    }
    say("killing what still runs: rank {}", who);
    killed_ = true;
  }
  if (killed_) kill_children();  // every time: the children of those before are ours now
}

/// Waits for something to happen, and sees to it. False if nothing did until `wake`.
bool Run::turn(Deadline wake) {
  std::vector<pollfd> fds{{signals_, POLLIN, 0}, {life_, 0, 0}, {room_, POLLIN, 0}};
  const std::size_t before = fds.size();
  for (const RankOutput& one : outputs_) fds.push_back({one.has_room() ? one.fd() : -1, POLLIN, 0});
  if (timeout_) wake = std::min(wake, *timeout_);
  if (kill_ && !killed_ && (hurried_ || running() > 0)) wake = std::min(wake, *kill_);
  const bool any = poll(fds.data(), fds.size(), coll::poll_timeout(wake)) > 0;
  std::set<int> over;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (fds[before + i].revents != 0 && !outputs_[i].pump()) over.insert(outputs_[i].fd());
  }
  std::erase_if(outputs_, [&](const RankOutput& one) { return over.contains(one.fd()); });
  std::uint64_t ignored = 0;
  if (fds[2].revents != 0) [[maybe_unused]]
    const auto got = read(room_, &ignored, sizeof ignored);
  if (fds[1].revents != 0) deserted_ = true;
  if (fds[0].revents != 0) take_signals();
  // An end may leave us its children; one far below, which we do not hear of, may too.
  if ((reap() || !any) && hurried_) signal_adopted();
  on_time();
  return any;
}

/// Until all have ended; where they were told to, with everything that they started.
void Run::watch() {
  while (!deserted_ && (running() > 0 || (hurried_ && !gives_up() && has_children()))) {
    turn(Clock::now() + kLongestTurn);
  }
}

/// What ranks left in the pipes. A process that keeps one open is not waited for.
void Run::read_what_is_left() {
  const Deadline until = Clock::now() + kStragglers;
  while (!deserted_ && !outputs_.empty() && Clock::now() < until) {
    if (!turn(Clock::now() + kIdle)) break;
  }
  for (RankOutput& one : outputs_) one.finish();
  outputs_.clear();
}

/// Waits until all output was taken, as any program does whose reader is slow.
void Run::hand_over() {
  for (Sink* sink : {&out_, &error_}) {
    while (!deserted_ && !gives_up() && !sink->is_empty()) turn(Clock::now() + kLongestTurn);
    const int error = sink->error();
    if (error != 0 && error != EPIPE) say("cannot write the output: {}", std::strerror(error));
  }
}

int Run::run() {
  JobEnvironment job;
  if (!job.prepare(options_.ranks, options_.rendezvous)) {
    say("cannot prepare the job: {}", std::strerror(errno));
    code_ = kNotStarted;
  } else if (!start_all(job)) {
    signal_all(SIGKILL);
    killed_ = true;
    code_ = kNotStarted;
  }
  if (options_.timeout_s > 0) timeout_ = coll::after(options_.timeout_s);
  // Not before: a process with one thread is a better one to fork.
  for (Sink* sink : {&out_, &error_}) {
    const coll::Status started = sink->start();
    if (started.ok()) continue;
    fmt::print(stderr, "coll-run: {}\n", started.text());
    kill_family();
    return kNotStarted;
  }
  watch();
  read_what_is_left();
  // What ranks that did well leave running is theirs to decide.
  if (deserted_ || code_ != 0) kill_family();
  hand_over();
  return code_;
}

}  // namespace

int keep_ranks(const RunOptions& options, const sigset_t& before, const sigset_t& ours, int life) {
  const int signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
  const int room = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (signals < 0 || room < 0) {
    fmt::print(stderr, "coll-run: cannot prepare the job: {}\n", std::strerror(errno));
    return kNotStarted;
  }
  return Run(options, before, signals, life, room).run();
}

}  // namespace perf
