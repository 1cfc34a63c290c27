// SPDX-License-Identifier: Apache-2.0
// Reads the interfaces of RDMA devices from the kernel's tree.
#include "sys/net/rdma_interfaces.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "sys/folder.hpp"
#include "sys/text_file.hpp"

namespace coll {
namespace {

namespace fs = std::filesystem;

/// Numbers in names count as numbers.
bool name_before(const fs::path& a, const fs::path& b) {
  return strverscmp(a.filename().c_str(), b.filename().c_str()) < 0;
}

/// The interfaces of the device's function may be those of its other ports: the kernel numbers
/// them from 0.
bool is_of_port(const fs::path& interface, const fs::path& port) {
  const std::string text = first_line_of(interface / "dev_port"), name = port.filename().string();
  int from_0 = 0, number = 0;
  const bool known =
      std::from_chars(text.data(), text.data() + text.size(), from_0).ec == std::errc() &&
      std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc();
  return known && from_0 + 1 == number;
}

}  // namespace

std::vector<fs::path> rdma_port_folders(const std::string& sysfs) {
  std::vector<fs::path> folders, devices = entries_of(sysfs + "/class/infiniband");
  std::ranges::sort(devices, name_before);
  for (const fs::path& device : devices) {
    std::vector<fs::path> ports = entries_of(device / "ports");
    std::ranges::sort(ports, name_before);
    folders.insert(folders.end(), ports.begin(), ports.end());
  }
  return folders;
}

std::vector<RdmaGidText> filled_rdma_gids(const fs::path& port) {
  constexpr int kGap = 32;
  std::vector<RdmaGidText> gids;
  for (int index = 0, last = 0; index - last <= kGap; ++index) {
    std::string text = first_line_of(port / "gids" / std::to_string(index));
    if (text.find_first_not_of("0:") == std::string::npos) continue;
    last = index;
    gids.push_back({index, std::move(text)});
  }
  return gids;
}

std::vector<std::string> interfaces_of_rdma_port(const fs::path& port,
                                                 const std::vector<RdmaGidText>& gids) {
  std::set<std::string> names;
  for (const RdmaGidText& gid : gids) {
    // An entry without an interface refuses to be read.
    std::string name = first_line_of(port / "gid_attrs" / "ndevs" / std::to_string(gid.index));
    if (!name.empty()) names.insert(std::move(name));
  }
  // InfiniBand's addresses are of no interface; IP over it lies on the same function. (A RoCE
  // function may have more interfaces, which stand for virtual functions.)
  if (names.empty()) {
    const fs::path device = port.parent_path().parent_path();
    const bool alone = entries_of(device / "ports").size() == 1;
    for (const fs::path& interface : entries_of(device / "device" / "net")) {
      if (alone || is_of_port(interface, port)) names.insert(interface.filename().string());
    }
  }
  return {names.begin(), names.end()};
}

std::vector<RdmaInterfaces> rdma_interfaces(const std::string& sysfs) {
  std::vector<RdmaInterfaces> list;
  for (const fs::path& port : rdma_port_folders(sysfs)) {
    const std::string device = port.parent_path().parent_path().filename().string();
    list.push_back({device, device + ":" + port.filename().string(),
                    interfaces_of_rdma_port(port, filled_rdma_gids(port))});
  }
  return list;
}

}  // namespace coll
