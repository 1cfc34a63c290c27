// SPDX-License-Identifier: Apache-2.0
// Trains with virtual compute, once with overlap and once without.
#include "overlap_measure.hpp"

#include "../trainer/trainer.hpp"
#include "measured_cost.hpp"
#include "virtual_model.hpp"

namespace training {
namespace {

/// Waits for each bucket at once.
class WaitingHook final : public Hook {
 public:
  Pending start(const GradBucket& bucket, Traffic& traffic) override {
    Pending pending = traffic.all_reduce(bucket.data.data(), bucket.data.size(), Format::f32);
    traffic.wait(pending);
    return pending;
  }
  void finish(const GradBucket& /*bucket*/, Traffic& /*traffic*/) override {}
};

/// When a unit's parameters are ready: after their share of the unit's elements
/// (sleeping_unit.hpp).
std::vector<ReadyBucket> ready_buckets(const FlatLayout& layout, const FlatLayout::Sizes& sizes,
                                       double unit_seconds) {
  std::vector<ReadyBucket> buckets;
  for (const Bucket& bucket : layout.buckets()) {
    const Place& last = bucket.places.back();
    const auto& unit = sizes[last.unit];
    double all = 0, done = 0;
    for (std::size_t i = 0; i < unit.size(); ++i) {
      all += static_cast<double>(unit[i]);
      if (i >= last.parameter) done += static_cast<double>(unit[i]);
    }
    const auto units_before = static_cast<double>(sizes.size() - 1 - last.unit);
    buckets.push_back({(units_before + done / all) * unit_seconds,
                       static_cast<double>(bucket.size * sizeof(float))});
  }
  return buckets;
}

/// Steps of one kind, and what they took.
class Steps {
 public:
  Steps(Mesh& mesh, const TrainerOptions& options, Units<float> units, bool overlap)
      : trainer_(
            options, std::move(units), source_, mesh, arena_,
            [](const Owned& /*owned*/) { return std::make_unique<VirtualOptimizer>(); },
            overlap ? nullptr : &waiting_) {}

  void run() {
    const StepResult result = trainer_.step();
    if (trainer_.steps() <= 2) return;  // buckets are formed anew, and their memory is new
    steps_.push_back(result.seconds);
    exposed_.push_back(result.communication.exposed);
    optimizer_.push_back(result.optimizer);
  }
  /// Medians, and their means over the ranks.
  [[nodiscard]] StepTime time(Mesh& mesh) const {
    return {mean(median(steps_), mesh), mean(median(exposed_), mesh)};
  }
  [[nodiscard]] double optimizer(Mesh& mesh) const { return mean(median(optimizer_), mesh); }

 private:
  static double mean(double value, Mesh& mesh) {
    value_of(mesh.world.all_reduce<double>({&value, 1}, COLL_SUM));
    return value / static_cast<double>(mesh.shape().data);
  }
  Arena arena_;
  VirtualSource source_;
  WaitingHook waiting_;
  Trainer trainer_;
  std::vector<double> steps_, exposed_, optimizer_;
};

OverlapResult measure(Mesh& mesh, const OverlapOptions& options, double ratio) {
  const std::size_t ranks = mesh.shape().data;
  const auto sizes = sizes_of(virtual_units(options.channels, {}));
  TrainerOptions step;
  step.leaves = ranks;
  step.buckets = {options.bucket_bytes, options.bucket_bytes, sizeof(float)};
  const FlatLayout layout = FlatLayout::by_bytes(sizes, FlatLayout::backward_order(sizes),
                                                 step.buckets, ranks * kParameterAlignment);
  OverlapResult result;
  result.ranks = ranks;
  result.buckets = layout.buckets().size();
  result.ratio = ratio;

  const std::size_t bytes = layout.size() * sizeof(float);
  AllReduceCost hidden(mesh.data, Mover::library, options.bucket_bytes, bytes);
  AllReduceCost waited(mesh.data, Mover::waiter, options.bucket_bytes, bytes);
  for (int i = 0; i < 5; ++i) waited.measure();
  const double sums =
      step_without_overlap({}, ready_buckets(layout, sizes, 0), waited.cost()).exposed;
  const auto forward = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(ratio * sums / 2 / static_cast<double>(sizes.size())));
  // All take turns: whatever else the machine does, it does to all of them.
  Steps waiting(mesh, step, virtual_units(options.channels, forward), false),
      overlapped(mesh, step, virtual_units(options.channels, forward), true);
  for (std::size_t i = 0; i < options.steps + 2; ++i) {
    waiting.run();
    overlapped.run();
    hidden.measure();
    waited.measure();
  }
  result.hidden = hidden.cost();
  result.waited = waited.cost();
  const double unit = std::chrono::duration<double>(forward).count();
  result.compute.forward = unit * static_cast<double>(sizes.size());
  result.compute.backward = 2 * result.compute.forward;
  result.compute.optimizer = waiting.optimizer(mesh);
  const auto buckets = ready_buckets(layout, sizes, 2 * unit);
  result.waiting = {waiting.time(mesh),
                    step_without_overlap(result.compute, buckets, result.waited)};
  result.overlapped = {overlapped.time(mesh),
                       overlapped_step(result.compute, buckets, result.hidden)};
  return result;
}

}  // namespace

std::vector<OverlapResult> measure_overlap(collectives::Communicator world,
                                           const OverlapOptions& options) {
  const auto ranks = static_cast<std::size_t>(world.size());
  Mesh mesh(std::move(world), {.data = ranks}, true);
  std::vector<OverlapResult> results;
  for (const double ratio : options.ratios) results.push_back(measure(mesh, options, ratio));
  return results;
}

}  // namespace training
