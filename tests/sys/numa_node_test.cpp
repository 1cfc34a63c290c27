// SPDX-License-Identifier: Apache-2.0
// The NUMA node of a set of processors.
#include "sys/machine/numa_node.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "temporary_folder.hpp"

namespace coll {
namespace {

cpu_set_t set_of(std::initializer_list<std::size_t> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const std::size_t cpu : cpus) CPU_SET(cpu, &set);
  return set;
}

class NumaNode : public testing::Test {
 protected:
  void add(const std::string& node, const std::string& cpus) const {
    const std::filesystem::path folder = root_ + "/sys/devices/system/node/" + node;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "cpulist") << cpus << '\n';
  }
  const test::TemporaryFolder temporary_;
  const std::string& root_ = temporary_.path();
};

TEST_F(NumaNode, IsTheOneThatAllProcessorsBelongTo) {
  add("node0", "0-3,8-11");
  add("node2", "4-7,12");
  add("node3", "");  // memory without processors
  add("nodes", "0");
  EXPECT_EQ(numa_node_of(set_of({0}), root_), 0);
  EXPECT_EQ(numa_node_of(set_of({3, 11}), root_), 0);
  EXPECT_EQ(numa_node_of(set_of({12}), root_), 2);
  EXPECT_EQ(numa_node_of(set_of({3, 4}), root_), -1);
  EXPECT_EQ(numa_node_of(set_of({100}), root_), -1);
}

TEST_F(NumaNode, IsUnknownWhereNobodySays) {
  EXPECT_EQ(numa_node_of(set_of({0}), root_), -1);
  add("node0", "x-");
  EXPECT_EQ(numa_node_of(set_of({0}), root_), -1);
}

}  // namespace
}  // namespace coll
