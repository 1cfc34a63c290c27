// SPDX-License-Identifier: Apache-2.0
// The ways between the GPUs of a host, as bytes.
#pragma once
#include <optional>

#include "planner/networks/device_ways.hpp"
#include "rendezvous/control_message.hpp"

namespace coll {

void write_ways(const DeviceWays& ways, MessageWriter& out);
/// What another rank published; nothing where it makes no sense.
std::optional<DeviceWays> read_ways(MessageReader& in);

}  // namespace coll
