// SPDX-License-Identifier: Apache-2.0
// Puts a trainer together: layout, weights, gradients and optimizer of the chosen kind; and hands
// their content out and in.
#include <algorithm>

#include "../layout/initial_weights.hpp"
#include "../parallel/replicated_weights.hpp"
#include "../parallel/zero1.hpp"
#include "../parallel/zero2.hpp"
#include "../parallel/zero3.hpp"
#include "trainer.hpp"

namespace training {

Trainer::Trainer(const TrainerOptions& options, Units<float> units, const Source& source,
                 Mesh& mesh, Arena& arena, const MakeOptimizer& make_optimizer, Hook* hook,
                 HostMemory* host)
    : options_(options),
      source_(source),
      mesh_(mesh),
      arena_(arena),
      data_traffic_(mesh.data),
      pipeline_traffic_(mesh.pipeline),
      scaler_(options.gradients == Format::f16 ? LossScaler() : LossScaler(1)) {
  const Source::Shape& shape = source.shape();
  const Batch batch{shape.sequences, shape.tokens, {}, {}};
  std::vector<double> costs;
  for (const auto& unit : units) costs.push_back(unit->operations(batch));
  if (units.size() < mesh.shape().pipeline) {
    throw Failure("a pipeline of " + std::to_string(mesh.shape().pipeline) +
                      " stages needs as many units; the model has " + std::to_string(units.size()),
                  Failure::kBadUsage);
  }
  const auto begins = divide_units(costs, mesh.shape().pipeline);
  const std::size_t begin = begins[mesh.pipeline_rank()], end = begins[mesh.pipeline_rank() + 1];
  first_unit_ = begin;
  StageOptions stage{.checkpoint = options.checkpoint, .host = host};
  if (begin > 0) stage.input_width = units[begin - 1]->width();
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (i == begin) first_parameter_ = parameters_;
    parameters_ += units[i]->parameters().size();
    if (i < begin || i >= end) continue;
    droppable_.push_back(i > 0 && units[i]->width() != 0 &&
                         units[i]->width() == units[i - 1]->width());
  }
  for (std::size_t i = begin; i < end; ++i) units_.push_back(std::move(units[i]));

  plan_step();
  // With balance, steps differ in this rank's micro-batches: all of them at most.
  most_leaves_ = options.balance ? options.leaves : turns_.size();
  stage.slots =
      std::max<std::size_t>(in_flight(pipeline_schedule(options.pipeline, mesh.pipeline_rank(),
                                                        mesh.shape().pipeline, most_leaves_)),
                            1);
  make_layout(FlatLayout::backward_order(sizes_of(units_)));
  make_parts(make_optimizer, hook);
  buffers_ = std::make_unique<Buffers>(units_, data_traffic_, arena);
  stage.buffers = buffers_.get();
  stage_ = std::make_unique<Stage>(units_, *weights_, *gradients_, batch, stage, arena_);
  boundaries_ = std::make_unique<Boundaries>(pipeline_traffic_, stage.slots);
  slots_.resize(stage.slots);
  for (Slot& slot : slots_) {
    slot.inputs.resize(shape.inputs());
    slot.targets.resize(shape.targets());
    slot.batch = {shape.sequences, shape.tokens, slot.inputs, slot.targets};
  }
  rebuilt_ = options.zero != 0 || !options.rebuild_buckets || options.balance || options.drop > 0 ||
             options.leaves < mesh.shape().data;
  set_first_weights();
}

Trainer::~Trainer() = default;

FlatLayout layout_for(const TrainerOptions& options, const FlatLayout::Sizes& sizes,
                      const FlatLayout::Order& order, std::size_t ranks) {
  const std::size_t alignment = ranks * kParameterAlignment;
  if (options.zero >= 2) return FlatLayout::by_unit(sizes, alignment);
  BucketLimits limits = options.buckets;
  limits.element_bytes = bytes_of(options.gradients);
  return FlatLayout::by_bytes(sizes, order, limits, alignment);
}

void Trainer::make_layout(const FlatLayout::Order& order) {
  layout_ = std::make_unique<FlatLayout>(
      layout_for(options_, sizes_of(units_), order, mesh_.shape().data));
}

void Trainer::make_parts(const MakeOptimizer& make_optimizer, Hook* hook) {
  // Among tensor-parallel ranks a hook could treat what all of them have in different ways.
  if (hook != nullptr &&
      (options_.zero != 0 || options_.gradients != Format::f32 || mesh_.shape().tensor > 1)) {
    throw Failure(
        "communication hooks need plain data parallelism: no stage of ZeRO, no tensor parallelism, "
        "and gradients in f32; change that, or choose no hook",
        Failure::kBadUsage);
  }
  owned_.layout = layout_.get();
  if (options_.zero > 0) owned_.shard = counted();
  owned_.weights = options_.weights;
  owned_.gradients = options_.gradients;
  for (const auto& unit : units_) {
    owned_.decays.emplace_back();
    for (const ParameterInfo& parameter : unit->parameters())
      owned_.decays.back().push_back(parameter.decays);
  }
  const FlatLayout& layout = *layout_;
  const std::size_t leaves = most_leaves_;
  Traffic& traffic = data_traffic_;
  if (options_.zero == 3) {
    weights_ = std::make_unique<Zero3Weights>(layout, options_.weights, options_.prefetch, traffic,
                                              arena_);
  } else {
    weights_ = std::make_unique<ReplicatedWeights>(layout, options_.weights, owned_.shard, traffic,
                                                   arena_);
  }
  if (options_.zero >= 2) {
    gradients_ =
        std::make_unique<Zero2Gradients>(layout, options_.gradients, leaves, traffic, arena_);
  } else if (options_.zero == 1) {
    gradients_ =
        std::make_unique<Zero1Gradients>(layout, options_.gradients, leaves, traffic, arena_);
  } else {
    if (hook != nullptr) hook->begin(units_);
    gradients_ =
        std::make_unique<DdpGradients>(layout, options_.gradients, leaves, traffic, arena_, hook);
  }
  optimizer_ = make_optimizer(owned_);
}

void Trainer::set_first_weights() {
  load(
      [&](const Part& part) {
        if (part.state == State::weights)
          initial_values(part.parameter, options_.seed, part.first, part.values);
        else
          std::ranges::fill(part.values, 0.0F);
      },
      0, scaler_.state());
}

void Trainer::for_each_part(State state, const Range& range, std::size_t bucket, float* values,
                            const Visit& visit) const {
  for_each_place(layout_->buckets()[bucket], range, [&](const Place& place, const Range& part) {
    visit({state,
           units_[place.unit]->parameters()[place.parameter],
           part.begin - place.offset,
           {values + (part.begin - range.begin), part.count}});
  });
}

void Trainer::read(State state, std::size_t bucket, std::size_t first, std::span<float> to) const {
  if (bucket == layout_->buckets().size()) {
    std::ranges::copy(buffers_->all().subspan(first, to.size()), to.begin());
    return;
  }
  const Bucket& in = layout_->buckets()[bucket];
  const std::size_t from = counted().of(in).begin - owned_.shard.of(in).begin + first;
  if (state == State::weights && !owned_.keeps_weights()) {
    const auto* weights = static_cast<const float*>(weights_->owned(bucket));
    std::copy_n(weights + from, to.size(), to.begin());
  } else {
    optimizer_->read(bucket, state, from, to);
  }
}

bool Trainer::is_split(const std::string& parameter) const {
  for (const auto& unit : units_)
    for (const ParameterInfo& info : unit->parameters())
      if (info.name == parameter) return info.split();
  return false;
}

void Trainer::load(const Visit& read, std::size_t step, const LossScaler::State& scaler) {
  std::vector<float> values;
  for (std::size_t i = 0; i < layout_->buckets().size(); ++i) {
    const Range range = owned_.range(i);
    values.assign(range.count, 0);
    for (const State state : {State::first_moment, State::second_moment}) {
      for_each_part(state, range, i, values.data(), read);
      optimizer_->write(i, state, 0, values);
    }
    std::ranges::fill(values, 0.0F);
    for_each_part(State::weights, range, i, values.data(), read);
    optimizer_->begin(i, values);
    narrow(options_.weights, range.count, values.data(), weights_->owned(i));
    weights_->updated(i);
  }
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const auto pointers = buffers_->of(unit);
    for (std::size_t i = 0; i < pointers.size(); ++i) {
      const ParameterInfo& buffer = units_[unit]->buffers()[i];
      read({State::weights, buffer, 0, {pointers[i], buffer.size()}});
    }
  }
  step_ = step;
  scaler_.restore(scaler);
}

void Trainer::rebuild_buckets() {
  rebuilt_ = true;
  auto& gradients = static_cast<DdpGradients&>(*gradients_);
  auto& weights = static_cast<ReplicatedWeights&>(*weights_);
  FlatLayout::Order order = gradients.ready_order();
  // Parameters that were not ready come last.
  for (const auto& place : FlatLayout::backward_order(sizes_of(units_)))
    if (std::ranges::find(order, place) == order.end()) order.push_back(place);
  order = agree_on_order(order, mesh_.data);
  FlatLayout::Order now;
  for (const Bucket& bucket : layout_->buckets())
    for (const Place& place : bucket.places) now.emplace_back(place.unit, place.parameter);
  if (order == now) return;
  settle();  // a resumed run may have delayed its first update
  const auto old = std::move(layout_);
  make_layout(order);
  weights.move_to(*layout_);
  optimizer_->move_to(*layout_);
  gradients.move_to(*layout_);
  owned_.layout = layout_.get();
}

}  // namespace training
