// SPDX-License-Identifier: Apache-2.0
// The kernel's tree of RDMA devices, made up.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "temporary_folder.hpp"

namespace coll::test {

/// Files below one folder, written as the kernel shows them.
class RdmaTree {
 public:
  [[nodiscard]] const std::string& root() const { return folder_.path(); }

  void put(const std::string& path, std::string_view text) {
    const std::filesystem::path file = root() + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }

  /// A device at a PCI address; its folder there.
  std::string device(const std::string& name, const std::string& bus, int numa) {
    const std::string function = "devices/pci0000:00/" + bus;
    put(function + "/numa_node", std::to_string(numa));
    put("class/infiniband/" + name + "/node_type", "1: CA");
    std::filesystem::create_directory_symlink(root() + "/" + function,
                                              root() + "/class/infiniband/" + name + "/device");
    return function;
  }

  /// A port that is up; its folder.
  std::string port(const std::string& name, int number, const std::string& link_layer,
                   const std::string& rate = "100 Gb/sec (4X EDR)") {
    const std::string folder = "class/infiniband/" + name + "/ports/" + std::to_string(number);
    put(folder + "/state", "4: ACTIVE");
    put(folder + "/phys_state", "5: LinkUp");
    put(folder + "/link_layer", link_layer);
    put(folder + "/rate", rate);
    put(folder + "/lid", link_layer == "InfiniBand" ? "0x2a" : "0x0");
    return folder;
  }

  void gid(const std::string& port, int index, std::string_view address, std::string_view type,
           std::string_view interface = {}) {
    const std::string number = std::to_string(index);
    put(port + "/gids/" + number, address);
    put(port + "/gid_attrs/types/" + number, type);
    if (!interface.empty()) put(port + "/gid_attrs/ndevs/" + number, interface);
  }

  /// A RoCE device of one port with the addresses of a usual interface.
  std::string roce(const std::string& name, const std::string& bus, const std::string& interface) {
    device(name, bus, 0);
    const std::string folder = port(name, 1, "Ethernet");
    gid(folder, 0, "fe80:0000:0000:0000:0202:c9ff:fe00:0001", "IB/RoCE v1", interface);
    gid(folder, 1, "fe80:0000:0000:0000:0202:c9ff:fe00:0001", "RoCE v2", interface);
    gid(folder, 2, "0000:0000:0000:0000:0000:ffff:0a00:0001", "IB/RoCE v1", interface);
    gid(folder, 3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", interface);
    put(folder + "/gids/4", "0000:0000:0000:0000:0000:0000:0000:0000");
    return folder;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace coll::test
