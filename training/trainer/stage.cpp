// SPDX-License-Identifier: Apache-2.0
// The passes of a stage, unit by unit.
#include "stage.hpp"

#include <algorithm>
#include <utility>

namespace training {
namespace {

/// With `length` 0 all units are one segment.
Segment segment_of(std::size_t unit, std::size_t length, std::size_t units) {
  if (length == 0) return {0, units};
  const std::size_t begin = unit / length * length;
  return {begin, std::min(begin + length, units)};
}

bool goes_to_host(std::size_t unit, std::size_t units, const StageOptions& options) {
  return options.host != nullptr && unit + 1 < units &&
         segment_of(unit, options.checkpoint, units).end == unit + 1;
}

}  // namespace

Stage::Stage(const Units<float>& units, Weights& weights, Gradients& gradients, const Batch& shape,
             const StageOptions& options, Arena& arena)
    : units_(units),
      weights_(weights),
      gradients_(gradients),
      shape_(shape),
      options_(options),
      slots_(options.slots) {
  const auto take = [&](std::size_t size) {
    return size == 0 ? Block<float>() : arena.take<float>(size, Use::activations);
  };
  const std::size_t rows = shape.rows();
  std::size_t flow = rows * options.input_width, scratch = 0;
  for (const auto& unit : units) {
    flow = std::max(flow, rows * unit->width());
    scratch = std::max(scratch, unit->scratch_size(shape));
  }
  scratch_ = take(scratch);
  for (Block<float>& block : flow_) block = take(flow);
  for (Slot& slot : slots_) {
    slot.input = take(rows * options.input_width);
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      const bool kept = options.checkpoint == 0;
      const bool ends = segment_of(unit).end == unit + 1 && !goes_to_host(unit);
      slot.outputs.push_back(take(kept || ends ? rows * units[unit]->width() : 0));
      slot.saved.push_back(take(kept ? units[unit]->saved_size(shape) : 0));
    }
  }
  for (std::size_t i = 0; i < options.checkpoint; ++i) {
    std::size_t output = 0, saved = 0;
    for (std::size_t unit = i; unit < units.size(); unit += options.checkpoint) {
      if (segment_of(unit).end != unit + 1) output = std::max(output, rows * units[unit]->width());
      saved = std::max(saved, units[unit]->saved_size(shape));
    }
    again_outputs_.push_back(take(output));
    again_saved_.push_back(take(saved));
  }
  auto on_host = host_outputs(units, shape, options);
  if (!on_host.empty()) host_.emplace(std::move(on_host), options.slots, arena, *options.host);
}

Segment Stage::segment_of(std::size_t unit) const {
  return training::segment_of(unit, options_.checkpoint, units_.size());
}

bool Stage::goes_to_host(std::size_t unit) const {
  return training::goes_to_host(unit, units_.size(), options_);
}

std::vector<std::size_t> host_outputs(const Units<float>& units, const Batch& shape,
                                      const StageOptions& options) {
  std::vector<std::size_t> sizes;
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    if (goes_to_host(unit, units.size(), options))
      sizes.push_back(shape.rows() * units[unit]->width());
  return sizes;
}

std::size_t activation_elements(const Units<float>& units, const Batch& shape,
                                const StageOptions& options) {
  const std::size_t rows = shape.rows(), length = options.checkpoint;
  std::size_t flow = rows * options.input_width, scratch = 0, kept = rows * options.input_width;
  std::vector<std::size_t> outputs(length), saved(length);
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    const std::size_t output = rows * units[unit]->width();
    const std::size_t save = units[unit]->saved_size(shape);
    flow = std::max(flow, output);
    scratch = std::max(scratch, units[unit]->scratch_size(shape));
    const bool ends = segment_of(unit, length, units.size()).end == unit + 1;
    if (length == 0 || (ends && !goes_to_host(unit, units.size(), options))) kept += output;
    if (length == 0) {
      kept += save;
    } else {
      if (!ends) outputs[unit % length] = std::max(outputs[unit % length], output);
      saved[unit % length] = std::max(saved[unit % length], save);
    }
  }
  std::size_t again = 0;
  for (std::size_t i = 0; i < length; ++i) again += outputs[i] + saved[i];
  const std::size_t passing = HostActivations::device_elements(host_outputs(units, shape, options));
  return options.slots * kept + passing + again + scratch + 2 * flow;
}

float* Stage::output_of(std::size_t slot, std::size_t unit) const {
  const Block<float>& kept = slots_[slot].outputs[unit];
  if (options_.checkpoint == 0 || kept.data() != nullptr) return kept.data();
  if (goes_to_host(unit)) return host_->output(unit / options_.checkpoint);
  return again_outputs_[unit % options_.checkpoint].data();
}

const float* Stage::input_of(std::size_t slot, std::size_t unit) const {
  return unit == 0 ? slots_[slot].input.data() : output_of(slot, unit - 1);
}

float* Stage::saved_of(std::size_t slot, std::size_t unit) const {
  return options_.checkpoint == 0 ? slots_[slot].saved[unit].data()
                                  : again_saved_[unit % options_.checkpoint].data();
}

template <class Visit>
void Stage::for_each_use_in_backward(Visit visit) const {
  for (std::size_t end = units_.size(); end > 0;) {
    const Segment segment = segment_of(end - 1);
    // With segments of one unit, its weights serve both passes.
    if (options_.checkpoint > 1)
      for (std::size_t unit = segment.begin; unit < segment.end; ++unit)
        visit(unit, Pass::recompute);
    for (std::size_t unit = segment.end; unit-- > segment.begin;) visit(unit, Pass::backward);
    end = segment.begin;
  }
}

void Stage::expect_forward() {
  std::vector<std::size_t> uses;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) uses.push_back(unit);
  weights_.expect(uses);
}

void Stage::expect_backward() {
  std::vector<std::size_t> uses;
  for_each_use_in_backward([&](std::size_t unit, Pass /*pass*/) { uses.push_back(unit); });
  weights_.expect(uses);
}

void Stage::idle_forward() {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    weights_.take(unit);
    weights_.release(unit);
  }
}

void Stage::idle_backward() {
  for_each_use_in_backward([&](std::size_t unit, Pass pass) {
    weights_.take(unit);
    if (pass == Pass::backward) {
      gradients_.take(unit);
      gradients_.end_unit(unit);
    }
    weights_.release(unit);
  });
}

void Stage::forward_unit(std::size_t slot, std::size_t unit, const Batch& batch, Outcome& outcome,
                         bool dropped, Mode mode) {
  const float* input = input_of(slot, unit);
  float* output = output_of(slot, unit);
  const auto weights = weights_.take(unit);  // also where it is dropped: other ranks gather it
  if (dropped) {
    std::copy_n(input, batch.rows() * units_[unit]->width(), output);
    return;
  }
  const auto begin = observer_ ? Clock::now() : Clock::time_point();
  Memory<float> memory{weights, {}, saved_of(slot, unit), scratch_.data()};
  if (options_.buffers != nullptr) memory.buffers = options_.buffers->of(unit);
  memory.mode = mode;
  units_[unit]->forward(batch, memory, input, output, outcome);
  if (observer_) observer_(mode == Mode::recompute ? Pass::recompute : Pass::forward, unit, begin);
}

std::span<const float> Stage::forward(std::size_t slot, const Batch& batch, Outcome& outcome,
                                      const Dropped& dropped, Mode mode) {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const bool on_host = goes_to_host(unit);
    if (on_host) host_->settle(unit / options_.checkpoint);
    forward_unit(slot, unit, batch, outcome, !dropped.empty() && dropped[unit], mode);
    // No backward pass follows an evaluation.
    if (on_host && mode == Mode::training) host_->store(slot, unit / options_.checkpoint);
    weights_.release(unit);
  }
  return slots_[slot].outputs.back().span();
}

void Stage::backward_unit(std::size_t slot, std::size_t unit, const Batch& batch, float factor,
                          bool dropped) {
  const auto weights = weights_.take(unit);
  const auto gradients = gradients_.take(unit);
  if (dropped) {
    gradients_.end_unit(unit);  // what is the output's gradient is the input's
    return;
  }
  const auto begin = observer_ ? Clock::now() : Clock::time_point();
  const Memory<float> memory{weights, gradients, saved_of(slot, unit), scratch_.data()};
  units_[unit]->backward(batch, memory, input_of(slot, unit), flow_[0].data(), flow_[1].data(),
                         factor, [&](std::size_t parameter) { gradients_.ready(unit, parameter); });
  gradients_.end_unit(unit);
  std::swap(flow_[0], flow_[1]);
  if (observer_) observer_(Pass::backward, unit, begin);
}

std::span<const float> Stage::backward(std::size_t slot, const Batch& batch, float factor,
                                       const Dropped& dropped) {
  const auto is_dropped = [&](std::size_t unit) { return !dropped.empty() && dropped[unit]; };
  Outcome unused;
  for (std::size_t end = units_.size(); end > 0;) {
    const Segment segment = segment_of(end - 1);
    if (host_) host_->bring_input(slot, segment.begin / options_.checkpoint);
    if (options_.checkpoint > 0) {
      for (std::size_t unit = segment.begin; unit < segment.end; ++unit) {
        forward_unit(slot, unit, batch, unused, is_dropped(unit), Mode::recompute);
        if (options_.checkpoint > 1) weights_.release(unit);
      }
    }
    for (std::size_t unit = segment.end; unit-- > segment.begin;) {
      backward_unit(slot, unit, batch, factor, is_dropped(unit));
      weights_.release(unit);
    }
    end = segment.begin;
  }
  const std::size_t size = batch.rows() * options_.input_width;
  return flow_[0].span().first(size);
}

}  // namespace training
