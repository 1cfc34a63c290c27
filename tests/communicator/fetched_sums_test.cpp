// SPDX-License-Identifier: Apache-2.0
// Sums whose messages are fetched or go through slots, as their connection finds faster: the
// results are the same, and the input is the caller's again after each call.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "communicator/calls/call_check.hpp"
#include "rank_threads.hpp"
#include "sys/memory/peer_memory.hpp"
#include "test_seed.hpp"

namespace {
std::atomic<std::size_t> g_fetches{0};
}

extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* here, unsigned long count,
                                    const iovec* there, unsigned long there_count,
                                    unsigned long flags) noexcept {
  if (here->iov_len >= 16 << 10) ++g_fetches;
  return ::syscall(SYS_process_vm_readv, pid, here, count, there, there_count, flags);
}

namespace coll::testing {
namespace {

constexpr Rank kRanks = 2;
constexpr std::uint64_t kCount = 32 << 10;  // floats of all ranks
constexpr int kCalls = 400;                 // more than the connections' trials take

/// A whole number, so that sums are exact, and another one in each call.
float element(std::uint64_t seed, int call, Rank rank, std::uint64_t index) {
  return static_cast<float>((seed + index * 7 + static_cast<std::uint64_t>(call) * 131 +
                             static_cast<std::uint64_t>(rank) * 17) %
                            1009);
}

struct Outcome {
  bool tried = false;  ///< as the plan says
  std::size_t fetches = 0;
};

Outcome run_calls(Collective collective) {
  const std::uint64_t seed = test::test_seed();
  std::atomic<bool> tried{false};
  RanksOptions options;
  options.transports = "shm";
  run_ranks(kRanks, options, [&](Communicator& comm) {
    std::vector<float> in(kCount), out(kCount);
    const bool scattered = collective == Collective::reduce_scatter;
    const std::uint64_t count = scattered ? kCount / kRanks : kCount;
    const std::uint64_t first = scattered ? count * static_cast<std::uint64_t>(comm.rank()) : 0;
    Request request;
    request.call = {.collective = collective, .type = DataType::float32, .root = 0, .count = count};
    request.input = in.data();
    request.output = out.data();
    const Result<std::string> plan = comm.explain_call(request.call);
    ASSERT_TRUE(plan.ok()) << plan.status().text();
    if (plan->find("is found faster") != std::string::npos) tried = true;
    if (comm.rank() == 0) g_fetches = 0;  // ranks that meet measure fetches
    for (int call = 0; call < kCalls; ++call) {
      for (std::uint64_t i = 0; i < kCount; ++i) in[i] = element(seed, call, comm.rank(), i);
      ASSERT_TRUE(check_request(request, comm.rank(), kRanks).ok());
      const Status status = comm.run(request);
      ASSERT_TRUE(status.ok()) << status.text();
      if (collective == Collective::reduce && comm.rank() != 0) continue;
      std::uint64_t wrong = 0;
      for (std::uint64_t i = 0; i < count; ++i) {
        wrong += out[i] != element(seed, call, 0, first + i) + element(seed, call, 1, first + i);
      }
      ASSERT_EQ(wrong, 0U) << "call " << call;
    }
  });
  return {tried, g_fetches};
}

TEST(FetchedSums, AreRightAndTried) {
  if (!can_read_memory_of(memory_proof())) GTEST_SKIP() << "no process may read another one";
  // One way, both ends work at the same time.
  const Outcome one_way = run_calls(Collective::reduce);
  EXPECT_FALSE(one_way.tried);
  EXPECT_EQ(one_way.fetches, 0U);
  for (const Collective collective : {Collective::reduce_scatter, Collective::all_reduce}) {
    const Outcome both_ways = run_calls(collective);
    EXPECT_EQ(both_ways.fetches > 0, both_ways.tried) << name_of(collective);
    if (!both_ways.tried) GTEST_SKIP() << "the ranks share a core";
  }
}

}  // namespace
}  // namespace coll::testing
