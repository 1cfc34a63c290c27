// SPDX-License-Identifier: Apache-2.0
// Rank 0 of asynchronous training: takes gradients, steps, hands out weights
// (stale_synchronous.hpp).
//
// Memory for P parameters and n workers: weights and AdamW's states as elsewhere; gradients 4 P
// bytes, and with s = 0 log2(n) + 1 times that: then workers hold their gradients until all have
// one, and the server takes them in the order of the tree (leaf_tree.hpp).
#pragma once
#include <optional>

#include "../parallel/group_traffic.hpp"
#include "stale_synchronous.hpp"

namespace training {

class ParameterServer {
 public:
  /// `rows`: of a micro-batch. `comm` is all ranks; the references must outlive the server.
  ParameterServer(const AsynchronousOptions& options, const Units<float>& units, std::size_t rows,
                  collectives::Communicator& comm, Arena& arena,
                  const Trainer::MakeOptimizer& make_optimizer);

  /// Serves until all workers have ended, then gives them the last weights.
  void serve();

  [[nodiscard]] std::size_t steps() const { return step_; }
  [[nodiscard]] const std::vector<std::size_t>& clocks() const { return clocks_; }  ///< of workers
  [[nodiscard]] const FlatLayout& layout() const { return layout_; }
  [[nodiscard]] std::span<const float> weights() const {
    return {weights_.data(), weights_.size()};
  }

 private:
  enum class Doing { computes, has_gradients, wants_weights, ended };
  void take_request();
  void take_gradients(std::size_t worker, std::size_t level);
  void step_with(std::size_t worker);
  void step_with_all();
  void step(double rows);
  void answer();
  [[nodiscard]] std::size_t slowest() const;  ///< clock, of those that have not ended
  [[nodiscard]] std::size_t count(Doing doing) const;
  void run(const coll_call_t& call, const char* name);

  AsynchronousOptions options_;
  double rows_;
  const Units<float>& units_;
  Traffic traffic_;
  FlatLayout layout_;
  Block<float> weights_;
  std::vector<Block<float>> gradients_;  ///< levels of the tree of workers
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Doing> doing_;          ///< of each worker, rank 1 first
  std::vector<std::size_t> clocks_;   ///< so
  std::vector<std::int64_t> pushed_;  ///< so: rows of the gradients
  std::size_t step_ = 0;
};

}  // namespace training
