// SPDX-License-Identifier: Apache-2.0
// Hundreds of ranks on a few cores: all are served, and those that wait leave the cores alone.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "rank_processes.hpp"

namespace collectives::testing {
namespace {

#ifdef SANITIZED
constexpr int kProcesses = 4, kThreads = 8;
constexpr bool kCounts = false;  // a sanitizer's own work is most of it
#else
constexpr int kProcesses = 8, kThreads = 32;
constexpr bool kCounts = true;
#endif
constexpr int kRanks = kProcesses * kThreads;

/// Each rank is connected to all others, and tries more of their addresses meanwhile.
constexpr rlim_t kFiles = static_cast<rlim_t>(kThreads) * (kRanks + 64);

constexpr double kLate_s = 1;
/// Of the cores, for all waiting ranks together. Where each looks at every connection once a
/// millisecond, they fill two cores.
constexpr double kMost = 0.7;

/// One rank, a thread of its process.
class CrowdRank {
 public:
  CrowdRank(coll_comm_t comm, int rank) : comm_(comm), rank_(rank) {}

  bool sums() {
    std::vector<std::int64_t> data(100);
    std::iota(data.begin(), data.end(), rank_);
    if (!good("all_reduce", coll_all_reduce(data.data(), data.data(), data.size(), COLL_INT64,
                                            COLL_SUM, comm_, nullptr))) {
      return false;
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      const std::int64_t expected =
          kRanks * (kRanks - 1) / 2 + kRanks * static_cast<std::int64_t>(i);
      if (data[i] != expected) return wrong_element("all_reduce", i, data[i], expected);
    }
    return true;
  }
  bool exchanges() {
    constexpr std::size_t kBlock = 4;
    std::vector<std::int32_t> send(kRanks * kBlock), got(kRanks * kBlock);
    for (std::size_t i = 0; i < send.size(); ++i) {
      send[i] = rank_ * 100'000 + static_cast<std::int32_t>(i);
    }
    if (!good("all_to_all",
              coll_all_to_all(send.data(), got.data(), kBlock, COLL_INT32, comm_, nullptr))) {
      return false;
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto from = static_cast<std::int32_t>(i / kBlock);
      const auto place = static_cast<std::size_t>(rank_) * kBlock + i % kBlock;
      const std::int32_t expected = from * 100'000 + static_cast<std::int32_t>(place);
      if (got[i] != expected) return wrong_element("all_to_all", i, got[i], expected);
    }
    return true;
  }
  bool adds_up(double& value) {
    return good("all_reduce",
                coll_all_reduce(&value, &value, 1, COLL_FLOAT64, COLL_SUM, comm_, nullptr));
  }
  bool meets() { return good("barrier", coll_barrier(comm_, nullptr)); }

 private:
  bool good(const char* doing, coll_status_t status) {
    return !wrong(rank_, doing, status, COLL_SUCCESS);
  }
  bool wrong_element(const char* of, std::size_t i, std::int64_t is, std::int64_t expected) const {
    std::cerr << "rank " << rank_ << ", " << of << ": element " << i << " is " << is << ", not "
              << expected << "\n";
    return false;
  }

  coll_comm_t comm_;
  int rank_;
};

bool run_rank(const std::string& place, const std::string& transports, int rank) {
  const coll_comm_t comm = join(place, transports, kRanks, rank, kPatience_s);
  if (comm == nullptr) return false;
  CrowdRank self(comm, rank);
  bool good = self.meets();
  for (int round = 0; good && round < 2; ++round) good = self.sums() && self.exchanges();
  good = good && self.meets();
  double spent = 0, waited = 0;
  // Rank 0 measures. If it slept through most of the wait, it tries again.
  for (int tries = 0; good && tries < 5 && waited < kLate_s / 2; ++tries) {
    const double before = processor_s();
    const auto began = std::chrono::steady_clock::now();
    if (rank == kRanks - 1) std::this_thread::sleep_for(std::chrono::duration<double>(kLate_s));
    good = self.meets();
    const std::chrono::duration<double> seen = std::chrono::steady_clock::now() - began;
    waited = rank == 0 ? seen.count() : 0;
    // One rank speaks for its process.
    spent = rank % kThreads == 0 ? processor_s() - before : 0;
    good = good && self.adds_up(waited) && self.adds_up(spent);
  }
  coll_comm_destroy(comm);
  if (!kCounts || rank != 0) return good;
  const double most = kMost * waited * std::thread::hardware_concurrency();
  std::cout << "waiting took " << spent << " s on cores, of at most " << most << "\n";
  return good && spent < most;
}

class Crowd : public ::testing::TestWithParam<const char*> {};

TEST_P(Crowd, IsServedAndWaitsForLittle) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < kFiles) {
    GTEST_SKIP() << "a process needs " << kFiles << " descriptors, the hard limit is "
                 << files.rlim_max;
  }
  const rlimit before = files;
  files.rlim_cur = std::max(files.rlim_cur, kFiles);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const Meetings meetings;
  RankProcesses processes(kProcesses, [&](int process) {
    std::atomic<int> bad{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, rank = process * kThreads + i] {
        if (!run_rank(meetings.place(0), GetParam(), rank)) ++bad;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return bad == 0 ? 0 : 1;
  });
  processes.expect_all_good();
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

INSTANTIATE_TEST_SUITE_P(Transports, Crowd, ::testing::Values("shm", "tcp"),
                         [](const auto& transports) { return std::string(transports.param); });

}  // namespace
}  // namespace collectives::testing
