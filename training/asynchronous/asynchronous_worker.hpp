// SPDX-License-Identifier: Apache-2.0
// A worker of asynchronous training: pulls weights, computes its micro-batches, pushes their
// gradient (stale_synchronous.hpp).
#pragma once
#include "../parallel/bucketed_gradients.hpp"
#include "../parallel/replicated_weights.hpp"
#include "stale_synchronous.hpp"

namespace training {

class AsynchronousWorker {
 public:
  /// The references must outlive the worker.
  AsynchronousWorker(const AsynchronousOptions& options, const Units<float>& units,
                     const Source& source, collectives::Communicator& comm, Arena& arena);

  /// Waits for weights that hold all gradients of clocks below clock() - s. Returns how many clocks
  /// this worker is ahead of the slowest.
  std::size_t pull();
  /// One clock: computes the gradient with the weights of the last pull, and sends it. It is on its
  /// way until the next pull.
  Outcome push();
  /// No more clocks: waits for the other workers, and takes the last weights.
  void end();

  [[nodiscard]] std::size_t clock() const { return clock_; }
  [[nodiscard]] const FlatLayout& layout() const { return layout_; }
  [[nodiscard]] std::span<const float> weights() {
    return {static_cast<const float*>(weights_.owned(0)), layout_.size()};
  }

 private:
  /// Sends the sum of this rank's micro-batches to the server.
  class Gradients final : public BucketedGradients {
   public:
    using BucketedGradients::BucketedGradients;

   protected:
    Pending start(std::size_t bucket, std::byte* data) override;
  };
  Pending request(asynchronous::Wish wish, std::size_t rows = 0);

  AsynchronousOptions options_;
  const Source& source_;
  Traffic traffic_;
  Turns turns_;
  FlatLayout layout_;
  ReplicatedWeights weights_;
  Gradients gradients_;
  std::vector<std::int32_t> inputs_, targets_;
  Batch batch_;
  Stage stage_;
  asynchronous::Request request_;
  Pending requested_;
  std::size_t clock_ = 0;
};

}  // namespace training
