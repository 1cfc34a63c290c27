// SPDX-License-Identifier: Apache-2.0
// Buckets start while the backward pass goes on, in the same order on all ranks, and are formed
// anew in rank 0's order of readiness without a change of results.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "../pixel_source.hpp"
#include "../trainer_states.hpp"
#include "../training_ranks.hpp"
#include "../wrapped_unit.hpp"
#include "model/mlp.hpp"
#include "model/sleeping_unit.hpp"
#include "offload/delayed_optimizer.hpp"
#include "offload/host_optimizer.hpp"
#include "optimizer/memory_optimizer.hpp"
#include "test_seed.hpp"
#include "trainer/trainer.hpp"

namespace training {
namespace ready_order_test {

const MlpShape kModel{8, {32, 24, 16, 16}, 10};

/// Says that its gradients are ready in an order of its own.
class ShuffledUnit final : public WrappedUnit {
 public:
  ShuffledUnit(std::unique_ptr<Unit<float>> real, const std::size_t& rank)
      : WrappedUnit(std::move(real)), first_(rank % 2) {}
  void backward(const Batch& batch, const Memory<float>& memory, const float* input,
                float* d_output, float* d_input, float factor, const Ready& ready) const override {
    WrappedUnit::backward(batch, memory, input, d_output, d_input, factor, [](std::size_t) {});
    // Ranks differ: even ones begin with parameter 0, odd ones with parameter 1.
    ready(first_);
    ready(1 - first_);
  }

 private:
  std::size_t first_;
};

struct Seen {
  std::vector<FlatLayout::Order> buckets;  ///< of one rank
  std::map<std::string, float> weights;    ///< by name and place; of what it is given to save
  std::vector<double> losses, norms;
};

FlatLayout::Order order_of(const FlatLayout& layout) {
  FlatLayout::Order order;
  for (const Bucket& bucket : layout.buckets())
    for (const Place& place : bucket.places) order.emplace_back(place.unit, place.parameter);
  return order;
}

TrainerOptions options_of(std::size_t leaves) {
  TrainerOptions options;
  options.leaves = leaves;
  options.buckets = {256, 1024};
  options.rate = {.most = 1e-2F};
  return options;
}

/// By rank.
std::vector<Seen> train(std::size_t ranks, bool rebuild, std::size_t delay = 0) {
  std::vector<Seen> all(ranks);
  on_ranks(ranks, [&](collectives::Communicator world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    Mesh mesh(std::move(world), {.data = ranks}, true);
    Arena arena;
    const PixelSource source;
    TrainerOptions options = options_of(8);
    options.rebuild_buckets = rebuild;
    options.delay = delay;
    DeviceLink link, inside;
    const auto make = [&](Owned owned) -> std::unique_ptr<Optimizer> {
      if (delay == 0) return std::make_unique<MemoryOptimizer>(std::move(owned), arena);
      return std::make_unique<DelayedOptimizer>(owned, arena, link, [&](Owned copies) {
        return std::make_unique<HostOptimizer>(std::move(copies), arena, inside);
      });
    };
    Trainer trainer(options, wrap<ShuffledUnit>(mlp_units<float>(kModel), rank), source, mesh,
                    arena, make);
    Seen& seen = all[rank];
    for (int i = 0; i < 4; ++i) {
      seen.buckets.push_back(order_of(trainer.layout()));
      const StepResult result = trainer.step();
      seen.losses.push_back(result.loss);
      seen.norms.push_back(result.norm);
    }
    trainer.settle();
    for_each_state(trainer, [&](const StatePart& part) {
      if (part.state != State::weights) return;
      for (std::size_t i = 0; i < part.values.size(); ++i)
        seen.weights[part.parameter + std::to_string(part.first + i)] = part.values[i];
    });
  });
  return all;
}

TEST(ReadyOrder, BucketsFollowRankZeroOnAllRanks) {
  const auto all = train(4, true);
  FlatLayout::Order expected;
  for (std::size_t unit = kModel.hidden.size() + 1; unit-- > 0;)
    for (const std::size_t parameter : {0U, 1U}) expected.emplace_back(unit, parameter);
  for (const Seen& seen : all) {
    EXPECT_EQ(seen.buckets[0], FlatLayout::backward_order(sizes_of(mlp_units<float>(kModel))));
    for (std::size_t step = 1; step < seen.buckets.size(); ++step)
      EXPECT_EQ(seen.buckets[step], expected);
  }
}

TEST(ReadyOrder, NewBucketsDoNotChangeResults) {
  const auto with = train(4, true), without = train(4, false);
  EXPECT_EQ(without[0].buckets.front(), without[0].buckets.back());
  EXPECT_NE(with[0].buckets.back(), without[0].buckets.back());
  std::map<std::string, float> one, other;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(with[rank].losses, without[rank].losses);
    EXPECT_EQ(with[rank].norms, without[rank].norms);
    one.insert(with[rank].weights.begin(), with[rank].weights.end());
    other.insert(without[rank].weights.begin(), without[rank].weights.end());
  }
  EXPECT_EQ(one, other);
}

/// As in a run that goes on from a checkpoint.
TEST(ReadyOrder, AnUpdateThatIsDelayedEndsBeforeBucketsAreFormedAnew) {
  const auto first = train(4, true, 1), second = train(4, true, 2);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(first[rank].losses, second[rank].losses);
    EXPECT_EQ(first[rank].weights, second[rank].weights);
  }
}

/// Writes down what happens on this rank.
using Events = std::vector<std::string>;

class NotedUnit final : public WrappedUnit {
 public:
  NotedUnit(std::unique_ptr<Unit<float>> real, Events& events)
      : WrappedUnit(std::move(real)), events_(events) {}
  void backward(const Batch& batch, const Memory<float>& memory, const float* input,
                float* d_output, float* d_input, float factor, const Ready& ready) const override {
    events_.push_back("backward " + name());
    WrappedUnit::backward(batch, memory, input, d_output, d_input, factor, ready);
  }

 private:
  Events& events_;
};

class NotedSums final : public Hook {
 public:
  explicit NotedSums(Events& events) : events_(events) {}
  Pending start(const GradBucket& bucket, Traffic& traffic) override {
    events_.push_back("start " + std::to_string(bucket.index));
    return traffic.all_reduce(bucket.data.data(), bucket.data.size(), Format::f32);
  }
  void finish(const GradBucket& bucket, Traffic& /*traffic*/) override {
    events_.push_back("wait " + std::to_string(bucket.index));
  }

 private:
  Events& events_;
};

TEST(ReadyOrder, SumsStartDuringTheLastBackwardPassAndNeverBefore) {
  constexpr std::size_t kRanks = 2;
  on_ranks(kRanks, [&](collectives::Communicator world) {
    Mesh mesh(std::move(world), {.data = kRanks}, true);
    Arena arena;
    const PixelSource source;
    Events events;
    NotedSums hook(events);
    Trainer trainer(
        options_of(2 * kRanks),
        wrap<NotedUnit>(sleeping_units(mlp_units<float>(kModel), std::chrono::nanoseconds(0)),
                        events),
        source, mesh, arena,
        [&](Owned owned) { return std::make_unique<MemoryOptimizer>(std::move(owned), arena); },
        &hook);
    trainer.step();
    events.clear();
    trainer.step();
    const auto at = [&](const std::string& event, std::size_t nth) {
      for (std::size_t i = 0; i < events.size(); ++i)
        if (events[i] == event && nth-- == 0) return i;
      ADD_FAILURE() << "there is no event " << event;
      return events.size();
    };
    // Two micro-batches: the first sends nothing (PyTorch's no_sync).
    const std::size_t last_pass = at("backward classifier", 1);
    EXPECT_LT(last_pass, at("start 0", 0));
    // The first bucket is on its way before the unit behind it computes, the last waits for it.
    EXPECT_LT(at("start 0", 0), at("backward dense3", 1));
    EXPECT_LT(at("start 1", 0), at("backward dense0", 1));
    const std::size_t buckets = trainer.layout().buckets().size();
    ASSERT_GT(buckets, 3U);
    EXPECT_LT(at("backward dense0", 1), at("start " + std::to_string(buckets - 1), 0));
    // In their order, once each; nothing is waited for before all have started.
    for (std::size_t i = 0; i < buckets; ++i) {
      EXPECT_EQ(std::ranges::count(events, "start " + std::to_string(i)), 1);
      EXPECT_LT(at("start " + std::to_string(i), 0), at("wait 0", 0));
      if (i > 0) {
        EXPECT_LT(at("start " + std::to_string(i - 1), 0), at("start " + std::to_string(i), 0));
      }
    }
  });
}

}  // namespace ready_order_test
}  // namespace training
