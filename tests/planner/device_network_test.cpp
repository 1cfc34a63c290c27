// SPDX-License-Identifier: Apache-2.0
// The network of ranks that met with a GPU each: the ways of their hosts, routes, plans.
#include "planner/device_network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <set>

#include "planner/machine_network.hpp"
#include "topology/read/read_topology.hpp"
#include "worlds.hpp"

namespace coll {
namespace {

using enum Collective;
using Names = std::vector<std::string>;

constexpr const char* kSwitched =
    "package:2 gpu:8 nvlink:switchx18@25GB nic:8@400G pcie:5x16 pciswitch:4";
constexpr const char* kOnPci = "gpu:4 pcie:4x16";
constexpr const char* kBridged = "package:2 gpu:4 nvlink:pairsx4@25GB pcie:4x16";
constexpr const char* kMeshed = "gpu:8 xgmi:all@64GB pcie:5x16";

Topology topology_of(const std::string& what) {
  const Result<Topology> read = read_topology_file(what);
  EXPECT_TRUE(read.ok()) << read.status().text();
  return read.ok() ? *read : Topology{};
}

/// Of ranks on the GPUs of one host with these numbers.
DeviceWays ways_of(const Topology& topology, const std::vector<std::size_t>& numbers) {
  const std::vector<NodeId> gpus =
      topology.parts(topology.all(NodeKind::host).front(), NodeKind::gpu);
  std::vector<NodeId> of_rank;
  for (const std::size_t number : numbers) of_rank.push_back(gpus.at(number));
  return device_ways(topology, of_rank, usual_costs().link);
}

std::vector<std::size_t> first_numbers(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

World bare_world(Rank hosts, Rank of_host) {
  World world;
  std::vector<Place> places;
  for (Rank rank = 0; rank < hosts * of_host; ++rank)
    places.push_back({.host = rank / of_host, .numa = 0, .island = 0});
  world.layout = make_layout(places);
  world.slot_bytes = world.passing_bytes = 1 << 20;
  world.max_lanes = 2;
  if (hosts > 1) world.view.path = &CostConstants::network;
  return world;
}

/// Equal hosts, a rank on each of these GPUs.
World device_world(const std::string& host, const std::vector<std::size_t>& numbers, Rank hosts = 1,
                   const std::vector<DeviceCopyCosts>& measured = {}) {
  World world = bare_world(hosts, static_cast<Rank>(numbers.size()));
  const std::vector<DeviceWays> ways(static_cast<std::size_t>(hosts),
                                     ways_of(topology_of(host), numbers));
  set_device_network(world, ways, measured);
  return world;
}

World device_world(const std::string& host, Rank ranks, Rank hosts = 1) {
  return device_world(host, first_numbers(static_cast<std::size_t>(ranks)), hosts);
}

Names names_on(const Network& network, Rank source, Rank target) {
  Names names;
  for (const std::uint32_t link : network.route(source, target).links)
    names.push_back(network.links[link].name);
  return names;
}

double narrowest(const Network& network, const Route& route) {
  double rate = std::numeric_limits<double>::infinity();
  for (const std::uint32_t link : route.links)
    rate = std::min(rate, 1e-3 / network.links[link].us_per_byte);
  return rate;
}

/// What ranks publish of a host is what the same machine has when it is described.
void expect_described(const Topology& topology) {
  const std::vector<NodeId> gpus =
      topology.parts(topology.all(NodeKind::host).front(), NodeKind::gpu);
  const auto ranks = static_cast<Rank>(gpus.size());
  Placement placement;
  placement.layout = Layout::flat(ranks);
  placement.node = gpus;
  placement.nic.assign(gpus.size(), kNoNode);
  const Network described = machine_network(topology, placement, usual_costs());
  const DeviceWays ways = device_ways(topology, gpus, usual_costs().link);
  ASSERT_TRUE(ways.sensible() && ways.fits(gpus.size()));
  ASSERT_EQ(ways.gpu.size(), gpus.size());
  for (Rank source = 0; source < ranks; ++source) {
    for (Rank target = 0; target < ranks; ++target) {
      if (source == target) continue;
      const DeviceWay& way =
          ways.way(static_cast<std::size_t>(source), static_cast<std::size_t>(target));
      const Route route = described.route(source, target);
      ASSERT_EQ(way.size(), route.links.size());
      for (std::size_t i = 0; i < way.size(); ++i) {
        const Network::Link& link = described.links[route.links[i]];
        EXPECT_EQ(ways.links[way[i]].name, link.name);
        EXPECT_NEAR(ways.links[way[i]].gbytes_per_s * link.us_per_byte, 1e-3, 1e-9);
      }
      EXPECT_NEAR(ways.gbytes_per_s(way) / narrowest(described, route), 1, 1e-6);
    }
  }
}

TEST(DeviceWays, AreThoseOfTheDescribedMachine) {
  for (const char* text :
       {kSwitched, kOnPci, kBridged, kMeshed, "gpu:6 nvlink:allx3@25GB pcie:4x16",
        "host:2 package:2 gpu:4 nvlink:switchx4@25GB nic:4@100G pcie:4x16"}) {
    SCOPED_TRACE(text);
    expect_described(topology_of(text));
  }
}

TEST(DeviceWays, AreThoseOfRealMachines) {
  const std::filesystem::path folder =
      std::filesystem::path(COLL_SOURCE_ROOT) / "../shared/topologies";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  int machines = 0;
  for (const char* kind : {"hwloc", "nccl", "smi"}) {
    for (const auto& file : std::filesystem::directory_iterator(folder / kind)) {
      const Result<Topology> read = read_topology_file(file.path().string());
      if (!read.ok() || read->count(NodeKind::host) == 0 || read->count(NodeKind::gpu) < 2)
        continue;
      SCOPED_TRACE(file.path());
      expect_described(*read);
      ++machines;
    }
  }
  EXPECT_GT(machines, 20);
}

TEST(DeviceWays, CountEachGpuAndEachLinkOnce) {
  const DeviceWays ways = ways_of(topology_of(kSwitched), {3, 0, 3, 5});
  EXPECT_EQ(ways.gpu, (std::vector<std::int32_t>{0, 1, 0, 2}));
  EXPECT_EQ(ways.gpus, (Names{"GPU3", "GPU0", "GPU5"}));
  std::set<std::string> names;
  for (const DeviceLink& link : ways.links)
    EXPECT_TRUE(names.insert(link.name).second) << link.name;
  EXPECT_NEAR(ways.gbytes_per_s(ways.way(0, 1)), 18 * 25 * usual_costs().link.nvlink_yield, 1e-3);
  EXPECT_NEAR(ways.gbytes_per_s(ways.up[0]), 63 * usual_costs().link.pcie_yield, 0.1);
  EXPECT_NEAR(ways.gbytes_per_s(ways.down[2]), 63 * usual_costs().link.pcie_yield, 0.1);
}

TEST(DeviceWays, SayNothingOfRanksWithoutAGpu) {
  const Topology topology = topology_of(kOnPci);
  const std::vector<NodeId> gpus = topology.all(NodeKind::gpu);
  const LinkCost& link = usual_costs().link;
  EXPECT_EQ(device_ways(topology, std::vector{kNoNode, kNoNode}, link), DeviceWays{});
  const DeviceWays one = device_ways(topology, std::vector{kNoNode, gpus[1]}, link);
  EXPECT_EQ(one.gpu, (std::vector<std::int32_t>{-1, 0}));
  EXPECT_TRUE(one.sensible());
}

TEST(DeviceWays, PartsThatDoNotFitAreNotSensible) {
  const DeviceWays good = ways_of(topology_of(kBridged), {0, 1, 2, 2});
  ASSERT_TRUE(good.sensible() && good.fits(4));
  EXPECT_FALSE(good.fits(3));
  EXPECT_TRUE(DeviceWays{}.sensible() && DeviceWays{}.fits(7));
  std::vector<DeviceWays> bad(10, good);
  bad[0].gpu[1] = 3;
  bad[1].gpu[1] = -2;
  bad[2].gpus.pop_back();
  bad[3].links[0].gbytes_per_s = 0;
  bad[4].links[0].gbytes_per_s = std::numeric_limits<float>::infinity();
  bad[5].between.pop_back();
  bad[6].between[1].push_back(static_cast<std::uint16_t>(good.links.size()));
  bad[7].between[1].clear();
  bad[8].between[0] = {0};
  bad[9].up[0].clear();
  for (std::size_t i = 0; i < bad.size(); ++i) EXPECT_FALSE(bad[i].sensible()) << i;
}

TEST(DeviceNetwork, TakesTheWayThatThePartsAllow) {
  const World one = device_world(kOnPci, {2, 2});
  EXPECT_EQ(names_on(*one.network, 0, 1), (Names{"memory of GPU2"}));
  EXPECT_EQ(names_on(*one.network, 1, 0), (Names{"memory of GPU2"})) << "both ways share it";
  const World switched = device_world(kSwitched, 8);
  EXPECT_EQ(names_on(*switched.network, 0, 5), (Names{"links of GPU0, out", "links of GPU5, in"}));
  const World pci = device_world(kOnPci, 4);
  EXPECT_EQ(names_on(*pci.network, 1, 3), (Names{"PCI of GPU1, up", "PCI of GPU3, down"}));
  const World two = device_world(kOnPci, 2, 2);
  EXPECT_EQ(
      names_on(*two.network, 1, 2),
      (Names{"host 0: PCI of GPU1, up", "host 0: thread of rank 1, out", "host 0: network, out",
             "host 1: network, in", "host 1: thread of rank 2, in", "host 1: PCI of GPU0, down"}));
  for (const World* world : {&one, &switched, &pci, &two}) {
    EXPECT_FALSE(world->network->threads);
    EXPECT_TRUE(world->network->lanes_copy);
    EXPECT_FALSE(world->shared_memory || world->described());
    const Route route = world->network->route(0, 1);
    EXPECT_EQ(route.inline_bytes, 0) << "nothing travels with its flags";
    EXPECT_EQ(route.alpha_us, usual_costs().gpu.stream_alpha_us);
  }
}

TEST(DeviceNetwork, WhatNobodyKnowsIsAssumed) {
  World world = bare_world(2, 2);
  DeviceWays half = ways_of(topology_of(kOnPci), {0, 1});
  half.gpu[1] = -1;
  set_device_network(world, std::vector{DeviceWays{}, half}, {});
  const LinkCost& link = usual_costs().link;
  for (const Rank first : {0, 2}) {
    const Route route = world.network->route(first, first + 1);
    EXPECT_EQ(route.links.size(), 2U);
    EXPECT_NEAR(narrowest(*world.network, route), link.pcie_gbytes_per_s * link.pcie_yield, 1e-3);
  }
}

TEST(DeviceNetwork, RoutesAreSymmetric) {
  for (const char* text : {kSwitched, kOnPci, kBridged, kMeshed}) {
    const World world = device_world(text, 4, 2);
    const Network& network = *world.network;
    for (Rank a = 0; a < 8; ++a) {
      for (Rank b = 0; b < a; ++b) {
        const Route there = network.route(a, b), back = network.route(b, a);
        EXPECT_EQ(there.alpha_us, back.alpha_us);
        EXPECT_EQ(there.receive_us_per_byte, back.receive_us_per_byte);
        EXPECT_EQ(there.links.size(), back.links.size());
        EXPECT_EQ(narrowest(network, there), narrowest(network, back)) << text;
      }
    }
  }
}

TEST(DeviceNetwork, TakesWhatWasMeasured) {
  // Two ranks share a GPU, and one was disturbed; rank 2 measured nothing.
  const std::vector<DeviceCopyCosts> measured{{.within_gbytes_per_s = 1500,
                                               .to_host_gbytes_per_s = 50,
                                               .from_host_gbytes_per_s = 40,
                                               .start_us = 2},
                                              {.within_gbytes_per_s = 900,
                                               .to_host_gbytes_per_s = 20,
                                               .from_host_gbytes_per_s = 55,
                                               .start_us = 2.5},
                                              {}};
  const World world = device_world(kOnPci, {0, 0, 1}, 1, measured);
  const Network &plain = *world.network, &now = *world.measured_network;
  const double usual = usual_costs().link.within_gpu_gbytes_per_s;
  EXPECT_NEAR(narrowest(plain, plain.route(0, 1)), usual / 2, 1e-6) << "in and out";
  EXPECT_NEAR(narrowest(now, now.route(0, 1)), 750, 1e-6);
  EXPECT_NEAR(now.copy_us_per_byte, 1e-3 / usual, 1e-9) << "the slowest GPU, as far as it is known";
  EXPECT_EQ(plain.step_us, usual_costs().gpu.copy_start_us);
  EXPECT_EQ(now.step_us, 2.5);
  const auto rate = [&](Rank source, Rank target, std::size_t link) {
    return 1e-3 / now.links[now.route(source, target).links[link]].us_per_byte;
  };
  EXPECT_NEAR(rate(0, 2, 0), 50, 1e-6);
  EXPECT_NEAR(rate(2, 1, 1), 55, 1e-6);
  EXPECT_NEAR(rate(0, 2, 1), 31.5 * usual_costs().link.pcie_yield, 0.01);
}

/// The bits of a sum do not depend on a measurement; copies may.
TEST(DeviceNetwork, PlansOfSumsKnowNothingOfMeasurements) {
  const World plain = device_world(kOnPci, {0, 0, 1, 1});
  const std::vector<DeviceCopyCosts> slow(4, {.within_gbytes_per_s = 5,
                                              .to_host_gbytes_per_s = 0.5,
                                              .from_host_gbytes_per_s = 0.5,
                                              .start_us = 100});
  const World measured = device_world(kOnPci, {0, 0, 1, 1}, 1, slow);
  for (const std::uint64_t bytes : {4096, 1 << 20, 64 << 20}) {
    const Plan sum = plan_of(measured, all_reduce, bytes);
    EXPECT_EQ(sum.digest(), plan_of(plain, all_reduce, bytes).digest());
    EXPECT_EQ(sum.predicted_us, plan_of(plain, all_reduce, bytes).predicted_us);
    const auto most = static_cast<double>(bytes);
    EXPECT_GT(expect(measured, sum, most).us, 5 * sum.predicted_us) << "what it will take";
    EXPECT_GT(plan_of(measured, all_gather, bytes).predicted_us,
              5 * plan_of(plain, all_gather, bytes).predicted_us);
  }
}

/// A call in its plan's algorithm and cut, as the model predicts it on another network.
double predicted_on(World world, const Network& network, const Plan& plan, std::uint64_t bytes) {
  world.network = std::make_shared<const Network>(network);
  return predict(world, world.costs(), plan, static_cast<double>(bytes)).us;
}

TEST(DeviceNetwork, FasterLinksMakeNoCallSlower) {
  for (const char* text : {kSwitched, kOnPci, kBridged, kMeshed}) {
    for (const Rank hosts : {1, 2}) {
      const World world = device_world(text, 4, hosts);
      for (const std::uint64_t bytes : {4 << 10, 1 << 20, 64 << 20}) {
        const Plan plan = plan_of(world, all_reduce, bytes);
        double before = predicted_on(world, *world.network, plan, bytes);
        // All of them: one alone only has messages reach the others in another order.
        for (const double times : {1.1, 1.5, 2.0, 8.0}) {
          Network faster = *world.network;
          for (Network::Link& link : faster.links) link.us_per_byte /= times;
          const double us = predicted_on(world, faster, plan, bytes);
          EXPECT_LT(us, before) << text << ", " << bytes << ", " << times;
          before = us;
        }
      }
    }
  }
}

struct Shape {
  const char* host;
  std::vector<std::size_t> gpus;
  Rank hosts;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{kOnPci, {0, 0}, 1},
                                      {kSwitched, first_numbers(8), 1},
                                      {kOnPci, first_numbers(4), 1},
                                      {kOnPci, first_numbers(4), 2}};
  return all;
}

TEST(DeviceNetwork, ShortCallsTakeFewStepsAndLongOnesFewBytes) {
  for (const Shape& shape : shapes()) {
    World world = device_world(shape.host, shape.gpus, shape.hosts);
    const Rank ranks = world.layout.ranks();
    SCOPED_TRACE(std::string(shape.host) + ", ranks: " + std::to_string(ranks));
    const Plan small = plan_of(world, all_reduce, 1024);
    EXPECT_LE(small.cost.rounds, std::ceil(std::log2(ranks))) << small.algorithm->name;
    EXPECT_EQ(small.lanes, 1U);
    for (const std::uint64_t bytes : {16 << 20, 256 << 20}) {
      const Plan large = plan_of(world, all_reduce, bytes);
      EXPECT_LE(large.cost.moved(), 2) << large.algorithm->name;
      EXPECT_EQ(large.lanes, 2U) << "one lane copies while the other waits";
      EXPECT_EQ(large.slice_bytes, world.slot_bytes);
      World with_ring = world;
      with_ring.algorithm = "ring";
      EXPECT_LE(large.predicted_us,
                world.costs().error.alike * plan_of(with_ring, all_reduce, bytes).predicted_us);
    }
  }
  // Where links are the limit, no algorithm beats a ring's bytes.
  EXPECT_EQ(plan_of(device_world(kSwitched, 8), all_reduce, 16 << 20).algorithm->name, "ring");
  EXPECT_EQ(plan_of(device_world(kOnPci, 4), all_reduce, 16 << 20).algorithm->name, "ring");
  EXPECT_TRUE(plan_of(device_world(kOnPci, 4, 2), all_reduce, 256 << 20)
                  .algorithm->name.starts_with("hierarchical"))
      << "one network for the ranks of a host";
}

/// Each rank makes its own world of what was published; more ranks than are simulated, too.
TEST(DeviceNetwork, AllRanksPlanAlike) {
  const std::vector<DeviceCopyCosts> measured(64, {.within_gbytes_per_s = 1500,
                                                   .to_host_gbytes_per_s = 50,
                                                   .from_host_gbytes_per_s = 51,
                                                   .start_us = 2});
  std::vector<Shape> all = shapes();
  all.push_back({kSwitched, std::vector<std::size_t>(64, 1), 1});
  for (const Shape& shape : all) {
    const World one = device_world(shape.host, shape.gpus, shape.hosts, measured);
    const World other = device_world(shape.host, shape.gpus, shape.hosts, measured);
    for (const Collective collective : {all_reduce, all_gather, broadcast, all_to_all}) {
      for (const std::uint64_t bytes : {1024, 1 << 20, 64 << 20}) {
        const Plan plan = plan_of(one, collective, bytes);
        EXPECT_EQ(plan.digest(), plan_of(other, collective, bytes).digest());
        EXPECT_EQ(plan.predicted_us, plan_of(other, collective, bytes).predicted_us);
        EXPECT_EQ(plan.loans, Loans::none);
        EXPECT_TRUE(plan.predicted_us > 0 && plan.predicted_us < 1e6) << plan.predicted_us;
      }
    }
  }
}

/// What the host's way takes beside its plan and two copies over PCI: a host function, a thread
/// that takes the call over, and the starts of the copies. An estimate.
constexpr double kTakenOverUs = 25;

/// From device_least_bytes on, streams are not predicted to lose against the host.
TEST(DeviceNetwork, StreamsPayFromTheLeastBytesOn) {
  const auto least = static_cast<std::uint64_t>(usual_costs().gpu.device_least_bytes);
  const double pci = 31.5 * usual_costs().link.pcie_yield;
  bool close = false;
  for (const Shape& shape : shapes()) {
    const World world = device_world(shape.host, shape.gpus, shape.hosts);
    World host = bare_world(shape.hosts, static_cast<Rank>(shape.gpus.size()));
    host.slot_bytes = World{}.slot_bytes;
    host.passing_bytes = World{}.passing_bytes;
    host.max_lanes = World{}.max_lanes;
    host.shared_memory = shape.hosts == 1;
    for (std::uint64_t bytes = least / 4; bytes <= 64 * least; bytes *= 2) {
      const double by_host = kTakenOverUs + 2 * static_cast<double>(bytes) * 1e-3 / pci +
                             plan_of(host, all_reduce, bytes).predicted_us;
      const double by_streams = plan_of(world, all_reduce, bytes).predicted_us;
      if (bytes < least) close = close || by_streams > by_host;
      if (bytes < least) continue;
      EXPECT_LT(by_streams, 1.1 * by_host) << bytes << " " << shape.host;
    }
  }
  EXPECT_TRUE(close) << "in some world shorter calls do lose";
}

}  // namespace
}  // namespace coll
