// SPDX-License-Identifier: Apache-2.0
// The two sides of a benchmark: cores of their own, the other side as a process, and many short
// batches.
#pragma once
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <vector>

namespace perf {

inline constexpr int kWarmUp = 64;  ///< round trips, or calls, before the clock starts

/// The processors this process may use, before any thread was pinned.
inline const cpu_set_t kAllowed = [] {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  return allowed;
}();

/// Pins this thread to the n-th of them.
inline void pin(int n) {
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &kAllowed) || n-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    return;
  }
}

/// This process and a copy of it, which end together; each is pinned to a core of its own. (Threads
/// of one process read each other's memory where it lies, and show nothing of ranks that do not.)
class TwoProcesses {
 public:
  TwoProcesses() {
    void* memory = ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    stop_ = new (memory) std::atomic<bool>(false);
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets_) != 0) return;
    child_ = ::fork();
    rank_ = child_ == 0 ? 1 : 0;
    ::close(sockets_[1 - rank_]);
    pin(rank_);
  }
  ~TwoProcesses() {
    if (stop_ == nullptr) return;
    stop_->store(true);
    ::close(sockets_[rank_]);
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
    ::munmap(stop_, sizeof *stop_);
  }
  TwoProcesses(const TwoProcesses&) = delete;
  TwoProcesses& operator=(const TwoProcesses&) = delete;

  [[nodiscard]] int rank() const { return rank_; }  ///< 0: the benchmark's own process
  /// Raised when this process has what it wants.
  [[nodiscard]] const std::atomic<bool>& stop() const { return *stop_; }

  /// Gives the other process a text for one of its own; "" where that fails.
  [[nodiscard]] std::string swap(std::string_view mine) const {
    char theirs[4096];
    if (child_ < 0 || ::send(sockets_[rank_], mine.data(), mine.size(), MSG_NOSIGNAL) < 0)
      return "";
    const ssize_t length = ::recv(sockets_[rank_], theirs, sizeof theirs, 0);
    return length <= 0 ? "" : std::string(theirs, static_cast<std::size_t>(length));
  }

  /// The other process does `body`, mostly until stop(), and ends; it does not come back.
  template <class Body>
  void partner(Body body) const {
    if (rank_ == 0) return;
    body();
    ::_exit(0);
  }

 private:
  std::atomic<bool>* stop_ = nullptr;
  int sockets_[2] = {-1, -1};
  pid_t child_ = -1;
  int rank_ = 0;
};

inline double least(const std::vector<double>& values) {
  return *std::ranges::min_element(values);
}

/// Many short batches: the least is what a thing costs where other work disturbs the rest.
inline void batches(benchmark::internal::Benchmark* benchmark, int iterations, int repetitions) {
  benchmark->Iterations(iterations)->Repetitions(repetitions)->ReportAggregatesOnly();
  benchmark->UseRealTime()->ComputeStatistics("min", least);
}

}  // namespace perf
