// SPDX-License-Identifier: Apache-2.0
// PyTorch's reductions as the library's.
#pragma once
#include <array>
#include <collectives/collectives.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "torch_tensors.hpp"

namespace collectives_torch {

struct Reduction {
  coll_op_t op = COLL_SUM;
  Elements elements{};
  bool has_factor = false;
  alignas(16) std::array<std::byte, 16> factor{};  ///< an element of the type, for PREMUL_SUM

  /// Throws, naming `operation`, where the type has no such reduction.
  static Reduction of(const c10d::ReduceOp& op, at::ScalarType type, const char* operation);

  /// Sets operation, type and factor; this object must stay until the call is issued.
  void apply_to(coll_call_t& call) const;
};

}  // namespace collectives_torch
