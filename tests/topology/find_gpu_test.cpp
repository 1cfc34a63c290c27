// SPDX-License-Identifier: Apache-2.0
// GPUs as programs name them.
#include "topology/find_gpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "topology/read/read_topology.hpp"

namespace coll {
namespace {

/// Four GPUs; all but the last have a bus number and a UUID.
Topology host() {
  Topology topology = *read_synthetic("gpu:4", "test");
  const std::vector<NodeId> gpus = topology.all(NodeKind::gpu);
  for (std::size_t i = 0; i < 3; ++i) {
    Node& gpu = topology.nodes[static_cast<std::size_t>(gpus[i])];
    gpu.pci.bus = "0000:" + std::to_string(i) + "f:00.0";
    gpu.info.emplace_back(kUuidInfo, "GPU-" + std::to_string(i / 2) + "a" + std::to_string(i));
  }
  return topology;
}

/// Its place among the GPUs, or what is wrong.
std::string found(std::string_view name, const std::optional<std::string_view>& visible = {}) {
  const Topology topology = host();
  const Result<NodeId> gpu = find_gpu(topology, 0, name, visible);
  if (!gpu.ok()) return gpu.status().text();
  const std::vector<NodeId> gpus = topology.all(NodeKind::gpu);
  return std::to_string(std::ranges::find(gpus, *gpu) - gpus.begin());
}

TEST(FindGpu, FindsByBusNumberHoweverItIsWritten) {
  for (const char* name : {"0000:1f:00.0", "00000000:1F:00.0", "0000:1F:0.0"}) {
    EXPECT_EQ(found(name), "1") << name;
    EXPECT_EQ(found(name, "3"), "1") << "bus numbers name all GPUs";
    EXPECT_EQ(found(name, ""), "1") << name;
  }
}

TEST(FindGpu, FindsByUuidOrItsBeginningIfThatIsOfOneOnly) {
  EXPECT_EQ(found("GPU-0a1"), "1");
  EXPECT_EQ(found("GPU-0a1", "3"), "1") << "UUIDs name all GPUs";
  EXPECT_EQ(found("GPU-1"), "2");
  for (const char* none : {"GPU-", "GPU-0", "GPU-2", "GPU-0a11"})
    EXPECT_NE(found(none).find("no UUID, or several, begin so"), std::string::npos) << none;
}

TEST(FindGpu, CountsVisibleOnesThatAreNamedByUuid) {
  EXPECT_EQ(found("0", "GPU-1a2,GPU-0a0"), "2");
  EXPECT_EQ(found("1", "GPU-1a2, GPU-0a0"), "0");
  EXPECT_EQ(found("1", "GPU-1a2,3"), "3");
  for (const char* unknown : {"GPU-0", "GPU-2", "MIG-0a1"})
    EXPECT_NE(found("0", unknown).find("give its bus number"), std::string::npos) << unknown;
}

TEST(FindGpu, CountsTheVisibleOnes) {
  EXPECT_EQ(found("2"), "2");
  EXPECT_EQ(found("1", "3,0"), "0");
  EXPECT_EQ(found("0", " 3 , 0 "), "3");
  EXPECT_NE(found("2", "3,0").find("CUDA_VISIBLE_DEVICES=3,0"), std::string::npos);
  EXPECT_NE(found("0", "").find("CUDA_VISIBLE_DEVICES= hides all GPUs"), std::string::npos);
  EXPECT_NE(found("4").find("GPUs 0 at 0000:0f:00.0, 1 at"), std::string::npos) << found("4");
}

TEST(FindGpu, FindsEachByItsLastingName) {
  const Topology topology = host();
  for (const NodeId gpu : topology.all(NodeKind::gpu)) {
    EXPECT_EQ(*find_gpu(topology, 0, lasting_name(topology, gpu)), gpu);
  }
  EXPECT_EQ(lasting_name(topology, topology.all(NodeKind::gpu)[3]), "3");
}

}  // namespace
}  // namespace coll
