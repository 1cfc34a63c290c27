// SPDX-License-Identifier: Apache-2.0
// Ranks on GPUs of described hosts: their layout, their orders, and their results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "communicator/calls/unequal_call.hpp"
#include "exact_oracle.hpp"
#include "fake_hosts.hpp"
#include "rank_threads.hpp"
#include "schedule/chunk_map.hpp"
#include "sys/machine/numa_node.hpp"
#include "test_seed.hpp"
#include "topology/find_gpu.hpp"
#include "topology/machine_of.hpp"
#include "topology/rings/placement.hpp"

namespace coll::testing {
namespace {

/// Two packages with two GPUs and a NIC each, links within the pairs.
constexpr const char* kHost =
    "package:2 core:4 gpu:4 nvlink:pairs nic:2@200G pcie:5x16 pciswitch:1";
/// Before the first look at a knob.
const bool kDescribed = setenv("COLL_TOPOLOGY", kHost, 1) == 0;  // NOLINT: one thread

Topology described(int hosts) {
  return test::machine_of((hosts > 1 ? "host:" + std::to_string(hosts) + " " : "") + kHost);
}

RanksOptions on(const std::vector<int>& hosts, std::vector<std::string> devices) {
  RanksOptions options;
  options.choices = on_hosts(hosts);
  options.devices = std::move(devices);
  return options;
}

/// A joined communicator has the layout that a planner of the same machine has.
TEST(PlacedRanks, HaveTheLayoutOfTheDescribedMachine) {
  ASSERT_TRUE(kDescribed);
  for (const int hosts : {1, 2}) {
    SCOPED_TRACE(hosts);
    std::vector<int> of;
    std::vector<std::string> devices;
    for (int rank = 0; rank < 4 * hosts; ++rank) {
      of.push_back(rank / 4);
      devices.push_back(std::to_string(rank % 4));
    }
    const Result<Placement> placement = place_ranks(described(hosts), 4 * hosts);
    ASSERT_TRUE(placement.ok()) << placement.status().text();
    ASSERT_EQ(placement->layout.rings.size(), hosts == 1 ? 1U : 2U);
    run_ranks(4 * hosts, on(of, devices), [&](Communicator& comm) {
      const Layout& layout = comm.world().layout;
      EXPECT_EQ(layout, placement->layout);
      EXPECT_EQ(layout.island[2], 1);
      EXPECT_EQ(layout.rail[3], 1);
    });
  }
}

/// So that they may take what is near.
TEST(PlacedRanks, TellTheirTransportsWhereTheySit) {
  std::vector<TransportSpec> specs(2);
  RanksOptions options;
  options.devices = {"1", ""};
  options.choices = {{"shm", [&](const TransportSpec& spec) {
                        specs[static_cast<std::size_t>(spec.rank)] = spec;
                        return make_shm_transport(spec);
                      }}};
  run_ranks(2, options, [](Communicator&) {});
  const Topology& machine = *own_machine();
  EXPECT_EQ(specs[0].gpu, lasting_name(machine, machine.all(NodeKind::gpu)[1]));
  EXPECT_EQ(specs[1].gpu, "");
  cpu_set_t cpus;
  ASSERT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  for (const TransportSpec& spec : specs) EXPECT_EQ(spec.numa_node, numa_node_of(cpus));
}

TEST(PlacedRanks, OnCoresHaveRailsAndNoIslands) {
  const std::vector<int> of{0, 0, 0};
  run_ranks(3, on(of, {"", "", ""}), [](Communicator& comm) {
    const Layout& layout = comm.world().layout;
    EXPECT_EQ(layout.island, (std::vector<std::int32_t>{0, 0, 0}));
    EXPECT_EQ(layout.rail, layout.numa) << "each NUMA node has a NIC";
    EXPECT_EQ(layout.rings.size(), 1U);
  });
}

/// Ranks that share a GPU, or of which only some have one, have places but no paths.
TEST(PlacedRanks, WithoutGpusOfTheirOwnFollowOneRing) {
  for (const char* last : {"3", "0", ""}) {
    SCOPED_TRACE(last);
    run_ranks(4, on({0, 0, 1, 1}, {"0", "3", "0", last}), [&](Communicator& comm) {
      const Layout& layout = comm.world().layout;
      EXPECT_EQ(layout.rail[1], 1);
      EXPECT_EQ(layout.rings.size(), std::strcmp(last, "3") == 0 ? 2U : 1U);
    });
  }
}

/// One call by an algorithm, checked.
void run_call(Communicator& comm, Collective collective, Rank root, std::uint64_t count,
              std::uint64_t seed) {
  const Rank ranks = comm.size(), rank = comm.rank();
  const BlockShape shape = block_shape(collective, ranks, root, rank);
  std::vector<std::byte> input =
      make_input(DataType::float32, ReduceOp::sum, ranks, rank, count * shape.input, seed);
  const std::vector<std::byte> expected =
      expected_output(collective, DataType::float32, ReduceOp::sum, ranks, root, rank, count, seed);
  std::vector<std::byte> output(expected.size());
  Request request;
  request.call = {0, collective, DataType::float32, ReduceOp::sum, CallForm::usual, root, count};
  request.input = input.data();
  request.output = output.data();
  const Status status = comm.run(request);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(output, expected) << request.call.text() << " on rank " << rank;
}

/// all_gatherv or reduce_scatterv of int64, with some empty blocks and some of fewer elements than
/// there are rings.
void run_unequal_call(Communicator& comm, Collective collective, std::mt19937_64& drawn) {
  const bool gathers = collective == Collective::all_gather;
  std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()));
  for (std::size_t& count : counts) count = drawn() % 3 == 0 ? drawn() % 3 : drawn() % 5000;
  counts[drawn() % counts.size()] = 0;
  counts[drawn() % counts.size()] = 1;
  const auto own = static_cast<std::size_t>(comm.rank());
  std::vector<std::int64_t> expected, input;
  for (std::size_t block = 0; block < counts.size(); ++block) {
    for (std::size_t i = 0; i < counts[block]; ++i) {
      const auto value = static_cast<std::int64_t>(block * 10'007 + i);
      const std::int64_t ranks = comm.size();
      if (gathers) expected.push_back(value);
      if (!gathers && block == own) expected.push_back(ranks * value + ranks * (ranks - 1) / 2);
      if (gathers && block == own) input.push_back(value);
      if (!gathers) input.push_back(value + comm.rank());
    }
  }
  std::vector<std::int64_t> output(expected.size(), -1);
  UnequalCall given;
  given.call = {0, collective, DataType::int64, ReduceOp::sum, CallForm::unequal, 0, 0};
  given.send = input.data();
  given.recv = output.data();
  (gathers ? given.recv_counts : given.send_counts) = counts.data();
  const Result<UnequalRequest> request = unequal_request(given, comm.rank(), comm.size());
  ASSERT_TRUE(request.ok()) << request.status().text();
  const Status status = comm.run(request->request);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(output, expected) << request->request.call.text() << " on rank " << comm.rank();
}

/// Ranks in any order on hosts, on GPUs in any order, by each algorithm that follows orders.
TEST(PlacedRanks, GetRightResultsFromEveryAlgorithmThatFollowsOrders) {
  std::mt19937_64 random(test::test_seed());
  for (const char* name :
       {"ring", "chain", "double_binary_tree", "balanced_trees", "hierarchical_ring"}) {
    SCOPED_TRACE(name);
    std::vector<int> hosts{0, 0, 0, 1, 1, 1, 1};
    std::shuffle(hosts.begin(), hosts.end(), random);
    std::vector<std::vector<std::string>> gpus(2, {"0", "1", "2", "3"});
    for (auto& of_host : gpus) std::shuffle(of_host.begin(), of_host.end(), random);
    RanksOptions options = on(hosts, {});
    for (const int host : hosts) {
      auto& of_host = gpus[static_cast<std::size_t>(host)];
      options.devices.push_back(of_host.back());
      of_host.pop_back();
    }
    options.settings.algorithm = name;
    const std::uint64_t seed = random();
    run_ranks(7, options, [&](Communicator& comm) {
      std::mt19937_64 drawn(seed);  // alike on all ranks
      EXPECT_EQ(comm.world().layout.rings.size(), 2U);
      for (const Collective collective :
           {Collective::all_reduce, Collective::broadcast, Collective::reduce,
            Collective::all_gather, Collective::reduce_scatter}) {
        for (const std::uint64_t count : {std::uint64_t{1}, drawn() % 1000, drawn() % 100'000}) {
          const auto root = static_cast<Rank>(drawn() % 7);
          run_call(comm, collective, has_root(collective) ? root : 0, count, drawn());
          if (::testing::Test::HasFailure()) return;
        }
      }
      for (int round = 0; round < 4; ++round) {
        run_unequal_call(comm, round % 2 == 0 ? Collective::all_gather : Collective::reduce_scatter,
                         drawn);
      }
      const Call call{
          0, Collective::all_reduce, DataType::float32, ReduceOp::sum, CallForm::usual, 0, 1000};
      const Result<std::string> text = comm.explain_call(call);
      ASSERT_TRUE(text.ok()) << text.status().text();
      EXPECT_NE(text->find(std::string(": ") + name + ","), text->npos) << *text;
      EXPECT_NE(text->find("place of rank " + std::to_string(comm.rank())), text->npos) << *text;
      EXPECT_NE(text->find("\norders: "), text->npos) << *text;
    });
  }
}

}  // namespace
}  // namespace coll::testing
