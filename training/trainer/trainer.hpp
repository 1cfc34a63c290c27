// SPDX-License-Identifier: Apache-2.0
// Trains a model, step by step: micro-batches through this rank's units, sums of gradients over
// ranks, one step of the optimizer.
//
// In a step each of M micro-batches gives a gradient; the step uses their mean. The same M
// micro-batches give the same bits however many ranks compute them, if both numbers are powers of
// two: see leaf_tree.hpp, totals.hpp.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../data/source.hpp"
#include "../optimizer/optimizer.hpp"
#include "../parallel/ddp.hpp"
#include "../parallel/mesh.hpp"
#include "../parallel/pipeline.hpp"
#include "deal.hpp"
#include "learning_rate.hpp"
#include "loss_scaler.hpp"
#include "stage.hpp"
#include "totals.hpp"

namespace training {

struct TrainerOptions {
  std::size_t leaves = 8;  ///< micro-batches of a step, of all data-parallel ranks together
  int zero = 0;            ///< ZeRO's stage; 0: data parallelism
  Format weights = Format::f32, gradients = Format::f32;
  BucketLimits buckets;         ///< of stages 0 and 1; `element_bytes` is set by the trainer
  bool rebuild_buckets = true;  ///< after the first step, in the order of readiness (stage 0)
  std::size_t prefetch = 1;     ///< units, in stage 3
  std::size_t checkpoint = 0;   ///< activation checkpointing: units for each kept input
  PipelineKind pipeline = PipelineKind::one_forward_one_backward;
  LearningRate rate;
  float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, decay = 0.1F;
  /// The first step, counted from 1, whose update is delayed by a step: 2 at least, as the first
  /// step forms buckets anew. 0: none is.
  std::size_t delay = 0;
  float clip = 1;        ///< the most that the norm of the gradient may be; 0: any
  bool balance = false;  ///< micro-batches are dealt by their rows (data/balance.hpp)
  double drop = 0;  ///< the probability that a micro-batch leaves out a unit (stochastic depth)
  std::uint64_t seed = 1;
};

/// The layout of a stage's parameters, for `ranks` data-parallel ranks. `order`: of buckets in
/// stages 0 and 1.
FlatLayout layout_for(const TrainerOptions& options, const FlatLayout::Sizes& sizes,
                      const FlatLayout::Order& order, std::size_t ranks);

/// What a step, or a validation, came to over all ranks; times are this rank's.
struct StepResult {
  std::size_t step = 0;  ///< from 0
  double loss = 0;       ///< mean over rows
  double accuracy = 0;
  double norm = 0;  ///< of the gradient of the mean loss, before clipping
  float rate = 0, loss_scale = 1;
  std::size_t rows = 0;
  /// The gradient was not finite: weights are as before. The step counts all the same, in the
  /// learning rate and in AdamW's corrections.
  bool skipped = false;
  double seconds = 0;                               ///< of the whole step
  double forward = 0, backward = 0, optimizer = 0;  ///< without waits for other ranks
  Traffic::Times communication;
};

class Trainer {
 public:
  using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Owned owned)>;

  /// All ranks of `mesh` call it, with the same options. `units`: of the whole model; a pipeline's
  /// stage takes its share. `hook` may be null; it needs stage 0 of ZeRO, f32
  /// for gradients, and no tensor parallelism. `host`: where activation checkpointing keeps what it
  /// can; null: on the device.
  Trainer(const TrainerOptions& options, Units<float> units, const Source& source, Mesh& mesh,
          Arena& arena, const MakeOptimizer& make_optimizer, Hook* hook = nullptr,
          HostMemory* host = nullptr);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer();

  StepResult step();
  /// The loss on data that training never sees; at most `batches` of its micro-batches.
  StepResult validate(std::uint64_t batches);
  /// Waits until delayed updates are done and nothing is on its way to other ranks. All ranks call
  /// it, before a checkpoint at the latest.
  void settle();
  [[nodiscard]] std::size_t steps() const { return step_; }  ///< so far

  // For checkpoints.

  /// The part of each bucket that this rank hands out: the data-parallel ranks together have
  /// everything once, also where each has everything.
  [[nodiscard]] Shard counted() const { return {mesh_.data_rank(), mesh_.shape().data}; }
  /// Copies elements of a state; `first` from the begin of the bucket's part that is counted(). The
  /// weights of the bucket behind the layout's last are this stage's buffers, of which rank 0's
  /// count: all of them are its part.
  void read(State state, std::size_t bucket, std::size_t first, std::span<float> to) const;
  /// Floats of a parameter, of one of the states: elements `first`, … of what this rank has of it.
  struct Part {
    State state;
    const ParameterInfo& parameter;
    std::size_t first;
    std::span<float> values;
  };
  using Visit = std::function<void(const Part& part)>;
  /// `read` fills the values of all that this rank needs. All ranks call it.
  void load(const Visit& read, std::size_t step, const LossScaler::State& scaler);
  /// Whether tensor parallelism splits the parameter.
  [[nodiscard]] bool is_split(const std::string& parameter) const;
  [[nodiscard]] LossScaler::State scaler() const { return scaler_.state(); }

  [[nodiscard]] const FlatLayout& layout() const { return *layout_; }
  [[nodiscard]] Stage& stage() { return *stage_; }
  [[nodiscard]] Traffic& data_traffic() { return data_traffic_; }
  [[nodiscard]] Traffic& pipeline_traffic() { return pipeline_traffic_; }
  [[nodiscard]] const Units<float>& units() const { return units_; }
  [[nodiscard]] Buffers& buffers() { return *buffers_; }

 private:
  /// The buffers of a micro-batch.
  struct Slot {
    std::vector<std::int32_t> inputs, targets;
    Batch batch;
    Stage::Dropped dropped;
  };
  void make_layout(const FlatLayout::Order& order);
  void make_parts(const MakeOptimizer& make_optimizer, Hook* hook);
  void set_first_weights();
  void forward(std::size_t turn, std::uint64_t number, bool validation, Totals& totals);
  void backward(std::size_t turn);
  void fill(Slot& slot, std::uint64_t number, bool validation);
  [[nodiscard]] double exposed() const;  ///< seconds that this step has waited so far
  void add_squares(Totals& totals);
  void update(const Totals& totals, StepResult& result);
  void rebuild_buckets();
  void for_each_part(State state, const Range& range, std::size_t bucket, float* values,
                     const Visit& visit) const;
  [[nodiscard]] Turns deal() const;
  void plan_step();
  [[nodiscard]] bool reports() const;  ///< this rank tells the loss of its micro-batches

  TrainerOptions options_;
  const Source& source_;
  Mesh& mesh_;
  Arena& arena_;
  Units<float> units_;               ///< of this stage
  std::size_t first_unit_ = 0;       ///< its first, in the whole model
  std::size_t parameters_ = 0;       ///< of the whole model
  std::size_t first_parameter_ = 0;  ///< this stage's first
  std::vector<bool> droppable_;      ///< [unit]
  Traffic data_traffic_, pipeline_traffic_;
  std::unique_ptr<FlatLayout> layout_;
  Owned owned_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Gradients> gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Buffers> buffers_;
  std::unique_ptr<Stage> stage_;
  std::unique_ptr<Boundaries> boundaries_;
  std::vector<Slot> slots_;
  std::vector<Action> schedule_;
  Turns turns_;
  std::size_t most_leaves_ = 0;  ///< of a step, on this rank
  LossScaler scaler_;
  std::size_t step_ = 0;
  std::size_t skipped_ = 0;  ///< steps in a row
  bool rebuilt_ = false;
};

}  // namespace training
