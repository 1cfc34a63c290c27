// SPDX-License-Identifier: Apache-2.0
// Requests, one after another.
#include "parameter_server.hpp"

#include <fmt/format.h>

#include <cmath>

#include "../layout/initial_weights.hpp"
#include "../layout/leaf_tree.hpp"
#include "../math/exact_sum.hpp"
#include "../trainer/clipped_step.hpp"

namespace training {

using namespace asynchronous;

ParameterServer::ParameterServer(const AsynchronousOptions& options, const Units<float>& units,
                                 std::size_t rows, collectives::Communicator& comm, Arena& arena,
                                 const Trainer::MakeOptimizer& make_optimizer)
    : options_(checked(options, comm)),
      rows_(static_cast<double>(rows)),
      units_(units),
      traffic_(comm),
      layout_(layout_of(units)),
      weights_(arena.take<float>(layout_.size(), Use::parameters)) {
  const std::size_t workers = traffic_.ranks() - 1;
  const std::size_t levels = options_.staleness == 0 ? levels_of(workers) : 1;
  for (std::size_t i = 0; i < levels; ++i)
    gradients_.push_back(arena.take<float>(layout_.size(), Use::gradients));
  doing_.resize(workers, Doing::computes);
  clocks_.resize(workers);
  pushed_.resize(workers);
  Owned owned;
  owned.layout = &layout_;
  for (const auto& unit : units) {
    owned.decays.emplace_back();
    for (const ParameterInfo& parameter : unit->parameters())
      owned.decays.back().push_back(parameter.decays);
  }
  optimizer_ = make_optimizer(owned);
  for (const Place& place : layout_.buckets()[0].places) {
    initial_values(units[place.unit]->parameters()[place.parameter], options_.training.seed, 0,
                   weights_.span().subspan(place.offset, place.size));
  }
  optimizer_->begin(0, weights());
}

void ParameterServer::run(const coll_call_t& call, const char* name) {
  Pending pending = traffic_.start(call, name, call.count);
  traffic_.wait(pending);
}

std::size_t ParameterServer::count(Doing doing) const {
  return static_cast<std::size_t>(std::ranges::count(doing_, doing));
}

std::size_t ParameterServer::slowest() const {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (std::size_t worker = 0; worker < clocks_.size(); ++worker)
    if (doing_[worker] != Doing::ended) least = std::min(least, clocks_[worker]);
  return least;
}

void ParameterServer::serve() {
  while (count(Doing::ended) < doing_.size()) {
    take_request();
    answer();
  }
  value_of(traffic_.communicator().broadcast<float>(weights_, 0));
}

void ParameterServer::take_request() {
  Request request;
  coll_message_t taken = COLL_MESSAGE_INIT;
  run(message(COLL_RECV, COLL_ANY_SOURCE, request_tag, &request, 1, &taken), "recv_request");
  const auto worker = static_cast<std::size_t>(taken.source - 1);
  pushed_[worker] = request.rows;
  switch (request.wish) {
    case Wish::pull:
      doing_[worker] = Doing::wants_weights;
      break;
    case Wish::end:
      doing_[worker] = Doing::ended;
      break;
    case Wish::push:
      doing_[worker] = Doing::has_gradients;
      break;
  }
  if (options_.staleness > 0) {
    if (request.wish == Wish::push) step_with(worker);
    return;
  }
  if (count(Doing::has_gradients) > 0 && count(Doing::ended) > 0) {
    throw Failure(
        fmt::format("staleness 0: rank {} {} at clock {}, but not all workers do; give all "
                    "the same number of steps, or allow staleness",
                    taken.source, request.wish == Wish::push ? "goes on" : "has ended",
                    clocks_[worker]),
        Failure::kBadUsage);
  }
  if (count(Doing::has_gradients) == doing_.size()) step_with_all();
}

void ParameterServer::take_gradients(std::size_t worker, std::size_t level) {
  run(message(COLL_RECV, static_cast<int>(worker) + 1, gradients_tag, gradients_[level].data(),
              layout_.size()),
      "recv_gradients");
  ++clocks_[worker];
  doing_[worker] = Doing::computes;
}

void ParameterServer::step_with(std::size_t worker) {
  take_gradients(worker, 0);
  step(static_cast<double>(pushed_[worker]));
}

void ParameterServer::step_with_all() {
  double rows = 0;
  const std::size_t workers = doing_.size();
  for (std::size_t worker = 0; worker < workers; ++worker) {
    std::size_t level = level_of(worker);
    take_gradients(worker, level);
    for (std::size_t i = additions_of(worker, workers); i > 0; --i, --level)
      add(Format::f32, layout_.size(), gradients_[level].data(), gradients_[level - 1].data());
    rows += static_cast<double>(pushed_[worker]);
  }
  step(rows);
}

void ParameterServer::step(double rows) {
  // As Trainer does it, with the same bits.
  const float* sum = gradients_[0].data();
  ExactSum squares;
  std::vector<double> sums;
  for (const Place& place : layout_.buckets()[0].places) {
    sums.resize((place.size + kParameterAlignment - 1) / kParameterAlignment);
    table().squares(place.size, sum + place.offset, sums.data());
    for (const double square : sums) squares.add(square);
  }
  const double mean = rows_ / rows;
  const double norm = std::sqrt(squares.value()) * mean;
  if (std::isfinite(norm)) {
    const Update update{clipped_step(options_.training, step_, mean, norm)};
    optimizer_->update(0, update, sum, weights_.data());
    optimizer_->finish(0);
  }
  ++step_;
}

void ParameterServer::answer() {
  const std::size_t least = slowest();
  for (std::size_t worker = 0; worker < doing_.size(); ++worker) {
    if (doing_[worker] != Doing::wants_weights) continue;
    if (clocks_[worker] - least > options_.staleness) continue;
    const int rank = static_cast<int>(worker) + 1;
    const Answer answer{static_cast<std::int64_t>(least)};
    run(message(COLL_SEND, rank, answer_tag, &answer, 1), "send_answer");
    run(message(COLL_SEND, rank, weights_tag, weights_.data(), layout_.size()), "send_weights");
    doing_[worker] = Doing::computes;
  }
}

}  // namespace training
