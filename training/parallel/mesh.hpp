// SPDX-License-Identifier: Apache-2.0
// How ranks divide the work: data x pipeline x tensor parallelism, each along one axis of a grid.
//
// Rank ((p * data) + d) * tensor + t is pipeline stage p, data-parallel copy d and tensor part t:
// the ranks that talk most, those of a tensor group, are neighbours (Narayanan et al. 2021, arXiv
// 2104.04473, section 3.2).
#pragma once
#include <collectives/collectives.hpp>

#include "../memory/failure.hpp"

namespace training {

struct MeshShape {
  std::size_t data = 1, tensor = 1, pipeline = 1;
  [[nodiscard]] std::size_t ranks() const { return data * tensor * pipeline; }
};

/// Throws Failure if there are not as many ranks.
void check_ranks(const MeshShape& shape, std::size_t ranks);

class Mesh {
 public:
  /// All ranks of `world` call. With `same_bits`, sums have the order of a tree of ranks.
  Mesh(collectives::Communicator world, const MeshShape& shape, bool same_bits);

  [[nodiscard]] const MeshShape& shape() const { return shape_; }
  [[nodiscard]] std::size_t data_rank() const { return rank_ / shape_.tensor % shape_.data; }
  [[nodiscard]] std::size_t tensor_rank() const { return rank_ % shape_.tensor; }
  [[nodiscard]] std::size_t pipeline_rank() const { return rank_ / (shape_.tensor * shape_.data); }
  [[nodiscard]] std::size_t rank() const { return rank_; }

  collectives::Communicator world;     ///< for few and small things: norms, losses
  collectives::Communicator data;      ///< the copies of this rank's parameters
  collectives::Communicator tensor;    ///< those that share its matrices
  collectives::Communicator pipeline;  ///< the stages of its copy

 private:
  MeshShape shape_;
  std::size_t rank_;
};

}  // namespace training
