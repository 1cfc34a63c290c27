// SPDX-License-Identifier: Apache-2.0
// The worker's side of each request.
#include "asynchronous_worker.hpp"

namespace training {

using namespace asynchronous;

namespace {
constexpr int kServer = 0;
}  // namespace

AsynchronousWorker::AsynchronousWorker(const AsynchronousOptions& options,
                                       const Units<float>& units, const Source& source,
                                       collectives::Communicator& comm, Arena& arena)
    : options_(checked(options, comm)),
      source_(source),
      traffic_(comm),
      turns_(deal_in_blocks(options.training.leaves, traffic_.rank() - 1, traffic_.ranks() - 1)),
      layout_(layout_of(units)),
      weights_(layout_, Format::f32, Shard{}, traffic_, arena),
      gradients_(layout_, Format::f32, turns_.size(), traffic_, arena),
      inputs_(source.shape().inputs()),
      targets_(source.shape().targets()),
      batch_{source.shape().sequences, source.shape().tokens, inputs_, targets_},
      stage_(units, weights_, gradients_, batch_, {.checkpoint = options.training.checkpoint},
             arena) {}

Pending AsynchronousWorker::Gradients::start(std::size_t bucket, std::byte* data) {
  const std::size_t bytes = layout().buckets()[bucket].size * sizeof(float);
  return traffic().start(message(COLL_SEND, kServer, gradients_tag, data, bytes), "send_gradients",
                         bytes);
}

Pending AsynchronousWorker::request(Wish wish, std::size_t rows) {
  request_ = {wish, static_cast<std::int64_t>(rows)};
  return traffic_.start(message(COLL_SEND, kServer, request_tag, &request_, 1), "send_request",
                        sizeof(Request));
}

std::size_t AsynchronousWorker::pull() {
  if (clock_ > 0) gradients_.sum(0);  // waits until it has arrived
  traffic_.wait(requested_);
  Answer answer;
  const std::size_t bytes = layout_.size() * sizeof(float);
  Pending answered = traffic_.start(message(COLL_RECV, kServer, answer_tag, &answer, 1),
                                    "recv_answer", sizeof(Answer));
  Pending arrived = traffic_.start(message(COLL_RECV, kServer, weights_tag,
                                           static_cast<float*>(weights_.owned(0)), layout_.size()),
                                   "recv_weights", bytes);
  requested_ = request(Wish::pull);
  traffic_.wait(requested_);
  traffic_.wait(answered);
  traffic_.wait(arrived);
  return clock_ - static_cast<std::size_t>(answer.slowest);
}

Outcome AsynchronousWorker::push() {
  Outcome outcome;
  gradients_.begin(turns_.size());
  for (std::size_t i = 0; i < turns_.size(); ++i) {
    source_.fill(clock_ * options_.training.leaves + *turns_[i], inputs_, targets_);
    stage_.forward(0, batch_, outcome);
    stage_.backward(0, batch_, 1 / static_cast<float>(batch_.rows()));
    gradients_.end_leaf();
  }
  gradients_.finish();
  requested_ = request(Wish::push, outcome.rows);
  ++clock_;
  return outcome;
}

void AsynchronousWorker::end() {
  if (clock_ > 0) gradients_.sum(0);
  traffic_.wait(requested_);
  requested_ = request(Wish::end);
  traffic_.wait(requested_);
  value_of(traffic_.communicator().broadcast<float>(
      {static_cast<float*>(weights_.owned(0)), layout_.size()}, kServer));
}

}  // namespace training
