// SPDX-License-Identifier: Apache-2.0
// What a failed call had lent goes no further than the rank that reads it.
#include "collectives/built.hpp"
#include "executor_calls.hpp"

namespace coll::testing {
namespace {

/// Called in the middle of a step, when it has read its message.
std::function<void()> while_combining;

reduce::Kernels interrupted() {
  reduce::Kernels kernels = reduce::kernels(ReduceOp::sum, DataType::int64);
  for (auto* combine : {kernels.combine, kernels.finish}) {
    std::fill_n(combine, 2,
                [](void* out, const void* a, const void* b, std::size_t count, std::size_t ranks) {
                  while_combining();
                  const auto& sum = reduce::kernels(ReduceOp::sum, DataType::int64);
                  sum.combine[0](out, a, b, count, ranks);
                });
  }
  return kernels;
}

/// Rank 2 lends its input to rank 1, which adds its own and sends the sum to rank 0.
TEST(Withdrawal, DuringTheStepThatReadsKeepsTheResultBack) {
  const CollectiveSpec spec{Collective::reduce, 3, 0};
  for (const bool withdraws : {false, true}) {
    ExecutorRanks ranks(build_all(*find_algorithm("chain"), spec), {.script = {.least_loan = 1}});
    std::vector<Buffers> buffers;
    for (std::size_t rank = 0; rank < 3; ++rank) buffers.emplace_back(spec, rank, 4, false);
    ranks.start(2, buffers[2].call(1));
    EXPECT_TRUE(ranks.progress(2).poll());
    EXPECT_EQ(ranks.loans(), 1U);
    int combined = 0;
    while_combining = [&] {
      if (++combined == 1 && withdraws) ranks.progress(2).abandon(ranks.run(2));
    };
    const reduce::Kernels kernels = interrupted();
    CallBinding call = buffers[1].call(1);
    call.kernels = &kernels;
    ranks.start(1, call);
    EXPECT_EQ(ranks.progress(1).poll(), !withdraws);
    EXPECT_EQ(combined, 1);
    ranks.start(0, buffers[0].call(1));
    EXPECT_EQ(ranks.progress(0).poll(), !withdraws) << "a message came";
    const Connection* failed = failed_connection(ranks.run(1));
    ASSERT_EQ(failed != nullptr, withdraws);
    if (failed == nullptr) continue;
    EXPECT_EQ(failed->peer(), 2);
    EXPECT_EQ(failed->status().code(), Code::peer_lost) << failed->status().text();
  }
}

}  // namespace
}  // namespace coll::testing
