// SPDX-License-Identifier: Apache-2.0
// Runs a communication hook on threads as ranks, with random gradients of a few matrices and
// vectors.
#pragma once
#include <map>
#include <mutex>
#include <random>

#include "../training_ranks.hpp"
#include "hooks/make_hook.hpp"
#include "test_seed.hpp"

namespace training {

/// Parameters without arithmetic.
class ShapesOnly final : public Unit<float> {
 public:
  explicit ShapesOnly(std::vector<ParameterInfo> parameters) {
    parameters_ = std::move(parameters);
  }
  std::size_t width() const override { return 0; }
  std::size_t saved_size(const Batch&) const override { return 0; }
  std::size_t scratch_size(const Batch&) const override { return 0; }
  double operations(const Batch&) const override { return 0; }
  void forward(const Batch&, const Memory<float>&, const float*, float*, Outcome&) const override {}
  void backward(const Batch&, const Memory<float>&, const float*, float*, float*, float,
                const Ready&) const override {}
};

inline Units<float> some_units() {
  Units<float> units;
  units.push_back(std::make_unique<ShapesOnly>(std::vector<ParameterInfo>{
      {.name = "a", .rows = 48, .columns = 32}, {.name = "b", .columns = 33}}));
  units.push_back(std::make_unique<ShapesOnly>(std::vector<ParameterInfo>{
      {.name = "c", .rows = 2, .columns = 3}, {.name = "d", .rows = 20, .columns = 50}}));
  return units;
}

inline FlatLayout::Order forward_order() {
  return {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
}
inline FlatLayout::Order mixed_order() {
  return {{1, 1}, {0, 1}, {0, 0}, {1, 0}};
}

inline FlatLayout layout_of(const Units<float>& units, const FlatLayout::Order& order,
                            std::size_t ranks, std::size_t bucket_bytes) {
  return FlatLayout::by_bytes(sizes_of(units), order, {bucket_bytes, bucket_bytes, 4},
                              ranks * kParameterAlignment);
}

/// By unit and parameter.
using Values = std::map<std::pair<std::size_t, std::size_t>, std::vector<float>>;

/// Normal, and of very different sizes.
inline Values random_gradients(const Units<float>& units, std::uint64_t number) {
  std::mt19937_64 random(coll::test::test_seed() + number);
  std::normal_distribution<float> normal;
  Values values;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    for (std::size_t i = 0; i < units[unit]->parameters().size(); ++i) {
      auto& of = values[{unit, i}];
      of.resize(units[unit]->parameters()[i].size());
      for (float& x : of) x = normal(random) * (i == 0 ? 1.0F : 1e-2F);
    }
  }
  return values;
}

/// Sums `own` over the ranks with the hook, as DDP would; `own` has the sums afterwards.
inline void reduce(Hook& hook, const FlatLayout& layout, Traffic& traffic, Values& own) {
  std::vector<float> flat(layout.size());
  std::vector<Hook::GradBucket> buckets;
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < layout.buckets().size(); ++i) {
    const Bucket& bucket = layout.buckets()[i];
    buckets.push_back({layout, i, std::span(flat).subspan(layout.begin(i), bucket.size)});
    for (const Place& place : bucket.places)
      std::ranges::copy(own.at({place.unit, place.parameter}),
                        buckets.back().data.begin() + static_cast<std::ptrdiff_t>(place.offset));
    pending.push_back(hook.start(buckets.back(), traffic));
  }
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    traffic.wait(pending[i]);
    hook.finish(buckets[i], traffic);
    for (const Place& place : layout.buckets()[i].places) {
      const auto data = buckets[i].data.subspan(place.offset, place.size);
      own.at({place.unit, place.parameter}).assign(data.begin(), data.end());
    }
  }
}

/// A communicator in the order of a tree of ranks, as Mesh makes it.
inline collectives::Communicator in_tree_order(collectives::Communicator& world) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.order = COLL_ORDER_TREE;
  return value_of(world.duplicate(&config));
}

}  // namespace training
