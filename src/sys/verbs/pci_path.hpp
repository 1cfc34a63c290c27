// SPDX-License-Identifier: Apache-2.0
// Where a device is plugged in on the PCI bus.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace coll {

/// The way down from the host bridge to a device's function, whose folder in the kernel's tree this
/// is, or lies below: "pci0000:00/0000:00:01.0/0000:0f:00.0". "" for a device that is not on PCI.
std::string pci_path_of(const std::filesystem::path& device);

/// How much of their ways two devices share: 1 is a host bridge alone, 0 nothing.
std::size_t shared_pci_levels(std::string_view one, std::string_view other);

}  // namespace coll
