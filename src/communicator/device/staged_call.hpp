// SPDX-License-Identifier: Apache-2.0
// A call on a stream of CUDA, with those of its buffers that lie on a GPU.
#pragma once
#include <vector>

#include "communicator/calls/device_buffers.hpp"
#include "communicator/engine/engine.hpp"

namespace coll {

/// What a stream of CUDA copies before and after a call, so that the call itself concerns memory of
/// the host only. The plan is that of any other call. A message that is shorter than its buffer,
/// and gaps between blocks, leave the rest of the output as it is.
class StagedCall {
 public:
  /// Between a GPU's memory and an offset in pinned memory.
  struct Copy {
    CudaAddress device = 0;
    std::size_t offset = 0, bytes = 0;
  };

  /// Plans the copies of a checked request, from `offset` on in the pinned memory. Returns where
  /// that ends. `stages`: else the call uses the buffers where they are.
  std::size_t plan(const Request& request, Rank rank, Rank size, std::size_t offset, bool stages);
  /// The same request on the pinned memory that begins at `pinned`. It lives as long as this.
  const Request& place(std::byte* pinned);

  [[nodiscard]] const std::vector<Copy>& before() const { return before_; }
  [[nodiscard]] const std::vector<Copy>& after() const { return after_; }

 private:
  /// A pair of buffers of the user's, and where in the pinned memory they have their places.
  struct Pair {
    Buffers buffers;
    StagedPair staged;
    std::size_t offset = 0;
  };
  Pair add_pair(const Buffers& buffers, std::size_t& offset, bool stages);

  Request request_;
  std::shared_ptr<const UnequalBlocks> blocks_;
  Extras extras_;
  std::vector<Pair> pairs_;  ///< one; of a call of parts, one for each part
  std::vector<Copy> before_, after_;
};

}  // namespace coll
