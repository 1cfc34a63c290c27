// SPDX-License-Identifier: Apache-2.0
// Runs consecutive units of a model on micro-batches: all of them, or one stage of a pipeline.
//
// Activation checkpointing (Chen et al. 2016, arXiv 1604.06174, section 4): of every k units only
// the input is kept; the backward pass computes the k units anew. Gradients have the same bits. For
// a micro-batch, with s_u the elements that unit u saves and o_u those of its output, memory is
//   sum(s_u + o_u)  without, and  sum(o_u at ends of k units) + max over k units of sum(s_u + o_u).
// What is kept at the ends of k units may lie in host memory (offload/host_activations.hpp), but
// for the last unit's output, which a pipeline sends from where it is.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "../memory/arena.hpp"
#include "../model/unit.hpp"
#include "../offload/host_activations.hpp"
#include "../parallel/buffers.hpp"
#include "../parallel/gradients.hpp"
#include "../parallel/group_traffic.hpp"
#include "../parallel/weights.hpp"

namespace training {

struct StageOptions {
  std::size_t slots = 1;        ///< micro-batches between their forward and backward pass
  std::size_t checkpoint = 0;   ///< units for each kept input; 0: everything is kept
  std::size_t input_width = 0;  ///< elements per row from the stage before; 0: this is the first
  Buffers* buffers = nullptr;   ///< of the units; null: they have none
  HostMemory* host = nullptr;   ///< where kept outputs lie; null: on the device
};

/// Elements of each segment's output that lies in host memory, from the first segment; empty: none.
std::vector<std::size_t> host_outputs(const Units<float>& units, const Batch& shape,
                                      const StageOptions& options);

/// Elements of activations that a stage takes on the device, by the formulas above, with scratch
/// memory and two gradients of activations.
std::size_t activation_elements(const Units<float>& units, const Batch& shape,
                                const StageOptions& options);

/// What the stage does and when, for a trace.
enum class Pass { forward, recompute, backward };

/// Units whose activations are computed anew together.
struct Segment {
  std::size_t begin, end;
};

class Stage {
 public:
  /// `shape`: of every micro-batch.
  Stage(const Units<float>& units, Weights& weights, Gradients& gradients, const Batch& shape,
        const StageOptions& options, Arena& arena);

  /// The passes that follow, in this order; those announced earlier come first.
  void expect_forward();
  void expect_backward();

  /// Units of a micro-batch that are left out ("stochastic depth", Huang et al. 2016, arXiv
  /// 1603.09382): their input is their output, their parameters get no gradient. Only units that do
  /// not change the width; empty: none.
  using Dropped = std::vector<bool>;

  /// Where the stage before, if there is one, puts its output.
  [[nodiscard]] std::span<float> input(std::size_t slot) { return slots_[slot].input; }
  /// The output for the next stage; empty for the last.
  std::span<const float> forward(std::size_t slot, const Batch& batch, Outcome& outcome,
                                 const Dropped& dropped = {}, Mode mode = Mode::training);
  /// Where the next stage, if there is one, puts the gradient of the output.
  [[nodiscard]] std::span<float> output_gradient() {
    return flow_[0].span().first(shape_.rows() * units_.back()->width());
  }
  /// The gradient of the input, for the stage before; empty for the first. The last stage begins
  /// with the gradient of factor * (summed loss).
  std::span<const float> backward(std::size_t slot, const Batch& batch, float factor,
                                  const Dropped& dropped = {});
  /// Takes part in what the ranks do for a pass, without data.
  void idle_forward();
  void idle_backward();

  /// Called after each unit's pass, with the time at which it began.
  using Observer = std::function<void(Pass pass, std::size_t unit, Clock::time_point begin)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

 private:
  /// What is kept of a micro-batch.
  struct Slot {
    Block<float> input;
    std::vector<Block<float>> outputs;  ///< of each unit; empty: computed anew, or on the host
    std::vector<Block<float>> saved;
  };
  [[nodiscard]] Segment segment_of(std::size_t unit) const;
  [[nodiscard]] bool goes_to_host(std::size_t unit) const;  ///< its output
  [[nodiscard]] float* output_of(std::size_t slot, std::size_t unit) const;
  [[nodiscard]] const float* input_of(std::size_t slot, std::size_t unit) const;
  [[nodiscard]] float* saved_of(std::size_t slot, std::size_t unit) const;
  void forward_unit(std::size_t slot, std::size_t unit, const Batch& batch, Outcome& outcome,
                    bool dropped, Mode mode);
  void backward_unit(std::size_t slot, std::size_t unit, const Batch& batch, float factor,
                     bool dropped);
  template <class Visit>
  void for_each_use_in_backward(Visit visit) const;

  const Units<float>& units_;
  Weights& weights_;
  Gradients& gradients_;
  Batch shape_;
  StageOptions options_;
  std::vector<Slot> slots_;
  std::vector<Block<float>> again_outputs_, again_saved_;  ///< of the units of one segment
  Block<float> flow_[2];  ///< gradients of activations: of a unit's output, and of its input
  Block<float> scratch_;
  std::optional<HostActivations> host_;
  Observer observer_;
};

}  // namespace training
