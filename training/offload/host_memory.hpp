// SPDX-License-Identifier: Apache-2.0
// Host memory beside a device, and the one link to it that all share who keep something there.
#pragma once
#include "../memory/arena.hpp"
#include "device_link.hpp"

namespace training {

/// Must outlive what is kept in it.
struct HostMemory {
  Arena arena;
  DeviceLink link;
};

}  // namespace training
