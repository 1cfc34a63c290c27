// SPDX-License-Identifier: Apache-2.0
// Buffers of a call that lie in a GPU's memory.
#pragma once
#include "communicator/calls/bound_calls.hpp"
#include "executor/scratch_pool.hpp"
#include "sys/cuda/cuda_driver.hpp"

namespace coll {

/// A call's buffers in memory of the host, in place of those that lie on a GPU: inputs are copied
/// there before the call moves, outputs to the GPU after it has ended. The plan is that of any
/// other call, so some ranks may have their buffers on a GPU and others not. What an output has
/// between its blocks, or behind a shorter message, is left as it is.
class DeviceBuffers {
 public:
  /// Does any of the request's buffers lie on a GPU?
  static bool any(const Request& request, Rank rank, Rank size) {
    // The door has looked for the driver.
    return found_cuda_driver() != nullptr && on_device(request, rank, size);
  }

  /// Takes memory and points the request's buffers at it.
  DeviceBuffers(Request& request, Rank rank, Rank size, ScratchPool& pool);
  /// When the inputs are there.
  [[nodiscard]] Status fetch() const;
  /// When the call has ended well.
  [[nodiscard]] Status store() const;

 private:
  /// What of the call lies on a GPU, and where it lies on the host instead.
  struct Copy {
    Buffer device;
    std::byte* host = nullptr;  ///< null: it lies on the host anyway
  };
  static bool on_device(const Request& request, Rank rank, Rank size);

  Request given_;
  Copy input_, output_;
  ScratchPool::Block first_, second_;
};

}  // namespace coll
