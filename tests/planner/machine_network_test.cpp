// SPDX-License-Identifier: Apache-2.0
// Predicted times on described machines, beside published ones.
#include "planner/networks/machine_network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "planner/planner.hpp"
#include "topology/read/read_topology.hpp"
#include "topology/rings/host_ring.hpp"
#include "topology/topology_path.hpp"

namespace coll {
namespace {

using enum Collective;

struct Machine {
  Topology topology;
  Placement placement;
  World world;
};

const CostConstants& costs() {
  return default_cost_model()->constants;
}

Topology topology_of(const std::string& what) {
  const Result<Topology> read = read_topology_file(what);
  EXPECT_TRUE(read.ok()) << read.status().text();
  return read.ok() ? *read : Topology{};
}

Machine machine_of(const Topology& topology, Rank ranks) {
  Machine machine{.topology = topology, .placement = {}, .world = {}};
  const Result<Placement> placed = place_ranks(machine.topology, ranks);
  EXPECT_TRUE(placed.ok()) << placed.status().text();
  if (!placed.ok()) return machine;
  machine.placement = *placed;
  machine.world = machine_world(machine.topology, machine.placement);
  return machine;
}

Machine machine_of(const std::string& what, Rank ranks) {
  return machine_of(topology_of(what), ranks);
}

std::vector<std::string> names_on(const Machine& machine, Rank source, Rank target) {
  const Network& network = *machine.world.network;
  std::vector<std::string> list;
  for (const std::uint32_t link : network.route(source, target).links)
    list.push_back(network.links[link].name);
  return list;
}

/// GB/s of all_reduce as nccl-tests counts them, by this algorithm or by the planner's choice.
double all_reduce_busbw(const Machine& machine, double bytes, const std::string& algorithm = "") {
  World world = machine.world;
  world.algorithm = algorithm;
  const Rank ranks = world.layout.ranks();
  const Result<Plan> plan =
      make_plan(world, {{all_reduce, ranks, 0}, size_class(static_cast<std::uint64_t>(bytes))});
  EXPECT_TRUE(plan.ok()) << plan.status().text();
  return plan.ok() ? bytes / plan->predicted_us / 1e3 * 2 * (ranks - 1) / ranks : 0;
}

constexpr double kGiB = 1 << 30;

/// Measured by others with NCCL, at its best size: shared/topologies/references.json has the
/// sources. The model counts links and what they yield; it knows nothing of in-switch reduction
/// (NVLS).
TEST(MachineNetwork, PredictsWhatIsPublished) {
  struct Published {
    const char* machine;
    const char* text;
    Rank ranks;
    double busbw;
  };
  for (const Published& of : {
           Published{"8x A100 SXM, rings (nccl-tests issue 149)", "gpu:8 nvlink:switchx12@25GB", 8,
                     230},
           Published{"8x H100 SXM, rings (nccl-tests issue 212)", "gpu:8 nvlink:switchx18@25GB", 8,
                     370},
           Published{"2 of 8x A100 PCIe, NVLink bridge (nccl-tests issue 178)",
                     "gpu:2 nvlink:allx12@25GB pcie:4x16", 2, 208},
           Published{"2 hosts of 8x A100, 4x 200 Gbit/s (nccl-tests issue 100)",
                     "host:2 package:2 numa:2 gpu:8 nvlink:switchx12@25GB nic:4@200G pcie:4x16", 16,
                     91},
           Published{"2 hosts of 8x Hopper, 4x 400 Gbit/s (an archived thread)",
                     "host:2 package:2 numa:2 gpu:8 nvlink:switchx18@25GB nic:4@400G pcie:5x16", 16,
                     193},
       }) {
    const Machine machine = machine_of(of.text, of.ranks);
    const double rings = all_reduce_busbw(machine, kGiB, "ring");
    EXPECT_GT(rings, 0.75 * of.busbw) << of.machine;
    EXPECT_LT(rings, 1.25 * of.busbw) << of.machine;
    EXPECT_GE(all_reduce_busbw(machine, kGiB), 0.97 * rings) << of.machine;
  }
}

TEST(MachineNetwork, UsesAllLinksOfACubeMesh) {
  const std::filesystem::path file = std::filesystem::path(COLL_SOURCE_ROOT) /
                                     "../shared/topologies/smi/v100-x8-cubemesh-1nic.tsv";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
  const Machine machine = machine_of(file.string(), 8);
  EXPECT_EQ(machine.world.layout.rings.size(), 6U);
  // Six rings of one link each: 6 * 25 GB/s, and what they yield.
  EXPECT_NEAR(all_reduce_busbw(machine, kGiB),
              6 * costs().link.nvlink_gbytes_per_s * costs().link.nvlink_yield, 3);
}

TEST(MachineNetwork, TakesTheWayThatThePartsAllow) {
  const Machine bridged = machine_of("package:2 gpu:4 nvlink:pairsx4@25GB pcie:4x16", 4);
  const Network& network = *bridged.world.network;
  const auto names = [&](Rank source, Rank target) { return names_on(bridged, source, target); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(0, 1), (Names{"GPU0 to GPU1"}));
  EXPECT_EQ(names(1, 0), (Names{"GPU1 to GPU0"})) << "each direction is a link of its own";
  EXPECT_EQ(names(0, 2), (Names{"PCI of GPU0, up", "package 0 to package 1", "PCI of GPU2, down"}));
  const Route link = network.route(0, 1), bus = network.route(0, 2);
  EXPECT_LT(link.alpha_us, bus.alpha_us);
  const double rate = 1e-3 / network.links[link.links[0]].us_per_byte;
  EXPECT_NEAR(rate, 4 * 25 * costs().link.nvlink_yield, 1e-6);
}

TEST(MachineNetwork, RingsBetweenHostsUseANicEach) {
  struct Case {
    const char* text;
    Rank ranks;
    double gbytes_per_s;  ///< what all NICs, or what is narrower, move
  };
  for (const Case& of :
       {Case{"host:2 package:2 gpu:8 nvlink:switchx18@25GB nic:8@400G pcie:5x16 pciswitch:4", 16,
             400},
        Case{"host:2 package:2 gpu:8 nvlink:switchx18@25GB nic:8@400G pcie:5x16 pciswitch:2", 16,
             400},
        Case{"host:2 gpu:8 xgmi:all@64GB nic:8@400G pcie:5x16", 16, 400},
        Case{"host:3 package:2 gpu:4 nvlink:switchx12@25GB nic:4@200G pcie:4x16", 12, 100},
        // One GPU beside each NIC: rings leave by another NIC than they enter by.
        Case{"host:2 package:2 gpu:2 nvlink:switchx18@25GB nic:2@400G pcie:5x16", 4, 100},
        Case{"host:3 package:2 gpu:2 nvlink:switchx18@25GB nic:2@400G pcie:5x16", 6, 100},
        Case{"host:2 package:4 gpu:4 nvlink:all@25GB nic:4@200G pcie:4x16", 8, 100},
        // All traffic of two rings from one package to the other.
        Case{"host:2 package:2 gpu:4 nic:2@400G pcie:5x16", 8, kBetweenPackages},
        Case{"host:2 gpu:1 nic:2@100G pcie:5x16", 2, 25},
        Case{"host:2 gpu:2 nvlink:allx4@25GB nic:4@100G pcie:5x16", 4, 50},
        Case{"host:2 package:2 gpu:4 nvlink:switchx12@25GB nic:16@100G pcie:4x16 pciswitch:2", 8,
             4 * 31.5}}) {
    SCOPED_TRACE(of.text);
    const Machine machine = machine_of(of.text, of.ranks);
    // coll-info says the same.
    const auto rings = nic_rings(machine.topology, machine.placement.node);
    EXPECT_NEAR(rings_gbytes_per_s(machine.topology, rings), of.gbytes_per_s, 0.1);
    ASSERT_EQ(machine.placement.layout.rings.size(), rings.size());
    const double busbw = all_reduce_busbw(machine, kGiB, "ring");
    EXPECT_GT(busbw, 0.98 * costs().link.pcie_yield * of.gbytes_per_s);
    EXPECT_LE(busbw, 1.01 * of.gbytes_per_s);
    for (const RingHop& hop : machine.placement.ring_hops) {
      bool out = false, in = false;
      for (const std::string& name : names_on(machine, hop.from, hop.to)) {
        out = out || name.find(label(machine.topology, hop.out) + " of") != name.npos;
        in = in || name.find(label(machine.topology, hop.in) + " of") != name.npos;
      }
      EXPECT_TRUE(out && in) << hop.from << " to " << hop.to;
    }
  }
}

TEST(MachineNetwork, TakesUnknownPciFromNamesNeighboursAndNics) {
  const auto rate = [](const Topology& topology) {
    const Machine machine = machine_of(topology, 4);
    const Network& network = *machine.world.network;
    for (const std::uint32_t link : network.route(0, 2).links)
      if (network.links[link].name.starts_with("PCI of GPU0"))
        return 1e-3 / network.links[link].us_per_byte / costs().link.pcie_yield;
    return 0.0;
  };
  const auto silent = [](const char* text) {
    Topology topology = topology_of(text);
    for (Node& node : topology.nodes) node.pci = {};
    return topology;
  };
  const auto gpu0 = [](Topology& topology) -> Node& {
    return topology.nodes[static_cast<std::size_t>(topology.all(NodeKind::gpu)[0])];
  };
  EXPECT_NEAR(rate(silent("host:2 gpu:2 nic:2@100G")), costs().link.pcie_gbytes_per_s, 0.1);
  EXPECT_NEAR(rate(silent("host:2 gpu:2 nic:2@200G")), 31.5, 0.1) << "what the NICs need";
  EXPECT_NEAR(rate(silent("host:2 gpu:2 nic:2@400G")), 63, 0.1);
  for (const auto& [name, gbytes_per_s] : {std::pair{"NVIDIA H100 80GB HBM3", 63.0},
                                           {"NVIDIA GeForce RTX 5090", 63.0},
                                           {"NVIDIA GeForce RTX 4090", 31.5},
                                           {"NVIDIA GeForce RTX 3090", 31.5},
                                           {"NVIDIA A100-SXM4-40GB", 31.5},
                                           {"NVIDIA L40S", 31.5},
                                           {"Tesla T4", 15.75},
                                           {"Tesla V100-SXM2-16GB", 15.75},
                                           {"AMD Instinct MI300X", 63.0},
                                           {"AMD Instinct MI210", 31.5},
                                           {"an unknown one", costs().link.pcie_gbytes_per_s}}) {
    Topology topology = silent("host:2 gpu:2 nic:2@100G");
    gpu0(topology).model = name;
    EXPECT_NEAR(rate(topology), gbytes_per_s, 0.1) << name;
  }
  Topology by_capability = silent("host:2 gpu:2 nic:2@100G");
  gpu0(by_capability).info.emplace_back("sm", "90");
  EXPECT_NEAR(rate(by_capability), 63, 0.1);
  Topology beside = silent("host:2 gpu:2 nic:2@100G");
  beside.nodes[static_cast<std::size_t>(beside.all(NodeKind::gpu)[1])].pci.gbytes_per_s = 31.5;
  EXPECT_NEAR(rate(beside), 31.5, 0.1);
  EXPECT_NEAR(rate(topology_of("host:2 gpu:2 nic:2@400G pcie:3x8")),
              costs().link.pcie_gbytes_per_s / 2, 0.1)
      << "what is told holds";
}

TEST(MachineNetwork, LeavesAHostThroughTheNearestNic) {
  const Machine machine =
      machine_of("host:2 package:2 gpu:4 nvlink:switchx4@25GB nic:4@100G pcie:4x16", 8);
  const Network& network = *machine.world.network;
  bool out = false, in = false;
  for (const std::uint32_t link : network.route(1, 5).links) {
    out = out || network.links[link].name == "NIC1 of host 0, out";
    in = in || network.links[link].name == "NIC1 of host 1, in";
  }
  EXPECT_TRUE(out && in);
  const Route near = network.route(0, 1), far = network.route(0, 4);
  EXPECT_EQ(near.alpha_us, costs().gpu.link_alpha_us);
  EXPECT_EQ(far.alpha_us, costs().gpu.network_alpha_us);
}

TEST(MachineNetwork, HostsWithoutNicsHaveAUsualNetwork) {
  const Machine machine = machine_of("host:2 gpu:4 nvlink:switchx12@25GB", 8);
  EXPECT_LT(all_reduce_busbw(machine, kGiB, "ring"),
            1.01 * costs().link.nic_gbytes_per_s * costs().link.network_yield);
}

TEST(MachineNetwork, SeveralRanksOfAGpuShareItsLinks) {
  const double alone = all_reduce_busbw(machine_of("gpu:4 nvlink:switchx12@25GB", 4), kGiB, "ring");
  const Machine twice = machine_of("gpu:4 nvlink:switchx12@25GB", 8);
  EXPECT_EQ(twice.placement.node[0], twice.placement.node[1]);
  EXPECT_GT(all_reduce_busbw(twice, kGiB, "ring"), 0.5 * alone);
}

TEST(MachineNetwork, HierarchiesWinBetweenHosts) {
  const Machine machine =
      machine_of("host:4 package:2 numa:2 gpu:8 nvlink:switchx18@25GB nic:8@400G pcie:5x16", 32);
  const std::vector<Candidate> list =
      candidates(machine.world, {all_reduce, 32, 0}, size_class(256 << 20));
  EXPECT_TRUE(list.front().plan.algorithm->name.starts_with("hierarchical"))
      << list.front().plan.algorithm->name;
  for (const Candidate& of : list) EXPECT_FALSE(of.prediction.bottleneck.empty());
}

/// GPUs in `islands` groups, each with links among all its GPUs: like two cubes of four whose
/// bridge is gone, or the three GPUs of either socket of a POWER9.
Machine islands_of(const std::string& line, Rank gpus, Rank islands) {
  const Result<Topology> read = read_synthetic(line, "a line");
  EXPECT_TRUE(read.ok()) << read.status().text();
  Topology topology = *read;
  const std::vector<NodeId> all = topology.all(NodeKind::gpu);
  const auto island = [&](NodeId id) {
    const auto at = std::find(all.begin(), all.end(), id) - all.begin();
    return at * islands / gpus;
  };
  std::erase_if(topology.links,
                [&](const Link& link) { return island(link.from) != island(link.to); });
  return machine_of(topology, gpus);
}

/// The planner's choice, and how many times as long the best of all others takes.
std::pair<std::string_view, double> ahead_of_flat_ones(const Machine& machine,
                                                       Collective collective, double bytes) {
  const std::vector<Candidate> list =
      candidates(machine.world, {collective, machine.world.layout.ranks(), 0},
                 size_class(static_cast<std::uint64_t>(bytes)));
  double flat = std::numeric_limits<double>::infinity();
  for (const Candidate& of : list) {
    if (!of.plan.algorithm->name.starts_with("hierarchical"))
      flat = std::min(flat, of.prediction.us);
  }
  return {list.front().plan.algorithm->name, flat / list.front().prediction.us};
}

TEST(MachineNetwork, HierarchiesWinBetweenIslandsOfAHost) {
  struct Case {
    const char* line;
    Rank gpus;
    Collective collective;
    double ahead;
  };
  constexpr const char* kTriplets = "gpu:6 nvlink:allx3@25GB pcie:4x16";
  constexpr const char* kQuads = "gpu:8 nvlink:allx4@25GB pcie:4x16";
  for (const Case& of : {Case{kTriplets, 6, all_reduce, 2.8}, Case{kTriplets, 6, all_gather, 2.8},
                         Case{kTriplets, 6, reduce_scatter, 2.8}, Case{kQuads, 8, all_gather, 3.5},
                         Case{kQuads, 8, broadcast, 2.3}}) {
    const auto [chosen, ahead] =
        ahead_of_flat_ones(islands_of(of.line, of.gpus, 2), of.collective, kGiB / 4);
    EXPECT_TRUE(chosen.starts_with("hierarchical")) << of.line << ": " << chosen;
    EXPECT_GT(ahead, of.ahead) << of.line << ", " << name_of(of.collective);
  }
  // All in one island, or each by itself on one NUMA node: nothing to be gained.
  for (const char* line : {kQuads, "gpu:8 pcie:4x16"}) {
    const auto [chosen, ahead] = ahead_of_flat_ones(machine_of(line, 8), all_gather, kGiB / 4);
    EXPECT_FALSE(chosen.starts_with("hierarchical")) << line << ": " << chosen;
  }
  // Of a few KiB each message counts.
  EXPECT_FALSE(ahead_of_flat_ones(islands_of(kQuads, 8, 2), all_gather, 1024)
                   .first.starts_with("hierarchical"));
}

TEST(MachineNetwork, CoresTalkThroughMemory) {
  const Machine machine = machine_of("package:2 core:8", 32);
  EXPECT_TRUE(machine.world.network->threads);
  EXPECT_EQ(machine.world.view.ranks_per_core, 2);
  EXPECT_EQ(machine.world.network->route(0, 31).alpha_us, costs().memory.alpha_us);
}

}  // namespace
}  // namespace coll
