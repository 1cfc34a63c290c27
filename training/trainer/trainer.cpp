// SPDX-License-Identifier: Apache-2.0
// A step: passes, sums, update.
#include "trainer.hpp"

#include <cmath>
#include <utility>

#include "../data/balance.hpp"
#include "../data/draw.hpp"
#include "../math/counter_random.hpp"
#include "clipped_step.hpp"

namespace training {
namespace {

/// A function of the seed, the micro-batch and the unit's number in the whole model: every rank and
/// every split decides alike.
bool is_dropped(const TrainerOptions& options, std::uint64_t number, std::size_t unit) {
  const CounterRandom random(options.seed, kDropped);
  return random(number, static_cast<std::uint32_t>(unit), 0)[0] * 0x1p-32 < options.drop;
}

}  // namespace

Turns Trainer::deal() const {
  const std::size_t rank = mesh_.data_rank(), ranks = mesh_.shape().data;
  if (!options_.balance) {
    return options_.zero >= 2 ? deal_in_turns(options_.leaves, rank, ranks)
                              : deal_in_blocks(options_.leaves, rank, ranks);
  }
  std::vector<std::size_t> rows;
  for (std::size_t leaf = 0; leaf < options_.leaves; ++leaf)
    rows.push_back(source_.rows(step_ * options_.leaves + leaf));
  const Assignment assignment = balance(rows, ranks);
  Turns turns(assignment.batches[rank].begin(), assignment.batches[rank].end());
  if (options_.zero >= 2) {
    std::size_t most = 0;
    for (const auto& batches : assignment.batches) most = std::max(most, batches.size());
    turns.resize(most);
  }
  return turns;
}

void Trainer::plan_step() {
  turns_ = deal();
  schedule_ = pipeline_schedule(options_.pipeline, mesh_.pipeline_rank(), mesh_.shape().pipeline,
                                turns_.size());
}

bool Trainer::reports() const {
  return mesh_.tensor_rank() == 0 && mesh_.pipeline_rank() + 1 == mesh_.shape().pipeline;
}

double Trainer::exposed() const {
  return data_traffic_.times().exposed + pipeline_traffic_.times().exposed;
}

StepResult Trainer::step() {
  StepResult result;
  result.step = step_;
  const auto began = Clock::now();
  data_traffic_.reset_times();
  pipeline_traffic_.reset_times();
  Totals totals;
  if (options_.drop > 0) totals.used.resize(parameters_);

  buffers_->broadcast();
  if (options_.balance) plan_step();
  gradients_->begin(turns_.size());
  for (const Action& action : schedule_) {
    if (action.forward)
      stage_->expect_forward();
    else
      stage_->expect_backward();
  }
  // Seconds spent in waits since the last call: they belong to no phase.
  auto waited = [this, before = exposed()]() mutable {
    const double now = exposed();
    return now - std::exchange(before, now);
  };
  for (const Action& action : schedule_) {
    const auto begin = Clock::now();
    if (action.forward) {
      const auto leaf = turns_[action.leaf];
      if (leaf)
        forward(action.leaf, step_ * options_.leaves + *leaf, false, totals);
      else
        stage_->idle_forward();
      result.forward += seconds_since(begin) - waited();
    } else {
      backward(action.leaf);
      result.backward += seconds_since(begin) - waited();
    }
  }
  gradients_->finish();
  boundaries_->settle_gradient();

  static_cast<void>(waited());
  const auto update_began = Clock::now();
  add_squares(totals);
  totals.add_up(mesh_.world);
  update(totals, result);
  result.optimizer = seconds_since(update_began) - waited();
  if (!rebuilt_) rebuild_buckets();
  ++step_;
  result.seconds = seconds_since(began);
  result.communication = {data_traffic_.times().busy + pipeline_traffic_.times().busy, exposed()};
  return result;
}

void Trainer::fill(Slot& slot, std::uint64_t number, bool validation) {
  if (validation)
    source_.fill_validation(number, slot.inputs, slot.targets);
  else
    source_.fill(number, slot.inputs, slot.targets);
  slot.dropped.assign(units_.size(), false);
  if (validation || options_.drop == 0) return;
  for (std::size_t unit = 0; unit < units_.size(); ++unit)
    slot.dropped[unit] = droppable_[unit] && is_dropped(options_, number, first_unit_ + unit);
}

void Trainer::forward(std::size_t turn, std::uint64_t number, bool validation, Totals& totals) {
  const std::size_t index = turn % slots_.size();
  Slot& slot = slots_[index];
  fill(slot, number, validation);
  boundaries_->settle_output(index);
  if (!boundaries_->first()) boundaries_->receive_input(turn, stage_->input(index));
  Outcome outcome;
  const auto output = stage_->forward(index, slot.batch, outcome, slot.dropped,
                                      validation ? Mode::evaluation : Mode::training);
  if (!boundaries_->last()) boundaries_->send_output(turn, index, output);
  if (reports()) {
    totals.loss.add(outcome.loss);
    totals.rows += static_cast<std::int64_t>(outcome.rows);
    totals.right += static_cast<std::int64_t>(outcome.right);
  }
  if (totals.used.empty()) return;
  std::size_t parameter = first_parameter_;
  for (std::size_t unit = 0; unit < units_.size(); ++unit)
    for (std::size_t i = 0; i < units_[unit]->parameters().size(); ++i)
      totals.used[parameter++] += slot.dropped[unit] ? 0 : 1;
}

void Trainer::backward(std::size_t turn) {
  if (!turns_[turn]) {
    stage_->idle_backward();
    gradients_->end_leaf();
    return;
  }
  const std::size_t index = turn % slots_.size();
  const Slot& slot = slots_[index];
  boundaries_->settle_gradient();
  if (!boundaries_->last()) boundaries_->receive_gradient(turn, stage_->output_gradient());
  const float factor = scaler_.factor() / static_cast<float>(slot.batch.rows());
  const auto gradient = stage_->backward(index, slot.batch, factor, slot.dropped);
  if (!boundaries_->first()) boundaries_->send_gradient(turn, gradient);
  gradients_->end_leaf();
}

void Trainer::add_squares(Totals& totals) {
  // Each rank adds the squares of a part, also where all ranks have everything. Blocks of 16
  // elements are the same in every layout and for every number of ranks.
  std::vector<float> wide;
  std::vector<double> sums;
  for (std::size_t i = 0; i < layout_->buckets().size(); ++i) {
    const void* sum = gradients_->sum(i);
    const Bucket& bucket = layout_->buckets()[i];
    const std::size_t first = owned_.shard.of(bucket).begin;
    for_each_place(bucket, counted().of(bucket), [&](const Place& place, const Range& part) {
      const ParameterInfo& parameter = units_[place.unit]->parameters()[place.parameter];
      if (!parameter.split() && mesh_.tensor_rank() != 0) return;  // its partners have the same
      wide.resize(part.count);
      sums.resize((part.count + kParameterAlignment - 1) / kParameterAlignment);
      widen(
          options_.gradients, part.count,
          static_cast<const std::byte*>(sum) + (part.begin - first) * bytes_of(options_.gradients),
          wide.data());
      table().squares(part.count, wide.data(), sums.data());
      for (const double square : sums) totals.squares.add(square);
    });
  }
}

void Trainer::update(const Totals& totals, StepResult& result) {
  const auto rows = static_cast<double>(totals.rows);
  result.rows = static_cast<std::size_t>(totals.rows);
  result.loss = totals.loss.value() / rows;
  result.accuracy = static_cast<double>(totals.right) / rows;
  result.loss_scale = scaler_.factor();
  result.rate = options_.rate.at(step_);

  const double capacity = static_cast<double>(slots_[0].batch.rows());
  const double mean = capacity / (rows * static_cast<double>(scaler_.factor()));
  result.norm = std::sqrt(totals.squares.value()) * mean;
  result.skipped = !std::isfinite(result.norm);
  if (options_.gradients == Format::f16) scaler_.update(result.skipped);
  skipped_ = result.skipped ? skipped_ + 1 : 0;
  // f16 may need 16 steps to find its scale.
  constexpr std::size_t kMostSkipped = 40;
  if (skipped_ == kMostSkipped) {
    throw Failure(
        "the gradient was not finite in " + std::to_string(skipped_) +
        " steps in a row, so training stands still; go on from an earlier checkpoint, with a lower "
        "rate or in f32");
  }
  if (result.skipped) return settle();  // what was delayed is not delayed further

  Update update;
  update.step = clipped_step(options_, step_, mean, result.norm);
  update.delayed = options_.delay > 0 && step_ + 1 >= options_.delay;
  if (!totals.used.empty()) {
    std::size_t parameter = first_parameter_;
    for (const auto& unit : units_) {
      update.skipped.emplace_back();
      for (std::size_t i = 0; i < unit->parameters().size(); ++i)
        update.skipped.back().push_back(totals.used[parameter++] == 0);
    }
  }
  const std::size_t buckets = layout_->buckets().size();
  // A bucket's weights go to the other ranks while the next bucket is updated.
  const auto publish = [&](std::size_t i) {
    optimizer_->finish(i);
    weights_->updated(i);
  };
  for (std::size_t i = 0; i < buckets; ++i) {
    optimizer_->update(i, update, gradients_->sum(i), weights_->owned(i));
    if (i > 0) publish(i - 1);
  }
  publish(buckets - 1);
}

void Trainer::settle() {
  weights_->settle();  // no gather may read what is written next
  for (std::size_t i = 0; i < layout_->buckets().size(); ++i)
    if (optimizer_->catch_up(i)) weights_->updated(i);
  weights_->settle();
}

StepResult Trainer::validate(std::uint64_t batches) {
  batches = std::min<std::uint64_t>(batches, source_.validations());
  Totals totals;
  buffers_->broadcast();
  const Turns turns = deal_in_turns(batches, mesh_.data_rank(), mesh_.shape().data);
  for (std::size_t i = 0; i < turns.size(); ++i) stage_->expect_forward();
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (turns[i])
      forward(i, *turns[i], true, totals);
    else
      stage_->idle_forward();
  }
  totals.add_up(mesh_.world);
  StepResult result;
  result.step = step_;
  result.rows = static_cast<std::size_t>(totals.rows);
  result.loss = totals.loss.value() / static_cast<double>(totals.rows);
  result.accuracy = static_cast<double>(totals.right) / static_cast<double>(totals.rows);
  return result;
}

}  // namespace training
