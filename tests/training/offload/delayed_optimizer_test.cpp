// SPDX-License-Identifier: Apache-2.0
// Delayed updates: weights one step late, and otherwise the bits of the optimizer in memory.
#include "offload/delayed_optimizer.hpp"

#include "offload/file_optimizer.hpp"
#include "offload/host_optimizer.hpp"
#include "optimizer_workout.hpp"
#include "temporary_folder.hpp"

namespace training::test {
namespace delayed_optimizer_test {

enum class Inner { memory, host, file };

class Delayed : public ::testing::TestWithParam<std::tuple<WorkoutCase, Inner>> {
 protected:
  [[nodiscard]] DelayedOptimizer make() {
    return {workout.owned(), host, link, [this](Owned owned) -> std::unique_ptr<Optimizer> {
              switch (inner) {
                case Inner::memory:
                  return std::make_unique<MemoryOptimizer>(std::move(owned), states);
                case Inner::host:
                  return std::make_unique<HostOptimizer>(std::move(owned), states, inside,
                                                         HostOptions{2, 1024});
                case Inner::file:
                  return std::make_unique<FileOptimizer>(
                      std::move(owned), states, inside,
                      FileOptions{.folder = folder.path(), .chunk_bytes = 8192});
              }
              return nullptr;
            }};
  }
  void catch_up(DelayedOptimizer& optimizer, bool due) const {
    for (std::size_t bucket = 0; bucket < workout.buckets(); ++bucket)
      EXPECT_EQ(optimizer.catch_up(bucket), due) << bucket;
  }

  WorkoutCase formats = std::get<0>(GetParam());
  Inner inner = std::get<1>(GetParam());
  Workout workout{formats.shard, formats.weights, formats.gradients};
  coll::test::TemporaryFolder folder;
  Arena host, states;
  DeviceLink link, inside;
};
INSTANTIATE_TEST_SUITE_P(Formats, Delayed,
                         ::testing::Combine(::testing::ValuesIn(kWorkoutCases),
                                            ::testing::Values(Inner::memory, Inner::host,
                                                              Inner::file)));

TEST_P(Delayed, NoUpdateIsDelayedUnlessItSaysSo) {
  DelayedOptimizer optimizer = make();
  EXPECT_EQ(workout.run(optimizer), workout.expected());
  catch_up(optimizer, false);
}

TEST_P(Delayed, WeightsComeWithTheNextUpdate) {
  Arena arena;
  MemoryOptimizer prompt(workout.owned(), arena);
  DelayedOptimizer late = make();
  std::vector<Bytes> now = workout.weights(), then = workout.weights();
  workout.begin(prompt, now);
  workout.begin(late, then);
  for (int t = 1; t < Workout::kEnd; ++t) {
    const std::vector<Bytes> before = now;
    workout.steps(prompt, t, t + 1, now);
    workout.steps(late, t, t + 1, then, true);
    EXPECT_EQ(then, before) << "step " << t;
    EXPECT_NE(now, before);
  }
  catch_up(late, true);
  catch_up(late, false);
  EXPECT_EQ(workout.result(late, then), workout.result(prompt, now));
}

TEST_P(Delayed, GoesOnFromACheckpoint) {
  DelayedOptimizer first = make(), second = make();
  EXPECT_EQ(workout.run_with_restart(first, second), workout.expected());
}

TEST_P(Delayed, ForgetsWhatIsUnderWayWhereWeightsAreSet) {
  DelayedOptimizer optimizer = make();
  std::vector<Bytes> weights = workout.weights();
  workout.begin(optimizer, weights);
  workout.steps(optimizer, 1, 2, weights, true);
  weights = workout.weights();
  workout.begin(optimizer, weights);
  catch_up(optimizer, false);
  EXPECT_EQ(weights, workout.weights());
}

TEST_P(Delayed, MovesGradientsToTheHostAndWeightsBack) {
  DelayedOptimizer optimizer = make();
  std::vector<Bytes> weights = workout.weights();
  workout.begin(optimizer, weights);
  workout.steps(optimizer, 1, Workout::kEnd, weights, true);
  catch_up(optimizer, true);
  const std::size_t elements = (Workout::kEnd - 1) * workout.elements();
  EXPECT_EQ(link.bytes(DeviceLink::Way::to_host), elements * bytes_of(formats.gradients));
  EXPECT_EQ(link.bytes(DeviceLink::Way::to_device), elements * bytes_of(formats.weights));
  EXPECT_EQ(host.peak(),
            workout.elements() * (bytes_of(formats.gradients) + bytes_of(formats.weights)));
}

/// Layouts change only where each rank owns everything.
class DelayedWhole : public Delayed {};
INSTANTIATE_TEST_SUITE_P(Formats, DelayedWhole,
                         ::testing::Combine(::testing::Values(kWorkoutCases[0], kWorkoutCases[2]),
                                            ::testing::Values(Inner::memory, Inner::host,
                                                              Inner::file)));

TEST_P(DelayedWhole, GoesOnInAnotherLayout) {
  const FlatLayout layout = FlatLayout::by_unit(Workout::kSizes, 16);
  const auto run = [&](Optimizer& optimizer) {
    std::vector<Bytes> weights = workout.weights();
    workout.begin(optimizer, weights);
    workout.steps(optimizer, 1, 3, weights);
    optimizer.move_to(layout);
    const std::size_t weight = bytes_of(formats.weights);
    std::vector<Bytes> moved;
    for (const Bucket& bucket : layout.buckets()) {
      moved.emplace_back(bucket.size * weight);
      for (const Place& to : bucket.places) {
        const Place& from = workout.owned().layout->place(to.unit, to.parameter);
        std::copy_n(weights[from.bucket].data() + from.offset * weight, to.size * weight,
                    moved.back().data() + to.offset * weight);
      }
      const std::vector<float> gradients(bucket.size, 0.25F);
      Bytes narrowed(bucket.size * bytes_of(formats.gradients));
      narrow(formats.gradients, gradients.size(), gradients.data(), narrowed.data());
      const std::size_t i = moved.size() - 1;
      optimizer.update(i, {adam_step(3)}, narrowed.data(), moved.back().data());
      optimizer.finish(i);
    }
    return moved;
  };
  Arena arena;
  MemoryOptimizer expected(workout.owned(), arena);
  DelayedOptimizer optimizer = make();
  EXPECT_EQ(run(optimizer), run(expected));
}

TEST(DelayedOptimizer, AnUpdateThatIsDelayedKeepsNobodyWaiting) {
  const Workout workout({0, 1}, Format::f32, Format::f32);
  Arena host;
  DeviceLink link;
  const std::size_t count = workout.count(0);
  DeviceLink slow(static_cast<double>(count) * 4);  // the bucket takes 1 s each way
  DelayedOptimizer optimizer(workout.owned(), host, link, [&](Owned owned) {
    return std::make_unique<HostOptimizer>(std::move(owned), host, slow, HostOptions{1, count / 4});
  });
  const std::vector<float> gradients(count, 1);
  std::vector<float> weights(count, 1);
  optimizer.begin(0, weights);
  optimizer.update(0, {.step = adam_step(1), .delayed = true}, gradients.data(), weights.data());
  optimizer.finish(0);
  EXPECT_LT(slow.bytes(DeviceLink::Way::to_device), count * 4) << "the last tile is under way";
  EXPECT_EQ(weights[0], 1);
  EXPECT_TRUE(optimizer.catch_up(0));
  EXPECT_EQ(slow.bytes(DeviceLink::Way::to_device), count * 4);
  EXPECT_LT(weights[0], 1);
}

}  // namespace delayed_optimizer_test
}  // namespace training::test
