// SPDX-License-Identifier: Apache-2.0
// Buffers of a call that lie in a GPU's memory.
#pragma once
#include "communicator/calls/bound_calls.hpp"
#include "executor/scratch_pool.hpp"
#include "sys/cuda/cuda_driver.hpp"

namespace coll {

/// The GPU on which a buffer lies, by CUDA's number; -1: none.
int device_of(const Buffer& buffer);

/// Where a call's buffers lie within a block of memory that stands for those on a GPU. Buffers that
/// overlap, as in place, overlap there too.
struct StagedPair {
  static constexpr std::size_t kNotStaged = ~std::size_t{0};
  std::size_t input = kNotStaged, output = kNotStaged;  ///< offsets
  std::size_t bytes = 0;                                ///< of the block

  [[nodiscard]] bool has_input() const { return input != kNotStaged; }
  [[nodiscard]] bool has_output() const { return output != kNotStaged; }
};
StagedPair stage(const Buffers& buffers, bool input_there, bool output_there);

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
  static bool on_device(const Request& request, Rank rank, Rank size);

  Request given_;
  Buffers buffers_;
  StagedPair pair_;
  ScratchPool::Block block_;
};

}  // namespace coll
