// SPDX-License-Identifier: Apache-2.0
// Connections that GPUs use by themselves.
#include "communicator/membership/device_links.hpp"

#include <string>
#include <utility>

#include "base/log.hpp"
#include "transports/cuda_ipc/cuda_ipc_connection.hpp"
#include "transports/staging/staging_connection.hpp"

namespace coll {

std::unique_ptr<Connection> DeviceLinks::wrap(std::unique_ptr<Connection> inner,
                                              bool direct) const {
  if (direct)
    return std::make_unique<CudaIpcConnection>(std::move(inner), context_, credits_, for_kernels_);
  return std::make_unique<StagingConnection>(std::move(inner), context_, credits_);
}

Status DeviceLinks::poll(std::unique_ptr<Connection>& connection) {
  auto* const direct = dynamic_cast<CudaIpcConnection*>(connection.get());
  if (direct == nullptr) return {};
  direct->poll();
  if (!direct->ready() || direct->reaches()) return {};
  if (for_kernels_) {
    return failed(Code::out_of_resources,
                  "the GPUs of this rank and of rank " + std::to_string(direct->peer()) +
                      " cannot write into each other: " + direct->refusal());
  }
  log(LogLevel::info, "messages to the GPU of rank " + std::to_string(direct->peer()) +
                          " go through memory of the host: " + direct->refusal());
  auto staging = std::make_unique<StagingConnection>(direct->give_back(), context_, credits_);
  refused_.push_back(std::exchange(connection, std::move(staging)));
  return {};
}

}  // namespace coll
