// SPDX-License-Identifier: Apache-2.0
// The network of ranks that met with a GPU each: routes, measurements, plans.
#include "planner/networks/device_network.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "device_hosts.hpp"

namespace coll {
namespace {

using enum Collective;
using Names = std::vector<std::string>;

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
                                     ways_of(host_topology(host), numbers));
  set_device_network(world, ways, measured);
  return world;
}

World device_world(const std::string& host, Rank ranks, Rank hosts = 1) {
  return device_world(host, first_numbers(static_cast<std::size_t>(ranks)), hosts);
}

World fused_world(const std::string& host, const std::vector<std::size_t>& numbers) {
  World world = bare_world(1, static_cast<Rank>(numbers.size()));
  set_device_network(world, std::vector{ways_of(host_topology(host), numbers)}, {},
                     DeviceMoves::by_fused_kernels);
  return world;
}

Names names_on(const Network& network, Rank source, Rank target) {
  Names names;
  for (const std::uint32_t link : network.route(source, target).links)
    names.push_back(network.links[link].name);
  return names;
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
  DeviceWays half = ways_of(host_topology(kOnPci), {0, 1});
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

/// The same links, at the costs of a described machine's GPUs.
TEST(DeviceNetwork, FusedKernelsTakeTheSameWays) {
  struct Case {
    const char* host;
    std::vector<std::size_t> gpus;
    double alpha_us, long_us;
  };
  const GpuCost& gpu = usual_costs().gpu;
  for (const Case& one : {Case{kSwitched, {0, 5}, gpu.link_alpha_us, gpu.link_long_us},
                          Case{kOnPci, {0, 1}, gpu.pci_alpha_us, gpu.pci_long_us},
                          Case{kOnPci, {2, 2}, gpu.link_alpha_us, 0}}) {
    const World streams = device_world(one.host, one.gpus);
    const World kernels = fused_world(one.host, one.gpus);
    EXPECT_EQ(names_on(*kernels.network, 0, 1), names_on(*streams.network, 0, 1));
    const Route route = kernels.network->route(0, 1);
    EXPECT_EQ(route.alpha_us, one.alpha_us) << one.host;
    EXPECT_EQ(route.long_us, one.long_us) << one.host;
    EXPECT_EQ(route.send_us, 0);
    EXPECT_EQ(route.receive_us_per_byte, 0);
    EXPECT_EQ(route.inline_bytes, gpu.flagged_bytes);
    EXPECT_EQ(kernels.network->step_us, gpu.step_us);
    EXPECT_EQ(kernels.network->flagged_times, gpu.flagged_times);
    EXPECT_FALSE(kernels.network->threads || kernels.network->lanes_copy);
  }
}

TEST(DeviceNetwork, ShortCallsOfFusedKernelsTravelWithTheirFlags) {
  for (const Rank ranks : {2, 4, 8}) {
    const auto gpus = first_numbers(static_cast<std::size_t>(ranks));
    const World kernels = fused_world(kSwitched, gpus), streams = device_world(kSwitched, gpus);
    const Plan small = plan_of(kernels, all_reduce, 4096);
    EXPECT_LE(small.cost.rounds, std::ceil(std::log2(ranks))) << small.algorithm->name;
    EXPECT_LT(small.predicted_us, plan_of(streams, all_reduce, 4096).predicted_us / 3);
    const Plan large = plan_of(kernels, all_reduce, 256U << 20);
    EXPECT_LE(large.cost.moved(), 2) << large.algorithm->name;
    EXPECT_GT(large.slice_bytes, usual_costs().gpu.flagged_bytes);
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
  for (const std::uint64_t bytes : {4096U, 1U << 20, 64U << 20}) {
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
      for (const std::uint64_t bytes : {4U << 10, 1U << 20, 64U << 20}) {
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
    for (const std::uint64_t bytes : {16U << 20, 256U << 20}) {
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
      for (const std::uint64_t bytes : {1024U, 1U << 20, 64U << 20}) {
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
