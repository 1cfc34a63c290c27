// SPDX-License-Identifier: Apache-2.0
// Connections that GPUs use by themselves.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "sys/cuda/cuda_driver.hpp"
#include "transports/transport.hpp"

namespace coll {

/// Makes them of connections between the ranks' processes. Where two GPUs reach each other, each
/// writes into the other's memory. Elsewhere messages are staged in pinned memory of the host.
class DeviceLinks {
 public:
  /// Each has `credits` slots in each direction. `for_kernels`: messages that are staged are of no
  /// use.
  DeviceLinks(CudaContext context, std::uint32_t credits, bool for_kernels)
      : context_(context), credits_(credits), for_kernels_(for_kernels) {}
  [[nodiscard]] std::uint32_t credits() const { return credits_; }

  /// `direct`: as PeerPath::of_gpus.
  [[nodiscard]] std::unique_ptr<Connection> wrap(std::unique_ptr<Connection> inner,
                                                 bool direct) const;
  /// A step of connecting, until `connection` is ready. It may be another one then.
  Status poll(std::unique_ptr<Connection>& connection);

 private:
  /// Connections that came to nothing. To destroy them may wait for streams, so they stay as long
  /// as this.
  std::vector<std::unique_ptr<Connection>> refused_;
  const CudaContext context_;
  const std::uint32_t credits_;
  const bool for_kernels_;
};

}  // namespace coll
