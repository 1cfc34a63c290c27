// SPDX-License-Identifier: Apache-2.0
// The PCI bus as the folders of the kernel's tree nest it.
#include "sys/verbs/pci_path.hpp"

#include <algorithm>

namespace coll {
namespace {

/// "0000:0f:00.0"; a domain may have more digits.
bool is_pci_address(std::string_view name) {
  return name.size() >= 12 && name.find_first_not_of("0123456789abcdef:.") == name.npos &&
         name[name.size() - 2] == '.' && name[name.size() - 5] == ':' &&
         name[name.size() - 8] == ':';
}

/// "pci0000:00".
bool is_host_bridge(std::string_view name) {
  return name.starts_with("pci") && name.size() > 3 &&
         name.find_first_not_of("0123456789abcdef:", 3) == name.npos;
}

}  // namespace

std::string pci_path_of(const std::filesystem::path& device) {
  std::error_code none;
  std::string path;
  for (const std::filesystem::path& part : std::filesystem::canonical(device, none)) {
    const std::string name = part.string();
    if (is_pci_address(name) || is_host_bridge(name)) path += (path.empty() ? "" : "/") + name;
  }
  return path;
}

std::size_t shared_pci_levels(std::string_view one, std::string_view other) {
  std::size_t levels = 0;
  while (!one.empty() && !other.empty()) {
    const std::string_view a = one.substr(0, one.find('/')), b = other.substr(0, other.find('/'));
    if (a != b) break;
    ++levels;
    one.remove_prefix(std::min(one.size(), a.size() + 1));
    other.remove_prefix(std::min(other.size(), b.size() + 1));
  }
  return levels;
}

}  // namespace coll
