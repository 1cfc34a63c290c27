// SPDX-License-Identifier: Apache-2.0
// Which ports are near a rank, on hosts of several.
#include "sys/verbs/near_rails.hpp"

#include <gmock/gmock.h>

#include "sys/verbs/pci_path.hpp"
#include "sys/verbs/rdma_tree.hpp"

namespace coll {
namespace {

using test::RdmaTree;
using ::testing::ElementsAre;

struct MadeUp {
  std::string bus;  ///< the way to it
  int numa_node = -1;
  double gigabits_per_s = 400;
};

std::vector<RdmaRail> rails_of(const std::vector<MadeUp>& ports) {
  std::vector<RdmaRail> rails;
  for (const MadeUp& one : ports) {
    RdmaRail& rail = rails.emplace_back();
    rail.port.device = "nic" + std::to_string(rails.size() - 1);
    rail.port.numa_node = one.numa_node;
    rail.port.gigabits_per_s = one.gigabits_per_s;
    rail.port.pci_path = one.bus;
  }
  return rails;
}

/// Two of each host bridge's switch, four of each node.
std::vector<MadeUp> eight_on_two_nodes() {
  std::vector<MadeUp> ports;
  for (int i = 0; i < 8; ++i) {
    const std::string bridge = "pci0000:" + std::to_string(10 * (i / 2 + 1));
    ports.push_back({bridge + "/0000:01:00.0/0000:02:0" + std::to_string(i % 2) + ".0", i / 4});
  }
  return ports;
}

std::vector<int> near_of(const std::vector<MadeUp>& ports, const RankSeat& seat,
                         std::string_view interface = "") {
  std::vector<RdmaRail> rails = rails_of(ports);
  mark_near(rails, seat, interface);
  std::vector<int> near;
  for (std::size_t i = 0; i < rails.size(); ++i)
    if (rails[i].near) near.push_back(static_cast<int>(i));
  return near;
}

TEST(NearRails, ARankThatIsBoundToANodeHasThatNodesPorts) {
  const auto ports = eight_on_two_nodes();
  EXPECT_THAT(near_of(ports, {0}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(near_of(ports, {1}), ElementsAre(4, 5, 6, 7));
  std::vector<RdmaRail> rails = rails_of(ports);
  EXPECT_EQ(mark_near(rails, {1}, ""),
            "nic4:1, nic5:1, nic6:1, nic7:1 of 8 are near this rank: they are the fastest of NUMA "
            "node 1");
}

TEST(NearRails, WithoutAnyThatIsNearAllAre) {
  const auto ports = eight_on_two_nodes();
  EXPECT_EQ(near_of(ports, {-1}).size(), 8U) << "a rank that is not bound";
  EXPECT_EQ(near_of(ports, {2}).size(), 8U) << "a node without ports";
  EXPECT_THAT(near_of({{"", -1}, {"", -1}}, {0}), ElementsAre(0, 1)) << "nobody knows their node";
  EXPECT_THAT(near_of({{"", -1}, {"", 0}}, {0}), ElementsAre(1));
  EXPECT_THAT(near_of({{"", 1}}, {0}), ElementsAre(0)) << "there is no other";
  EXPECT_TRUE(near_of({}, {0}).empty());
}

TEST(NearRails, ARankWithAGpuHasThePortsBesideIt) {
  const auto ports = eight_on_two_nodes();
  EXPECT_THAT(near_of(ports, {1, "pci0000:30/0000:01:00.0/0000:02:07.0"}), ElementsAre(4, 5))
      << "of one switch with it";
  EXPECT_THAT(near_of(ports, {1, "pci0000:30/0000:09:00.0"}), ElementsAre(4, 5))
      << "of one host bridge with it";
  EXPECT_THAT(near_of(ports, {1, "pci0000:70/0000:01:00.0"}), ElementsAre(4, 5, 6, 7))
      << "alone below its bridge: of its node";
  const std::string bus = "pci0000:00/0000:00:01.0/0000:01:00.0/";
  const std::vector<MadeUp> nested = {{bus + "0000:02:00.0/0000:03:00.0", 0},
                                      {bus + "0000:02:04.0/0000:04:00.0", 0},
                                      {"pci0000:00/0000:00:02.0", 0}};
  EXPECT_THAT(near_of(nested, {0, bus + "0000:02:04.0/0000:05:00.0"}), ElementsAre(1));
  EXPECT_THAT(near_of(nested, {0, bus + "0000:02:08.0/0000:06:00.0"}), ElementsAre(0, 1));
}

/// Whatever is near, and whatever a person names.
TEST(NearRails, PortsBelowTheHostBridgeOfTheGpuAreBesideIt) {
  for (const char* interface : {"", "nic"}) {
    std::vector<RdmaRail> rails = rails_of(eight_on_two_nodes());
    mark_near(rails, {0, "pci0000:30/0000:09:00.0"}, interface);
    for (std::size_t i = 0; i < rails.size(); ++i)
      EXPECT_EQ(rails[i].beside_gpu, i == 4 || i == 5) << i;
    mark_near(rails, {0}, interface);
    for (const RdmaRail& rail : rails) EXPECT_FALSE(rail.beside_gpu) << "there is no GPU";
  }
}

/// As in virtual machines, where all devices hang below one bridge.
TEST(NearRails, WhereTheBusTellsNothingTheNodeDoes) {
  const std::vector<MadeUp> flat = {{"pci0000:00/0000:00:05.0", 0}, {"pci0000:00/0000:00:06.0", 1}};
  EXPECT_THAT(near_of(flat, {1, "pci0000:00/0000:00:09.0"}), ElementsAre(1));
}

TEST(NearRails, ASlowPortIsNotTakenForBeingNear) {
  const std::vector<MadeUp> ports = {
      {"pci0000:10/0000:11:00.0", 0, 25}, {"", 1, 400}, {"", 1, 399}, {"", 2, 400}};
  EXPECT_EQ(near_of(ports, {0}).size(), 4U);
  EXPECT_EQ(near_of(ports, {0, "pci0000:10/0000:12:00.0"}).size(), 4U);
  EXPECT_THAT(near_of(ports, {1}), ElementsAre(1, 2)) << "rates of one speed, rounded";
}

TEST(NearRails, PortsThatThePersonNamesAreAllUsed) {
  const auto ports = eight_on_two_nodes();
  EXPECT_EQ(near_of(ports, {0}, "nic").size(), 8U);
  EXPECT_EQ(near_of(ports, {0}, "^eth0").size(), 4U) << "that names none";
}

TEST(NearRails, TheSeatOfARankIsThatOfItsGpuIfItHasOne) {
  RdmaTree tree;
  tree.roce("mlx5_0", "0000:0e:00.0/0000:0f:00.0", "eth0");
  tree.put("devices/pci0000:00/0000:0e:00.0/0000:10:00.0/numa_node", "3");
  std::filesystem::create_directories(tree.root() + "/bus/pci/devices");
  std::filesystem::create_directory_symlink(
      tree.root() + "/devices/pci0000:00/0000:0e:00.0/0000:10:00.0",
      tree.root() + "/bus/pci/devices/0000:10:00.0");
  const RankSeat seat = rank_seat(1, "0000:10:00.0", tree.root());
  EXPECT_EQ(seat.numa_node, 3);
  EXPECT_EQ(seat.gpu, "pci0000:00/0000:0e:00.0/0000:10:00.0");
  const std::string port = rdma_ports(tree.root()).at(0).pci_path;
  EXPECT_EQ(port, "pci0000:00/0000:0e:00.0/0000:0f:00.0");
  EXPECT_EQ(shared_pci_levels(seat.gpu, port), 2U);
  for (const char* name : {"", "0", "0000:77:00.0"}) {
    EXPECT_EQ(rank_seat(1, name, tree.root()).numa_node, 1);
    EXPECT_EQ(rank_seat(1, name, tree.root()).gpu, "") << "no GPU that the kernel knows";
  }
}

TEST(NearRails, AnUnknownWayIsSharedWithNobody) {
  EXPECT_EQ(shared_pci_levels("", ""), 0U);
  EXPECT_EQ(shared_pci_levels("pci0000:00", ""), 0U);
  EXPECT_EQ(shared_pci_levels("pci0000:00/a", "pci0000:00"), 1U);
  EXPECT_EQ(shared_pci_levels("pci0000:00/a", "pci0000:0"), 0U);
}

}  // namespace
}  // namespace coll
