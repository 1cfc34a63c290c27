// SPDX-License-Identifier: Apache-2.0
// What is found in matrices of real machines, as nvidia-smi printed them.
#include "real_machine.hpp"

namespace {

using namespace real_machines;  // NOLINT(google-build-using-namespace)

class SmiMachine : public Machine {};

TEST_P(SmiMachine, HasWhatTheFactsSay) {
  expect_count("gpu_count", topology.count(NodeKind::gpu));
  expect_count("nic_count", topology.count(NodeKind::nic));
  const auto gpus = topology.all(NodeKind::gpu);
  const auto set = [](const Json& text) {
    return coll::CpuSet::from_list(text.get<std::string>()).value_or(coll::CpuSet{});
  };
  for (std::size_t at = 0; at < gpus.size(); ++at) {
    const coll::Node& gpu = topology[gpus[at]];
    if (facts.contains("gpu_numa")) {
      EXPECT_EQ(gpu.numa, set(facts["gpu_numa"][at]).numbers()) << at;
    }
    EXPECT_EQ(gpu.cpus, set(facts["gpu_cpu_affinity"][at])) << at;
    if (facts.contains("gpu_memory_numa_id")) {
      EXPECT_EQ(gpu.info_of("own_numa"), set(facts["gpu_memory_numa_id"][at]).list());
    }
  }
}

TEST_P(SmiMachine, HasItsLinks) {
  const auto gpus = topology.all(NodeKind::gpu);
  const bool switched = facts.value("nvlink_kind", "") == "nvswitch";
  EXPECT_EQ(topology.count(NodeKind::link_switch), switched ? 1 : 0);
  std::vector<int> to_switch;
  for (const NodeId gpu : gpus) to_switch.push_back(links_of(gpu, true));
  if (switched) {
    EXPECT_EQ(distinct(to_switch), facts["nvswitch_links_per_gpu"]);
  }
  for (const Json& pair : facts.value("nvlink_pairs", Json::array()))
    EXPECT_EQ(link_path_between(topology, gpus.at(pair[0]), gpus.at(pair[1])).links,
              pair[2].get<int>());
  if (facts.contains("nvlink_uniform_all_to_all"))
    for (const NodeId a : gpus)
      for (const NodeId b : gpus)
        if (a != b) {
          EXPECT_EQ(link_path_between(topology, a, b).links,
                    facts["nvlink_uniform_all_to_all"].get<int>());
        }
  expect_islands("nvlink_islands", gpus);
}

TEST_P(SmiMachine, HasItsNearestNics) {
  if (!facts.contains("nearest_nics")) return;
  const auto gpus = topology.all(NodeKind::gpu), nics = topology.all(NodeKind::nic);
  for (std::size_t at = 0; at < gpus.size(); ++at) {
    const Json& fact = facts["nearest_nics"][at];
    if (fact.is_null()) continue;
    Distance nearest = Distance::unknown;
    for (const NodeId nic : nics)
      nearest = std::min(nearest, path_between(topology, gpus[at], nic).distance);
    std::set<std::string> found;
    for (const NodeId nic : nics)
      if (path_between(topology, gpus[at], nic).distance == nearest)
        found.insert(topology[nic].name);
    EXPECT_EQ(fact["class"], name_of(nearest)) << at;
    EXPECT_EQ(Json(found), Json(std::set<std::string>(fact["nics"].begin(), fact["nics"].end())))
        << at;
  }
}

TEST(RealMatrices, AreThere) {
  if (expectations().empty()) GTEST_SKIP() << "no descriptions of real machines in " << kFolder;
  EXPECT_FALSE(names("smi").empty());
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SmiMachine);
INSTANTIATE_TEST_SUITE_P(All, SmiMachine, testing::ValuesIn(names("smi")), test_name);

}  // namespace
