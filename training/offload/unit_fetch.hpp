// SPDX-License-Identifier: Apache-2.0
// Bringing a unit's parameters from slow memory, host's or disk's, to all devices: two ways, to
// compare (ZeRO-Infinity, Rajbhandari et al. 2021, arXiv 2104.07857, section 6.1,
// "bandwidth-centric partitioning"). For a unit of P bytes on N ranks, each with a link of its own,
//
//   broadcast:  the owner's link carries P bytes, the others' none
//   all-gather: each link carries P / N bytes, at the same time
//
// so that with slow links all-gather takes an N-th of the time.
#pragma once
#include "../memory/failure.hpp"
#include "device_link.hpp"

namespace training {

/// `stored`: the unit in the owner's slow memory, ignored elsewhere. `device` gets the unit.
inline void fetch_by_broadcast(collectives::Communicator& ranks, DeviceLink& link, int owner,
                               std::span<const float> stored, std::span<float> device) {
  if (ranks.rank() == owner)
    link.copy(DeviceLink::Way::to_device, device.data(), stored.data(), device.size_bytes());
  value_of(ranks.broadcast(device, owner));
}

/// `stored`: this rank's N-th of the unit. `device` gets the unit.
inline void fetch_by_all_gather(collectives::Communicator& ranks, DeviceLink& link,
                                std::span<const float> stored, std::span<float> device) {
  const std::span<float> own =
      device.subspan(static_cast<std::size_t>(ranks.rank()) * stored.size(), stored.size());
  link.copy(DeviceLink::Way::to_device, own.data(), stored.data(), stored.size_bytes());
  value_of(ranks.all_gather(std::span<const float>(own), device));
}

}  // namespace training
