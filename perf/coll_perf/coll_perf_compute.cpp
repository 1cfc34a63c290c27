// SPDX-License-Identifier: Apache-2.0
// What a caller does while its call is under way, and the clocks.
#include "coll_perf/coll_perf_compute.hpp"

#include <ctime>

namespace perf {
namespace {

double read(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

double now() {
  return read(CLOCK_MONOTONIC);
}

double process_cpu() {
  return read(CLOCK_PROCESS_CPUTIME_ID);
}

std::uint64_t grind(std::uint64_t state, std::uint64_t turns) {
  for (; turns > 0; --turns) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    asm volatile("" : "+r"(state));  // every step is taken, and none is left for later
  }
  return state;
}

Computation::Computation(Compute kind) : kind_(kind) {
  if (kind != Compute::work) return;
  // By this thread's time on a core, which others on the machine cannot stretch.
  double took = 0;
  for (std::uint64_t turns = 1 << 16; took < 5e-3; turns *= 2) {
    const double start = read(CLOCK_THREAD_CPUTIME_ID);
    state_ = grind(state_, turns);
    took = read(CLOCK_THREAD_CPUTIME_ID) - start;
    turns_per_s_ = static_cast<double>(turns) / took;
  }
}

void Computation::run() {
  if (kind_ == Compute::work) {
    state_ = grind(state_, static_cast<std::uint64_t>(seconds_ * turns_per_s_));
  } else {
    const auto whole = static_cast<time_t>(seconds_);
    const timespec time{whole, static_cast<long>((seconds_ - static_cast<double>(whole)) * 1e9)};
    nanosleep(&time, nullptr);
  }
}

}  // namespace perf
