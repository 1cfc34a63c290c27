// SPDX-License-Identifier: Apache-2.0
// Offload to the host: the bits of the optimizer in memory, and exactly the bytes of the paper.
#include "offload/host_optimizer.hpp"

#include "optimizer_workout.hpp"
#include "spans_of.hpp"

namespace training::test {
namespace host_optimizer_test {

class Offload : public ::testing::TestWithParam<WorkoutCase> {
 protected:
  Workout workout{GetParam().shard, GetParam().weights, GetParam().gradients};
  Arena host;
  DeviceLink link;
};
INSTANTIATE_TEST_SUITE_P(Formats, Offload, ::testing::ValuesIn(kWorkoutCases));

TEST_P(Offload, GivesTheBitsOfTheOptimizerInMemory) {
  const Trained expected = workout.expected();
  for (const std::size_t threads : {1U, 3U}) {
    for (const std::size_t tile : {1024U, 100000U}) {
      HostOptimizer optimizer(workout.owned(), host, link, {threads, tile});
      EXPECT_EQ(workout.run(optimizer), expected) << threads << " threads, tiles of " << tile;
    }
  }
}

TEST_P(Offload, GoesOnFromACheckpoint) {
  HostOptimizer first(workout.owned(), host, link), second(workout.owned(), host, link);
  EXPECT_EQ(workout.run_with_restart(first, second), workout.expected());
}

TEST_P(Offload, MovesGradientsToTheHostAndWeightsBack) {
  HostOptimizer optimizer(workout.owned(), host, link, {2, 1024});
  (void)workout.run(optimizer);
  const std::size_t steps = Workout::kEnd - 1;
  EXPECT_EQ(link.bytes(DeviceLink::Way::to_host),
            steps * workout.elements() * bytes_of(GetParam().gradients));
  EXPECT_EQ(link.bytes(DeviceLink::Way::to_device),
            steps * workout.elements() * bytes_of(GetParam().weights));
}

TEST_P(Offload, NotesTheUpdateOfEachTile) {
  WorkLog log;
  constexpr std::size_t kTile = 1024;
  HostOptimizer optimizer(workout.owned(), host, link, {2, kTile, &log});
  (void)workout.run(optimizer);
  const std::size_t steps = Workout::kEnd - 1;
  std::size_t tiles = 0;
  for (std::size_t bucket = 0; bucket < workout.buckets(); ++bucket)
    tiles += (workout.count(bucket) + kTile - 1) / kTile;
  const auto spans = log.take();
  const auto updates = spans_of(spans, WorkLog::Kind::adam);
  EXPECT_EQ(updates.size(), spans.size()) << "nothing is read or written";
  EXPECT_EQ(updates.size(), steps * tiles);
  EXPECT_EQ(bytes_of(updates), steps * 12 * workout.elements());
  for (const WorkLog::Span& span : updates) {
    std::ptrdiff_t others = 0;
    for (const WorkLog::Span& other : updates)
      if (other.begin < span.end && span.end <= other.end) ++others;
    EXPECT_LE(others, 2) << "threads compute at once";
  }
}

TEST_P(Offload, KeepsStatesInHostMemoryAndStagesATileForEachWorker) {
  const HostOptimizer optimizer(workout.owned(), host, link, {2, 1024});
  EXPECT_EQ(host.bytes(Use::optimizer), 12 * workout.elements());
  const std::size_t weights = workout.owned().keeps_weights() ? bytes_of(GetParam().weights) : 0;
  EXPECT_EQ(host.bytes(Use::staging), 4 * 1024 * (bytes_of(GetParam().gradients) + weights));
}

TEST(HostOptimizer, TrainsWhereTheStatesDoNotFitTheDevice) {
  const Workout workout({0, 1}, Format::bf16, Format::bf16);
  const std::size_t elements = workout.elements();
  Arena device(4 * elements), host;  // weights and gradients of 16 bits, and no more
  const auto weights = device.take<std::byte>(2 * elements, Use::parameters);
  const auto gradients = device.take<std::byte>(2 * elements, Use::gradients);
  EXPECT_THROW(MemoryOptimizer(workout.owned(), device), Failure);
  DeviceLink link;
  HostOptimizer optimizer(workout.owned(), host, link);
  EXPECT_EQ(workout.run(optimizer), workout.expected());
  EXPECT_EQ(device.peak(Use::optimizer), 0U);
}

TEST(HostOptimizer, UpdateReturnsBeforeASlowLinkHasCopied) {
  const Workout workout({0, 1}, Format::f32, Format::f32);
  Arena host;
  const std::size_t count = workout.count(0);
  DeviceLink link(static_cast<double>(count) * 4);  // the bucket takes 1 s each way
  HostOptimizer optimizer(workout.owned(), host, link, {1, count / 4});
  const std::vector<float> gradients(count, 1);
  std::vector<float> weights(count, 1);
  optimizer.begin(0, weights);
  optimizer.update(0, {adam_step(1)}, gradients.data(), weights.data());
  EXPECT_LT(link.bytes(DeviceLink::Way::to_device), count * 4) << "the last tile is under way";
  optimizer.finish(0);
  EXPECT_EQ(link.bytes(DeviceLink::Way::to_device), count * 4);
  EXPECT_LT(weights[0], 1);
}

TEST(HostOptimizer, RefusesNoThreads) {
  const Workout workout({0, 1}, Format::f32, Format::f32);
  Arena host;
  DeviceLink link;
  EXPECT_THROW(HostOptimizer(workout.owned(), host, link, {.adam_threads = 0}), Failure);
}

TEST(HostOptimizer, MovesStatesToAnotherLayout) {
  const Workout workout({0, 1}, Format::bf16, Format::bf16);
  Arena host;
  DeviceLink link;
  HostOptimizer moved(workout.owned(), host, link);
  expect_states_move(workout, moved);
}

TEST(DeviceLink, CarriesNoMoreThanItsSpeed) {
  DeviceLink link(1e6);
  std::vector<std::byte> from(20000), to(20000);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i)
    link.copy(DeviceLink::Way::to_host, to.data(), from.data(), from.size());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took.count(), 0.099) << "100 kB at 1 MB/s, less a millisecond";
  EXPECT_EQ(link.bytes(DeviceLink::Way::to_host), 100000U);
  EXPECT_EQ(link.bytes(DeviceLink::Way::to_device), 0U);
}

}  // namespace host_optimizer_test
}  // namespace training::test
