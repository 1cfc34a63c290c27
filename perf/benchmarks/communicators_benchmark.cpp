// SPDX-License-Identifier: Apache-2.0
// What many communicators of the same ranks cost: time, memory, descriptors, threads. Run it on
// each rank, by coll-run.
#include <collectives/collectives.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void must(coll_status_t status) {
  if (status == COLL_SUCCESS) return;
  std::fprintf(stderr, "%s\n", coll_last_error());
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): one thread
}

void sum(coll_comm_t comm) {
  float values[2] = {1, 1};
  must(coll_all_reduce(values, values, 2, COLL_FLOAT32, COLL_SUM, comm, nullptr));
}

/// Of this process, now.
struct Footprint {
  double pss_kib = 0;
  double files = 0;
  double threads = 0;

  static Footprint now() {
    Footprint one;
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string word; file >> word;) {
      if (word == "Pss:") file >> one.pss_kib;
    }
    one.files = entries("/proc/self/fd");
    one.threads = entries("/proc/self/task");
    return one;
  }
  static double entries(const char* folder) {
    return static_cast<double>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: coll-run -n RANKS -- communicators-benchmark COUNT [use]\n"
                 "Duplicates a communicator COUNT times; use: sums 8 bytes on each copy.\n");
    return 2;
  }
  const auto count = static_cast<std::size_t>(std::max(std::atoi(argv[1]), 1));
  const bool use = argc > 2;
  coll_comm_t world = nullptr;
  must(coll_comm_init_env(&world, nullptr));
  int rank = 0, size = 0;
  must(coll_comm_rank(world, &rank));
  must(coll_comm_size(world, &size));
  sum(world);
  const Footprint before = Footprint::now();
  must(coll_barrier(world, nullptr));

  std::vector<coll_comm_t> copies(count);
  std::vector<double> each;
  const auto begin = Clock::now();
  for (coll_comm_t& one : copies) {
    const auto start = Clock::now();
    must(coll_comm_duplicate(world, nullptr, &one));
    each.push_back(seconds_since(start) * 1e3);
    if (use) sum(one);
  }
  const double made_s = seconds_since(begin);
  must(coll_barrier(world, nullptr));
  const Footprint after = Footprint::now();
  must(coll_barrier(world, nullptr));

  const auto end = Clock::now();
  for (coll_comm_t one : copies) must(coll_comm_destroy(one));
  const double ended_s = seconds_since(end);
  std::ranges::sort(each);
  const auto per = [&](double Footprint::*of) {
    return (after.*of - before.*of) / static_cast<double>(count);
  };
  if (rank == 0) {
    std::printf(
        "%zu of %d ranks: %.3f s (duplicate: median %.3f ms, worst %.1f ms), one takes %.0f KiB "
        "(PSS), %.2f descriptors, %.2f threads; all destroyed in %.3f s\n",
        count, size, made_s, each[each.size() / 2], each.back(), per(&Footprint::pss_kib),
        per(&Footprint::files), per(&Footprint::threads), ended_s);
  }
  must(coll_comm_destroy(world));
  return 0;
}
