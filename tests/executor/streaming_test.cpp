// SPDX-License-Identifier: Apache-2.0
// Results go past the caches only where no step wants them there, and where it matters they do.
#include "executor/streaming.hpp"

#include <map>

#include "executor_calls.hpp"
#include "executor_ranks.hpp"
#include "test_seed.hpp"
#include "user_memory.hpp"

namespace coll {
namespace {

using When = BoundStep::When;

/// Does nothing else that the rank reads or writes lie where the step stores its result?
bool alone(const Schedule& schedule, const Memory& memory, const Step& result) {
  const Extent written = extent_of(memory, result.into, result.count);
  int meetings = 0;
  for (const Lane& lane : schedule.lanes) {
    for (const Step& step : lane) {
      for (const Operand& operand : {step.from, step.with, step.into})
        meetings += extent_of(memory, operand, step.count).meets(written) ? 1 : 0;
    }
  }
  return meetings == 1;
}

When by_brute_force(const Schedule& schedule, const Step& step) {
  if (step.into.space != Space::output || step.count == 0) return When::never;
  if (!alone(schedule, Memory::apart(schedule), step)) return When::never;
  const CollectiveSpec& spec = schedule.spec;
  const InPlace place = in_place(spec.collective, spec.ranks, spec.root, schedule.rank);
  const bool in_one_too = !place.allowed || alone(schedule, Memory::in_one(schedule, place), step);
  return in_one_too ? When::always : When::if_apart;
}

TEST(Streaming, IsOfResultsThatNoOtherStepTouches) {
  for_each_call([](const std::vector<Schedule>& schedules) {
    for (const Schedule& schedule : schedules) {
      const auto streams = find_streams(schedule);
      ASSERT_EQ(streams.size(), schedule.lanes.size());
      for (std::size_t lane = 0; lane < streams.size(); ++lane) {
        ASSERT_EQ(streams[lane].size(), schedule.lanes[lane].size());
        for (std::size_t index = 0; index < streams[lane].size(); ++index) {
          const Step step = schedule.lanes[lane][index];
          if (step.count == 0) continue;
          EXPECT_EQ(streams[lane][index], by_brute_force(schedule, step))
              << "rank " << schedule.rank << " lane " << lane << " step " << index;
        }
      }
    }
  });
}

/// What the steps of a rank that store results say.
std::map<When, int> count(std::string_view algorithm, const CollectiveSpec& spec, Rank rank) {
  std::map<When, int> found;
  const Schedule schedule =
      build_all(*find_algorithm(algorithm), spec)[static_cast<std::size_t>(rank)];
  const auto streams = find_streams(schedule);
  for (std::size_t lane = 0; lane < streams.size(); ++lane) {
    for (std::size_t index = 0; index < streams[lane].size(); ++index) {
      if (schedule.lanes[lane][index].into.space == Space::output) ++found[streams[lane][index]];
    }
  }
  return found;
}

TEST(Streaming, IsThereWhereItMatters) {
  using Found = std::map<When, int>;
  // Of two ranks each combines one half and gets the other; in place it has read both.
  EXPECT_EQ(count("two_shot", {Collective::all_reduce, 2, 0}, 0), (Found{{When::if_apart, 2}}));
  // What others have is new to its receiver; its own part is there already in place.
  EXPECT_EQ(count("one_shot", {Collective::all_gather, 4, 0}, 1),
            (Found{{When::if_apart, 1}, {When::always, 3}}));
  EXPECT_EQ(count("linear", {Collective::broadcast, 4, 0}, 3), (Found{{When::always, 1}}));
  // The root takes up one child after the other.
  EXPECT_EQ(count("binomial", {Collective::reduce, 4, 0}, 0), (Found{{When::never, 2}}));
}

/// Sums of which those that pass by the caches are counted.
int streamed = 0;
int finished = 0, both = 0;  ///< of them those that finish the sum, that pass by in both sinks
const reduce::Kernels& counting_sums() {
  static const reduce::Kernels& plain = reduce::kernels(ReduceOp::sum, DataType::int64);
  static reduce::Kernels counting = plain;
  counting.combine[1] = [](void* out, const void* a, const void* b, std::size_t n, std::size_t r) {
    ++streamed;
    plain.combine[0](out, a, b, n, r);
  };
  counting.combine_both[0] = [](void* out, void* out2, const void* a, const void* b, std::size_t n,
                                std::size_t r) {
    ++streamed;
    plain.combine_both[0](out, out2, a, b, n, r);
  };
  counting.combine_both[1] = [](void* out, void* out2, const void* a, const void* b, std::size_t n,
                                std::size_t r) {
    ++both;
    counting.combine_both[0](out, out2, a, b, n, r);
  };
  counting.finish[1] = [](void* out, const void* a, const void* b, std::size_t n, std::size_t r) {
    ++finished;
    counting.combine[1](out, a, b, n, r);
  };
  counting.finish_both[0] = [](void* out, void* out2, const void* a, const void* b, std::size_t n,
                               std::size_t r) {
    ++finished;
    counting.combine_both[0](out, out2, a, b, n, r);
  };
  counting.finish_both[1] = [](void* out, void* out2, const void* a, const void* b, std::size_t n,
                               std::size_t r) {
    ++finished;
    counting.combine_both[1](out, out2, a, b, n, r);
  };
  return counting;
}

struct Stores {
  reduce::Store store = reduce::Store::cached, landed = reduce::Store::cached;
};
/// Two ranks sum up, and count in `streamed` and `finished`.
void sum_up(const FakeScript& script, bool in_place, const Stores& stores) {
  const CollectiveSpec spec{Collective::all_reduce, 2, 0};
  testing::ExecutorRanks ranks(build_all(*find_algorithm("two_shot"), spec), {.script = script});
  std::vector<testing::Buffers> buffers;
  for (const std::size_t rank : {0U, 1U}) buffers.emplace_back(spec, rank, 100, in_place, 0);
  streamed = finished = both = 0;
  for (const std::size_t rank : {0U, 1U}) {
    CallBinding call = buffers[rank].call(0);
    call.kernels = &counting_sums();
    call.store = stores.store;
    call.landed_store = stores.landed;
    ranks.start(rank, call);
  }
  std::mt19937_64 random(test::test_seed());
  ASSERT_TRUE(ranks.drive(random, 100'000, [&](std::size_t rank) {
    testing::compare(buffers[rank].take(), spec, rank, 100);
  }));
}

TEST(Streaming, TheExecutorGoesByIt) {
  for (const bool in_place : {false, true}) {
    for (const reduce::Store store : {reduce::Store::cached, reduce::Store::streaming}) {
      ASSERT_NO_FATAL_FAILURE(sum_up({}, in_place, {.store = store}));
      const bool past = store == reduce::Store::streaming && !in_place;
      EXPECT_EQ(streamed > 0, past) << (in_place ? "in place" : "apart");
      EXPECT_EQ(finished, streamed) << "each half's only sum is its last";
      EXPECT_EQ(both > 0, past) << "one of the two connections wants that of its slots";
      EXPECT_TRUE(both < streamed || !past) << "the other one's peer reads its slots at once";
    }
  }
}

/// Sums that are written to their receiver's memory as well have a choice of their own, for both.
TEST(Streaming, OfWhatLandsIsChosenApart) {
  for (const bool lands : {false, true}) {
    FakeScript script;
    if (lands) script.least_landing = 1;
    ASSERT_NO_FATAL_FAILURE(sum_up(script, false, {.landed = reduce::Store::streaming}));
    EXPECT_EQ(streamed > 0, lands);
    EXPECT_EQ(both, streamed);
  }
}

}  // namespace
}  // namespace coll
