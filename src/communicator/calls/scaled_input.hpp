// SPDX-License-Identifier: Apache-2.0
// Inputs that are multiplied before they are reduced.
#pragma once
#include <memory>

#include "base/status.hpp"
#include "communicator/calls/bound_calls.hpp"

namespace coll {

/// The products of a call's input and its factor: what the call then reduces. They lie in the
/// output where that is as large as the input, else in memory of their own.
class ScaledInput {
 public:
  /// Finds the place and points the request's input at it. Allocates, if it has to.
  void prepare(Request& request, Rank rank, Rank size);
  /// Computes the products; when the input is there.
  void compute() const noexcept;

 private:
  Request given_;
  Buffer input_;
  std::byte* products_ = nullptr;
  std::unique_ptr<std::byte[]> own_;
};

}  // namespace coll
