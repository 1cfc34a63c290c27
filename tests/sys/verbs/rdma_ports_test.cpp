// SPDX-License-Identifier: Apache-2.0
// Ports of RDMA devices: what is read of the kernel's tree, and which are chosen.
#include "sys/verbs/rdma_ports.hpp"

#include <gmock/gmock.h>

#include "sys/net/net_interfaces.hpp"
#include "sys/net/rdma_interfaces.hpp"
#include "sys/verbs/rdma_tree.hpp"

namespace coll {
namespace {

using test::RdmaTree;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> names(const Result<std::vector<RdmaRail>>& rails) {
  EXPECT_TRUE(rails.ok()) << rails.status().text();
  std::vector<std::string> list;
  if (rails.ok())
    for (const RdmaRail& rail : *rails)
      list.push_back(rail.port.name() + " " + std::to_string(rail.gid.index));
  return list;
}

std::string why_none(const RdmaTree& tree, std::string_view interface = "") {
  const auto rails = rdma_rails(rdma_ports(tree.root()), interface);
  EXPECT_FALSE(rails.ok());
  EXPECT_EQ(rails.status().code(), Code::unsupported);
  return rails.status().text();
}

std::string infiniband(RdmaTree& tree, const std::string& name, const std::string& bus) {
  tree.device(name, bus, 1);
  const std::string port = tree.port(name, 1, "InfiniBand", "400 Gb/sec (4X NDR)");
  tree.gid(port, 0, "fe80:0000:0000:0000:0002:c903:0000:1491", "IB/RoCE v1");
  tree.gid(port, 1, "fe80:0000:0000:0000:0000:0000:0000:0000", "IB/RoCE v1");
  return port;
}

TEST(RdmaPorts, WithoutDevicesThereAreNone) {
  const RdmaTree tree;
  EXPECT_TRUE(rdma_ports(tree.root()).empty());
  EXPECT_TRUE(rdma_ports(tree.root() + "/nowhere").empty());
  EXPECT_THAT(why_none(tree), HasSubstr("no RDMA device"));
}

TEST(RdmaPorts, APortOfInfiniBandIsReadWhole) {
  RdmaTree tree;
  infiniband(tree, "mlx5_0", "0000:0f:00.0");
  tree.put("devices/pci0000:00/0000:0f:00.0/net/ib0/dev_port", "0");
  const auto ports = rdma_ports(tree.root());
  ASSERT_EQ(ports.size(), 1U);
  const RdmaPort& port = ports[0];
  EXPECT_EQ(port.name(), "mlx5_0:1");
  EXPECT_TRUE(port.active);
  EXPECT_FALSE(port.ethernet);
  EXPECT_EQ(port.gigabits_per_s, 400);
  EXPECT_EQ(port.lid, 0x2a);
  EXPECT_EQ(port.numa_node, 1);
  EXPECT_EQ(port.bus, "0000:0f:00.0");
  EXPECT_EQ(port.state, "ACTIVE");
  EXPECT_EQ(port.unfit, "");
  EXPECT_THAT(port.interfaces, ElementsAre("ib0"));
  ASSERT_EQ(port.gids.size(), 1U) << "a prefix alone is no address";
  EXPECT_EQ(port.gids[0].type, RdmaGid::Type::infiniband);
  EXPECT_EQ(port.gids[0].text(), "fe80::2:c903:0:1491");
  EXPECT_THAT(names(rdma_rails(ports, "")), ElementsAre("mlx5_0:1 0"));
}

TEST(RdmaPorts, APortOfRoceIsReadWhole) {
  RdmaTree tree;
  tree.roce("mlx5_1", "0001:a0:00.1", "eth0");
  const auto ports = rdma_ports(tree.root());
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_TRUE(ports[0].ethernet);
  EXPECT_EQ(ports[0].lid, 0);
  EXPECT_EQ(ports[0].bus, "0001:a0:00.1");
  EXPECT_THAT(ports[0].interfaces, ElementsAre("eth0"));
  ASSERT_EQ(ports[0].gids.size(), 4U) << "without the zero entry";
  EXPECT_EQ(ports[0].gids[2].type, RdmaGid::Type::roce_v1);
  const RdmaGid& last = ports[0].gids[3];
  EXPECT_EQ(last.index, 3);
  EXPECT_EQ(last.type, RdmaGid::Type::roce_v2);
  EXPECT_EQ(last.interface, "eth0");
  EXPECT_TRUE(last.is_ipv4());
  EXPECT_FALSE(last.is_link_local());
  EXPECT_EQ(last.text(), "::ffff:10.0.0.1");
  EXPECT_TRUE(ports[0].gids[0].is_link_local());
}

TEST(RdmaPorts, NumbersInNamesCountAsNumbers) {
  RdmaTree tree;
  for (const int each : {10, 2, 0})
    tree.roce("mlx5_" + std::to_string(each), "0000:0" + std::to_string(each % 10) + ":00.0",
              "eth" + std::to_string(each));
  EXPECT_THAT(names(rdma_rails(rdma_ports(tree.root()), "")),
              ElementsAre("mlx5_0:1 3", "mlx5_2:1 3", "mlx5_10:1 3"));
}

TEST(RdmaPorts, OfRoceTheAddressThatReachesFarthestIsTaken) {
  RdmaTree tree;
  tree.device("rxe0", "0000:01:00.0", 0);
  const std::string port = tree.port("rxe0", 1, "Ethernet");
  const auto taken = [&] { return names(rdma_rails(rdma_ports(tree.root()), "")); };
  tree.gid(port, 0, "2001:0db8:0000:0000:0000:0000:0000:0001", "IB/RoCE v1", "eth0");
  EXPECT_THAT(why_none(tree), HasSubstr("rxe0:1 has only addresses of RoCE v1"));
  tree.gid(port, 9, "0000:0000:0000:0000:0000:ffff:a9fe:0001", "RoCE v2", "eth0");
  EXPECT_THAT(taken(), ElementsAre("rxe0:1 9")) << "169.254.0.1, where nothing else is";
  tree.gid(port, 5, "fe80:0000:0000:0000:0202:c9ff:fe00:0001", "RoCE v2", "eth0");
  EXPECT_THAT(taken(), ElementsAre("rxe0:1 5")) << "the first of two link-local ones";
  tree.gid(port, 11, "2001:0db8:0000:0000:0000:0000:0000:0001", "RoCE v2", "eth0");
  EXPECT_THAT(taken(), ElementsAre("rxe0:1 11"));
  tree.gid(port, 30, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "eth0");
  EXPECT_THAT(taken(), ElementsAre("rxe0:1 30"));
  tree.gid(port, 12, "0000:0000:0000:0000:0000:ffff:0a00:0002", "RoCE v2", "eth0");
  EXPECT_THAT(taken(), ElementsAre("rxe0:1 12")) << "by number, not by the digits of the name";
}

TEST(RdmaPorts, TheKnobNamesDevicesPortsAndInterfaces) {
  RdmaTree tree;
  tree.roce("mlx5_0", "0000:01:00.0", "eth0");
  tree.roce("mlx5_1", "0000:02:00.0", "eth1");
  infiniband(tree, "mlx5_10", "0000:03:00.0");
  tree.put("devices/pci0000:00/0000:03:00.0/net/ib7/dev_port", "0");
  const auto taken = [&](std::string_view knob) {
    return names(rdma_rails(rdma_ports(tree.root()), knob));
  };
  const std::string first = "mlx5_0:1 3", second = "mlx5_1:1 3", third = "mlx5_10:1 0";
  EXPECT_THAT(taken("mlx5_0"), ElementsAre(first));
  EXPECT_THAT(taken("mlx5_1"), ElementsAre(second, third)) << "a prefix";
  EXPECT_THAT(taken("mlx5_1:1"), ElementsAre(second));
  EXPECT_THAT(taken("mlx5_10:1,eth0"), ElementsAre(first, third));
  EXPECT_THAT(taken("eth"), ElementsAre(first, second));
  EXPECT_THAT(taken("ib"), ElementsAre(third));
  EXPECT_THAT(taken("^mlx5_0"), ElementsAre(second, third));
  EXPECT_THAT(taken("^ib,eth1"), ElementsAre(first));
  EXPECT_THAT(taken("^lo"), ElementsAre(first, second, third));
  EXPECT_THAT(why_none(tree, "eth5"),
              AllOf(HasSubstr("mlx5_0:1 is not allowed by COLL_INTERFACE=\"eth5\""),
                    HasSubstr("mlx5_1:1 is not"), HasSubstr("mlx5_10:1 is not")));
}

TEST(RdmaPorts, TheKnobChoosesAmongTheInterfacesOfAPort) {
  RdmaTree tree;
  const std::string port = tree.roce("mlx5_0", "0000:01:00.0", "eth0");
  tree.gid(port, 6, "0000:0000:0000:0000:0000:ffff:0a01:0001", "RoCE v2", "vlan7");
  const auto ports = rdma_ports(tree.root());
  EXPECT_THAT(ports.at(0).interfaces, ElementsAre("eth0", "vlan7"));
  EXPECT_THAT(names(rdma_rails(ports, "")), ElementsAre("mlx5_0:1 3"));
  EXPECT_THAT(names(rdma_rails(ports, "vlan")), ElementsAre("mlx5_0:1 6"));
  EXPECT_THAT(names(rdma_rails(ports, "^eth0")), ElementsAre("mlx5_0:1 6"));
}

TEST(RdmaPorts, EachPortThatIsNotUsedIsNamedWithTheReason) {
  RdmaTree tree;
  tree.put(infiniband(tree, "ib0", "0000:01:00.0") + "/state", "2: INIT");
  const std::string down = tree.roce("mlx5_1", "0000:02:00.0", "eth0");
  tree.put(down + "/state", "1: DOWN");
  tree.put(down + "/phys_state", "3: Disabled");
  tree.device("mlx5_2", "0000:03:00.0", 0);
  tree.port("mlx5_2", 1, "Ethernet");
  tree.roce("irdma0", "0000:04:00.0", "eth4");
  tree.put("class/infiniband/irdma0/node_type", "4: RNIC");
  infiniband(tree, "efa_0", "0000:05:00.0");
  tree.put("class/infiniband/efa_0/ports/1/link_layer", "Unknown");
  EXPECT_THAT(why_none(tree), AllOf(HasSubstr("ib0:1 is not active but INIT, LinkUp"),
                                    HasSubstr("mlx5_1:1 is not active but DOWN, Disabled"),
                                    HasSubstr("mlx5_2:1 has no address"), HasSubstr("but: RNIC"),
                                    HasSubstr("efa_0:1 has the link layer \"Unknown\"")));
  // One that can be used is enough.
  tree.roce("mlx5_9", "0000:09:00.0", "eth9");
  EXPECT_THAT(names(rdma_rails(rdma_ports(tree.root()), "")), ElementsAre("mlx5_9:1 3"));
}

TEST(RdmaPorts, FilesThatAreMissingOrGarbledAreUnknowns) {
  RdmaTree tree;
  const std::string port = tree.roce("mlx5_0", "0000:01:00.0", "eth0");
  tree.put(port + "/rate", "fast");
  tree.put(port + "/lid", "0xfffff");
  tree.put(port + "/gids/1", "no address");
  tree.put(port + "/gids/x", "fe80:0000:0000:0000:0202:c9ff:fe00:0001");
  std::filesystem::remove(tree.root() + "/" + port + "/gid_attrs/types/3");
  tree.put("devices/pci0000:00/0000:01:00.0/numa_node", "?");
  tree.put("class/infiniband/mlx5_0/ports/port/state", "4: ACTIVE");
  tree.put("class/infiniband/mlx5_0/ports/300/state", "4: ACTIVE");
  auto ports = rdma_ports(tree.root());
  ASSERT_EQ(ports.size(), 1U) << "no port 300, and none without a number";
  EXPECT_EQ(ports[0].gigabits_per_s, 0);
  EXPECT_EQ(ports[0].lid, 0);
  EXPECT_EQ(ports[0].numa_node, -1);
  ASSERT_EQ(ports[0].gids.size(), 2U) << "entry 1 is no address, entry 3 has no type";
  EXPECT_EQ(ports[0].gids[1].index, 2);
  std::filesystem::remove(tree.root() + "/" + port + "/state");
  EXPECT_THAT(why_none(tree), HasSubstr("mlx5_0:1 is not active but unknown"));
  std::filesystem::remove(tree.root() + "/" + port + "/link_layer");
  EXPECT_THAT(why_none(tree), HasSubstr("mlx5_0:1 has a link layer that cannot be read"));
}

TEST(RdmaPorts, ADeviceBelowItsFunctionHasTheFunctionsAddress) {
  RdmaTree tree;
  tree.device("mlx5_0", "0000:01:00.0/mlx5_core.sf.4", 0);
  tree.port("mlx5_0", 1, "Ethernet");
  EXPECT_EQ(rdma_ports(tree.root()).at(0).bus, "0000:01:00.0");
  tree.port("rxe0", 1, "Ethernet");
  EXPECT_EQ(rdma_ports(tree.root()).at(1).bus, "") << "no PCI device at all";
}

TEST(RdmaPorts, InterfacesOfTwoPortsOfOneFunctionAreToldApart) {
  RdmaTree tree;
  tree.device("mlx4_0", "0000:01:00.0", 0);
  for (const int each : {1, 2}) tree.port("mlx4_0", each, "InfiniBand");
  tree.put("devices/pci0000:00/0000:01:00.0/net/ib0/dev_port", "0");
  tree.put("devices/pci0000:00/0000:01:00.0/net/ib1/dev_port", "1");
  const auto list = rdma_interfaces(tree.root());
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].device, "mlx4_0");
  EXPECT_EQ(list[0].port, "mlx4_0:1");
  EXPECT_THAT(list[0].interfaces, ElementsAre("ib0"));
  EXPECT_THAT(list[1].interfaces, ElementsAre("ib1"));
}

/// Sockets over an RDMA device: those of its interfaces. Every machine has one called lo.
TEST(RdmaInterfaces, TheKnobMayNameTheDeviceInPlaceOfItsInterfaces) {
  RdmaTree tree;
  tree.roce("mlx5_0", "0000:01:00.0", "lo");
  tree.roce("mlx5_1", "0000:02:00.0", "nosuchif");
  for (const char* knob : {"mlx5_0", "mlx5_0:1", "mlx5_1,mlx5_0", "nosuchif,mlx5"}) {
    const auto list = host_addresses(knob, tree.root());
    ASSERT_TRUE(list.ok()) << list.status().text();
    for (const InterfaceAddress& one : *list) EXPECT_EQ(one.interface, "lo") << knob;
  }
  const auto others = host_addresses("^mlx5_0", tree.root());
  if (others.ok()) {
    for (const InterfaceAddress& one : *others) EXPECT_NE(one.interface, "lo");
  }
}

TEST(RdmaInterfaces, TheErrorNamesTheDevicesToo) {
  RdmaTree tree;
  tree.roce("mlx5_1", "0000:02:00.0", "eth77");
  infiniband(tree, "mlx5_2", "0000:03:00.0");
  const auto list = host_addresses("mlx5_2", tree.root());
  ASSERT_FALSE(list.ok()) << "InfiniBand without IP has no sockets";
  EXPECT_THAT(list.status().text(), AllOf(HasSubstr("lo"),
                                          HasSubstr("RDMA devices: mlx5_1:1 (eth77), mlx5_2:1 (no "
                                                    "interface)"),
                                          HasSubstr("eth0,mlx5_0")));
  const RdmaTree none;
  EXPECT_THAT(host_addresses("mlx5_2", none.root()).status().text(), Not(HasSubstr("RDMA")));
}

}  // namespace
}  // namespace coll
