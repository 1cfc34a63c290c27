// SPDX-License-Identifier: Apache-2.0
// Discovery on copies of /sys and /proc of other machines, which hwloc is pointed at
// (HWLOC_FSROOT), and on this one.
#include <unistd.h>

#include "real_machine.hpp"
#include "topology/read/discover.hpp"

namespace {

using namespace real_machines;  // NOLINT(google-build-using-namespace)

/// An environment variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { unsetenv(name_); }  // NOLINT(concurrency-mt-unsafe)

 private:
  const char* name_;
};

class SysfsMachine : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!coll::hwloc_export().ok()) GTEST_SKIP() << coll::hwloc_export().status().text();
    const Json& machine = expectations()[GetParam()];
    facts = machine["facts"];
    const fs::path archive = kFolder / machine["files"][0].get<std::string>();
    folder =
        fs::temp_directory_path() / ("coll-sysfs-" + GetParam() + "-" + std::to_string(getpid()));
    fs::create_directories(folder);
    const std::string unpack = "tar -xjf '" + archive.string() + "' -C '" + folder.string() + "'";
    ASSERT_EQ(std::system(unpack.c_str()), 0)
        << unpack;  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
    for (const auto& entry : fs::directory_iterator(folder)) root = entry.path();
  }
  void TearDown() override {
    std::error_code ignored;
    fs::permissions(folder, fs::perms::owner_all, fs::perm_options::add, ignored);
    fs::remove_all(folder, ignored);
  }

  void expect_facts(const coll::Topology& topology, const Json& expected) {
    ASSERT_TRUE(coll::check(topology).ok());
    const auto expect = [&](const char* fact, int count) {
      if (expected.contains(fact)) {
        EXPECT_EQ(expected[fact].get<int>(), count) << fact;
      }
    };
    int level3 = 0, level2 = 0, accelerators = 0;
    for (const coll::Node& node : topology.nodes) {
      level3 += node.kind == NodeKind::cache && node.level == 3 ? 1 : 0;
      level2 += node.kind == NodeKind::cache && node.level == 2 ? 1 : 0;
      accelerators += node.pci.class_code >> 8 == 0x03 ? 1 : 0;
    }
    expect("packages", topology.count(NodeKind::package));
    expect("numa_nodes", topology.count(NodeKind::numa));
    expect("cores", topology.count(NodeKind::core));
    expect("pus", topology.count(NodeKind::pu));
    expect("pus", topology.usable_pus());
    expect("groups", topology.count(NodeKind::group));
    expect("l2_caches", level2);
    expect("l3_caches", level3);
    expect("nic_count", topology.count(NodeKind::nic));
    expect("gpu_count", topology.count(NodeKind::gpu));
    expect("accelerator_count", accelerators);
    for (const char* list : {"accelerators", "nics"})
      for (const Json& fact : expected.value(list, Json::array()))
        EXPECT_TRUE(std::any_of(topology.nodes.begin(), topology.nodes.end(),
                                [&](const auto& node) { return node.pci.bus == fact["bus"]; }))
            << fact;
    for (const Json& bus : expected.value("display_only_vga", Json::array()))
      for (const coll::Node& node : topology.nodes)
        if (node.pci.bus == bus) {
          EXPECT_EQ(node.kind, NodeKind::pci_device) << bus;
        }
    for (const Json& fact : expected.value("numa", Json::array()))
      EXPECT_TRUE(std::any_of(topology.nodes.begin(), topology.nodes.end(), [&](const auto& node) {
        return node.kind == NodeKind::numa && node.index == fact["os"] &&
               node.cpus.count() == fact["cpus"] && node.bytes == fact["memory"];
      })) << fact;
    if (expected.contains("cpu_kinds")) {
      EXPECT_GE(topology.cpu_kinds.size(), expected["cpu_kinds"].size());
    }
  }

  Json facts;
  fs::path folder, root;
};

TEST_P(SysfsMachine, HasWhatTheFactsSay) {
  const Variable fsroot("HWLOC_FSROOT", root.string());
  const coll::Topology topology = coll::discover();
  EXPECT_NE(topology.source, "this machine");
  expect_facts(topology, facts);
  for (const Json& kept : facts.value("variants", Json::object())) {
    if (!kept.contains("gpu_memory_numa")) continue;
    const Variable keep("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1");
    const coll::Topology with_gpus = coll::discover();
    EXPECT_EQ(with_gpus.count(NodeKind::numa), kept["numa_nodes"].get<int>());
    EXPECT_EQ(with_gpus.count(NodeKind::pu), kept["pus"].get<int>());
  }
}

TEST(Discovery, FindsThisMachineAndNoMoreThanIsAllowed) {
  const coll::Topology topology = coll::discover();
  ASSERT_TRUE(coll::check(topology).ok());
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(topology.usable_pus(), CPU_COUNT(&set));
  EXPECT_GE(topology.count(NodeKind::pu), CPU_COUNT(&set));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SysfsMachine);
INSTANTIATE_TEST_SUITE_P(All, SysfsMachine, testing::ValuesIn(names("sysfs")), test_name);

}  // namespace
