// SPDX-License-Identifier: Apache-2.0
// What runs on a device have in common, whichever executor moves them.
#pragma once
#include <cstddef>

#include "executor/run.hpp"
#include "transports/device_port.hpp"

namespace coll {

/// The port of a ready connection for messages of up to `message_bytes`. Fails, naming the peer,
/// where the connection serves no device, or `for_kernels`, no kernels.
Result<DevicePort*> device_port_of(Connection& connection, std::size_t message_bytes,
                                   bool for_kernels = false);

/// Resets what the run keeps of an earlier call. A device's run is never held.
void begin_on_device(Run& run);

/// The run is over, for the processor too.
void end_on_device(Run& run);

}  // namespace coll
