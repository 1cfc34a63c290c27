// SPDX-License-Identifier: Apache-2.0
// Steps that every optimizer must take with the same result: random weights and gradients of a
// small model, weight decay on some parameters, and parameters without gradients in one step.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "optimizer/memory_optimizer.hpp"
#include "test_seed.hpp"

namespace training::test {

using Bytes = std::vector<std::byte>;

/// The step that a trainer asks for at time t, from 1.
inline AdamStep adam_step(int t) {
  AdamStep step{.scale = 0.5F, .rate = 0.01F, .decay = 0.1F};
  step.step_size = static_cast<float>(0.01 / (1 - std::pow(static_cast<double>(step.beta1), t)));
  step.root_of_correction =
      static_cast<float>(std::sqrt(1 - std::pow(static_cast<double>(step.beta2), t)));
  return step;
}

inline Bytes random_numbers(Format format, std::size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  Bytes bytes(count * bytes_of(format));
  narrow(format, count, values.data(), bytes.data());
  return bytes;
}

/// What a rank has after some steps.
struct Trained {
  std::vector<Bytes> weights;              ///< by bucket
  std::vector<std::vector<float>> states;  ///< by bucket, then state
  bool operator==(const Trained&) const = default;
};

class Workout {
 public:
  Workout(Shard shard, Format weights, Format gradients)
      : layout_(FlatLayout::by_bytes(kSizes, FlatLayout::backward_order(kSizes),
                                     {.first_bytes = 4000, .bytes = 30000}, 16 * shard.ranks)) {
    owned_ = {&layout_, shard, weights, gradients, {{true, false, true}, {false, true}, {true}}};
    std::mt19937_64 random(coll::test::test_seed());
    for (std::size_t bucket = 0; bucket < buckets(); ++bucket)
      weights_.push_back(random_numbers(weights, count(bucket), random));
  }

  [[nodiscard]] const Owned& owned() const { return owned_; }
  [[nodiscard]] std::size_t buckets() const { return layout_.buckets().size(); }
  [[nodiscard]] std::size_t count(std::size_t bucket) const { return owned_.range(bucket).count; }
  [[nodiscard]] std::size_t elements() const { return owned_.shard.size(layout_); }
  [[nodiscard]] std::vector<State> states() const {
    if (!owned_.keeps_weights()) return {State::first_moment, State::second_moment};
    return {State::first_moment, State::second_moment, State::weights};
  }

  /// The first, by bucket.
  [[nodiscard]] const std::vector<Bytes>& weights() const { return weights_; }

  void begin(Optimizer& optimizer, const std::vector<Bytes>& weights) const {
    for (std::size_t bucket = 0; bucket < buckets(); ++bucket) {
      std::vector<float> wide(count(bucket));
      widen(owned_.weights, wide.size(), weights[bucket].data(), wide.data());
      optimizer.begin(bucket, wide);
    }
  }

  /// Steps `from` … `to` - 1, from these weights on.
  void steps(Optimizer& optimizer, int from, int to, std::vector<Bytes>& weights,
             bool delayed = false) const {
    for (int t = from; t < to; ++t) {
      std::mt19937_64 random(coll::test::test_seed() + static_cast<unsigned>(t));
      std::vector<Bytes> gradients;
      for (std::size_t bucket = 0; bucket < buckets(); ++bucket)
        gradients.push_back(random_numbers(owned_.gradients, count(bucket), random));
      Update update{.step = adam_step(t), .delayed = delayed};
      if (t == 2) update.skipped = {{false, true, false}, {false, false}, {true}};
      for (std::size_t bucket = 0; bucket < buckets(); ++bucket)
        optimizer.update(bucket, update, gradients[bucket].data(), weights[bucket].data());
      for (std::size_t bucket = 0; bucket < buckets(); ++bucket) optimizer.finish(bucket);
    }
  }

  [[nodiscard]] Trained result(Optimizer& optimizer, std::vector<Bytes> weights) const {
    Trained trained{std::move(weights), {}};
    for (std::size_t bucket = 0; bucket < buckets(); ++bucket) {
      for (const State state : states()) {
        trained.states.emplace_back(count(bucket));
        optimizer.read(bucket, state, 0, trained.states.back());
      }
    }
    return trained;
  }

  [[nodiscard]] Trained run(Optimizer& optimizer) const {
    std::vector<Bytes> weights = weights_;
    begin(optimizer, weights);
    steps(optimizer, 1, kEnd, weights);
    return result(optimizer, std::move(weights));
  }

  /// The same steps, but after the second another optimizer goes on from a checkpoint, which is
  /// copied in pieces of a strange size.
  [[nodiscard]] Trained run_with_restart(Optimizer& first, Optimizer& second) const {
    std::vector<Bytes> weights = weights_;
    begin(first, weights);
    steps(first, 1, 3, weights);
    begin(second, weights);
    std::vector<float> piece(777);
    for (std::size_t bucket = 0; bucket < buckets(); ++bucket) {
      for (const State state : states()) {
        for (std::size_t at = 0; at < count(bucket); at += piece.size()) {
          const std::span part(piece.data(), std::min(piece.size(), count(bucket) - at));
          first.read(bucket, state, at, part);
          second.write(bucket, state, at, part);
        }
      }
    }
    steps(second, 3, kEnd, weights);
    return result(second, std::move(weights));
  }

  /// What the optimizer in memory makes of it.
  [[nodiscard]] Trained expected() const {
    Arena arena;
    MemoryOptimizer optimizer(owned_, arena);
    Trained trained = run(optimizer);
    EXPECT_NE(trained.weights, weights_) << "the steps change weights";
    return trained;
  }

  static constexpr int kEnd = 5;  ///< the step after the last
  static inline const FlatLayout::Sizes kSizes = {{3000, 37, 5000}, {300, 1}, {20000}};

 private:
  FlatLayout layout_;
  Owned owned_;
  std::vector<Bytes> weights_;
};

/// move_to() a layout with a bucket for each unit: each parameter has its states there.
inline void expect_states_move(const Workout& workout, Optimizer& optimizer) {
  (void)workout.run(optimizer);
  const FlatLayout& old = *workout.owned().layout;
  const FlatLayout layout = FlatLayout::by_unit(Workout::kSizes, 16);
  const auto states_of = [&](const FlatLayout& lies, State state) {
    std::vector<std::vector<float>> found;
    for (std::size_t unit = 0; unit < lies.units(); ++unit) {
      for (std::size_t i = 0; i < lies.parameters(unit); ++i) {
        const Place& place = lies.place(unit, i);
        optimizer.read(place.bucket, state, place.offset, found.emplace_back(place.size));
      }
    }
    return found;
  };
  std::vector<std::vector<std::vector<float>>> before;
  for (const State state : workout.states()) before.push_back(states_of(old, state));
  ASSERT_NE(layout.buckets().size(), old.buckets().size());
  optimizer.move_to(layout);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(states_of(layout, workout.states()[i]), before[i]) << i;
}

/// Formats of weights and gradients, and a shard.
struct WorkoutCase {
  Format weights, gradients;
  Shard shard;
};
inline constexpr WorkoutCase kWorkoutCases[] = {{Format::f32, Format::f32, {0, 1}},
                                                {Format::f32, Format::f32, {2, 3}},
                                                {Format::bf16, Format::bf16, {0, 1}},
                                                {Format::bf16, Format::f32, {1, 4}},
                                                {Format::f16, Format::f16, {1, 2}}};

}  // namespace training::test
