// SPDX-License-Identifier: Apache-2.0
// The optimizer's side of a step: AdamW on what this rank owns of each bucket. Where its states lie
// is what implementations differ in: in memory (memory_optimizer.hpp), or off the device
// (offload/).
//
// The states are m and v, and where weights have 16 bits, the weights in f32 (Micikevicius et al.
// 2018, arXiv 1710.03740, section 3.1): 8 or 12 bytes for each parameter.
#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include "../layout/shard.hpp"
#include "../math/kernels.hpp"
#include "../math/number_format.hpp"
#include "../memory/arena.hpp"

namespace training {

/// One of the arrays that an optimizer keeps.
enum class State { weights, first_moment, second_moment };

/// What an optimizer works on.
struct Owned {
  const FlatLayout* layout = nullptr;
  Shard shard;
  Format weights = Format::f32, gradients = Format::f32;
  /// Which parameters have weight decay: [unit][parameter].
  std::vector<std::vector<bool>> decays;
  /// States: the weights in f32 are one only where the model's have 16 bits.
  [[nodiscard]] bool keeps_weights() const { return weights != Format::f32; }
  [[nodiscard]] Range range(std::size_t bucket) const {
    return shard.of(layout->buckets()[bucket]);
  }
};

/// `decay` of `step` holds for parameters that decay only. Parameters of `skipped` places
/// ([unit][parameter]; empty: none) had no gradient on any rank: they and their states stay.
struct Update {
  AdamStep step;
  std::vector<std::vector<bool>> skipped = {};
  /// The weights may be had one step later (offload/delayed_optimizer.hpp).
  bool delayed = false;
};

class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// Takes the first values of the owned weights of a bucket; the moments are 0. After weights were
  /// changed by others, as when a checkpoint was read, it takes them anew and keeps the moments.
  virtual void begin(std::size_t bucket, std::span<const float> weights) = 0;

  /// One step for the owned part of a bucket: reads its gradients, writes its weights, both in
  /// their formats. It may go on after the return, with both buffers, until finish().
  virtual void update(std::size_t bucket, const Update& update, const void* gradients,
                      void* weights) = 0;
  /// Waits until the bucket's update is done, unless it is delayed.
  virtual void finish(std::size_t bucket) = 0;
  /// Waits until also a delayed update is done; whether there was one.
  virtual bool catch_up(std::size_t /*bucket*/) { return false; }

  /// Copies elements of the owned part of a bucket, `first` from the part's begin. For checkpoints:
  /// no update is going on; what write() sets replaces those that are delayed. State::weights only
  /// where it keeps them.
  virtual void read(std::size_t bucket, State state, std::size_t first, std::span<float> to) = 0;
  virtual void write(std::size_t bucket, State state, std::size_t first,
                     std::span<const float> from) = 0;

  /// The parameters lie in another layout from now on; each rank owns everything.
  virtual void move_to(const FlatLayout& layout) = 0;
};

/// AdamW on part of a bucket: the parameters that lie in `range`; `gradients`, `weights`, `m` and
/// `v` begin with the range's first element. Honours decay and skipped parameters.
void adam_on_range(const Owned& owned, std::size_t bucket, const Update& update, const Range& range,
                   const float* gradients, float* weights, float* m, float* v);

/// Weights and moments in f32, from the first element of a range.
struct Wide {
  float *weights, *first, *second;
};

/// The same, with gradients in their format; where weights have 16 bits, also writes `weights` in
/// theirs.
void adam_in_tiles(const Owned& owned, std::size_t bucket, const Update& update, const Range& range,
                   const void* gradients, void* weights, const Wide& wide);

}  // namespace training
