// SPDX-License-Identifier: Apache-2.0
// Connections that GPUs use by themselves.
#pragma once
#include <cstdint>
#include <memory>

#include "sys/cuda/cuda_driver.hpp"
#include "transports/transport.hpp"

namespace coll {

/// Makes them of connections between the ranks' processes. On one host the GPU writes into the
/// memory of its peer's GPU, if both reach each other. Elsewhere, and between hosts, messages are
/// staged in pinned memory of the host.
class DeviceLinks {
 public:
  explicit DeviceLinks(CudaContext context) : context_(context) {}

  /// Slots of a connection in each direction.
  static constexpr std::uint32_t kCredits = 4;

  [[nodiscard]] std::unique_ptr<Connection> wrap(std::unique_ptr<Connection> inner,
                                                 const PathCapabilities& path) const;
  /// A step of connecting, until `connection` is ready. It may be another one then.
  void poll(std::unique_ptr<Connection>& connection) const;

 private:
  const CudaContext context_;
};

}  // namespace coll
