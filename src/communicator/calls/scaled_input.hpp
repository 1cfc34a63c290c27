// SPDX-License-Identifier: Apache-2.0
// Inputs that are multiplied before they are reduced.
#pragma once
#include "communicator/calls/bound_calls.hpp"
#include "executor/scratch_pool.hpp"

namespace coll {

/// The products of a call's input and its factor: what the call then reduces. They lie in the
/// output where that is as large as the input, else in memory of their own.
class ScaledInput {
 public:
  /// Finds the place and points the request's input at it.
  ScaledInput(Request& request, Rank rank, Rank size, ScratchPool& pool);
  /// Computes the products; when the input is there.
  void compute() const noexcept;

 private:
  Request given_;
  Buffer input_;
  std::byte* products_ = nullptr;
  ScratchPool::Block own_;
};

}  // namespace coll
