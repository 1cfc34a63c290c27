// SPDX-License-Identifier: Apache-2.0
// GPUs, names and links as they are found through a libnvidia-ml.so.1. Each machine is looked at in
// a process of its own: the library reads the environment once.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>

#include "communicator/membership/own_place.hpp"
#include "emulation/cuda/cuda_abi.hpp"
#include "topology/find_gpu.hpp"
#include "topology/read/discover.hpp"
#include "topology/topology_path.hpp"

namespace {

using namespace coll;  // NOLINT(google-build-using-namespace)

using Environment = std::map<std::string, std::string>;

/// Runs the check in a process with this environment; its failures are printed with the test's.
template <class Check>
void on_machine(const Environment& environment, const Check& check) {
  const auto run = [&] {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    check();
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

/// What NVML alone knows: neither hwloc nor sysfs sees a GPU, as in some containers.
Topology found() {
  DiscoverySources sources;
  sources.hwloc = [] { return Result<HwlocExport>(failed(Code::unsupported, "no hwloc here")); };
  sources.root = "/nonexistent";
  Topology topology = discover(sources);
  EXPECT_TRUE(check(topology).ok());
  return topology;
}

bool warned_of(const Topology& topology, std::string_view words) {
  return std::ranges::any_of(topology.warnings, [&](const std::string& warning) {
    return warning.find(words) != std::string::npos;
  });
}

std::string bus_named(const Topology& topology, std::string_view name,
                      const std::optional<std::string_view>& visible = {}) {
  const Result<NodeId> gpu = find_gpu(topology, 0, name, visible);
  return gpu.ok() ? topology[*gpu].pci.bus : gpu.status().text();
}

constexpr const char* kUuid = "00112233445566778899aabbccddee00";

TEST(EmulatedNvml, ListsGpusThatNobodyElseKnows) {
  on_machine({{"EMUCUDA_DEVICES", "2"}, {"EMUCUDA_PCI_BUS", "26"}, {"EMUCUDA_NAME", "A GPU"}}, [] {
    const Topology topology = found();
    const auto gpus = topology.all(NodeKind::gpu);
    ASSERT_EQ(gpus.size(), 2U);
    EXPECT_EQ(topology[gpus[0]].pci.bus, "0000:1a:00.0");
    EXPECT_EQ(topology[gpus[1]].pci.bus, "0000:1b:00.0");
    EXPECT_EQ(topology[gpus[1]].model, "A GPU");
    EXPECT_EQ(topology[gpus[1]].index, 1);
    EXPECT_EQ(topology.above(gpus[1], NodeKind::host), 0);
    EXPECT_TRUE(warned_of(topology, "0000:1b:00.0"));
    EXPECT_TRUE(topology.links.empty());
    EXPECT_EQ(topology.count(NodeKind::link_switch), 0);
    EXPECT_FALSE(warned_of(topology, "reach each other"));
  });
}

TEST(EmulatedNvml, FindsGpusByTheirUuids) {
  on_machine({{"EMUCUDA_DEVICES", "2"}, {"EMUCUDA_UUID", kUuid}}, [] {
    const Topology topology = found();
    EXPECT_EQ(bus_named(topology, "GPU-00112233-4455-6677-8899-aabbccddee00"), "0000:17:00.0");
    EXPECT_EQ(bus_named(topology, "GPU-00112233-4455-6677-8899-aabbccddee01"), "0000:18:00.0");
    EXPECT_EQ(bus_named(topology, "0", "GPU-00112233-4455-6677-8899-aabbccddee01"), "0000:18:00.0");
    EXPECT_NE(bus_named(topology, "GPU-00112233").find("or several"), std::string::npos);
  });
}

TEST(EmulatedNvml, ARankOnAGpuWithAUuidSaysItsBusNumber) {
  on_machine({{"EMUCUDA_DEVICES", "2"}, {"EMUCUDA_UUID", kUuid}}, [] {
    for (const NamedDevice& named :
         {NamedDevice{"GPU-00112233-4455-6677-8899-aabbccddee01", {}},
          NamedDevice{"0", "GPU-00112233-4455-6677-8899-aabbccddee01"}}) {
      const Result<OwnPlace> place = own_place(named);
      ASSERT_TRUE(place.ok()) << place.status().text();
      EXPECT_EQ(place->device, "0000:18:00.0");
    }
  });
}

TEST(EmulatedNvml, KnowsTheGpusOfTheCudaDriver) {
  on_machine({{"EMUCUDA_DEVICES", "3"}, {"EMUCUDA_UUID", kUuid}, {"EMUCUDA_PCI_BUS", "200"}}, [] {
    void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
    ASSERT_NE(cuda, nullptr) << dlerror();
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(cuda, "cuInit"));
    const auto uuid_of =
        reinterpret_cast<int (*)(emucuda::CUuuid*, int)>(dlsym(cuda, "cuDeviceGetUuid_v2"));
    const auto bus_of =
        reinterpret_cast<int (*)(char*, int, int)>(dlsym(cuda, "cuDeviceGetPCIBusId"));
    ASSERT_EQ(init(0), 0);
    const Topology topology = found();
    const auto gpus = topology.all(NodeKind::gpu);
    ASSERT_EQ(gpus.size(), 3U);
    for (int device = 0; device < 3; ++device) {
      std::array<char, 32> bus{};
      ASSERT_EQ(bus_of(bus.data(), bus.size(), device), 0);
      const Result<NodeId> gpu = find_gpu(topology, 0, bus.data());
      ASSERT_TRUE(gpu.ok()) << gpu.status().text();
      EXPECT_EQ(*gpu, gpus[static_cast<std::size_t>(device)]);
      emucuda::CUuuid uuid{};
      ASSERT_EQ(uuid_of(&uuid, device), 0);
      std::string digits;
      for (const char byte : uuid.bytes) {
        std::array<char, 3> two{};
        std::snprintf(two.data(), two.size(), "%02x", static_cast<unsigned char>(byte));
        digits += two.data();
      }
      std::string told(topology[*gpu].info_of(kUuidInfo));
      std::erase(told, '-');
      EXPECT_EQ(told, "GPU" + digits);
    }
  });
}

TEST(EmulatedNvml, FindsLinksBetweenGpus) {
  // The newer question and the older one.
  for (const char* compute : {"9.0", "8.0"}) {
    on_machine({{"EMUCUDA_DEVICES", "2"}, {"EMUCUDA_COMPUTE", compute}, {"EMUNVML_LINKS", "gpu:4"}},
               [] {
                 const Topology topology = found();
                 const auto gpus = topology.all(NodeKind::gpu);
                 ASSERT_EQ(gpus.size(), 2U);
                 const Path path = path_between(topology, gpus[0], gpus[1]);
                 EXPECT_EQ(path.distance, Distance::link);
                 EXPECT_EQ(path.links, 4);
                 EXPECT_DOUBLE_EQ(path.gbytes_per_s, 4 * 25);
                 EXPECT_EQ(topology.count(NodeKind::link_switch), 0);
               });
  }
}

TEST(EmulatedNvml, LeavesOutLinksThatAreDown) {
  for (const char* compute : {"9.0", "8.0"}) {
    on_machine({{"EMUCUDA_DEVICES", "2"},
                {"EMUCUDA_COMPUTE", compute},
                {"EMUNVML_LINKS", "gpu:4"},
                {"EMUNVML_DOWN", "1"}},
               [] {
                 const Topology topology = found();
                 const auto gpus = topology.all(NodeKind::gpu);
                 ASSERT_EQ(gpus.size(), 2U);
                 EXPECT_EQ(path_between(topology, gpus[0], gpus[1]).links, 3);
               });
  }
}

TEST(EmulatedNvml, FindsLinksThroughSwitches) {
  // Also if neither the kind nor the bus of the switches is told.
  for (const char* links : {"switch:18", "hidden:18"}) {
    on_machine({{"EMUCUDA_DEVICES", "8"}, {"EMUCUDA_COMPUTE", "9.0"}, {"EMUNVML_LINKS", links}},
               [] {
                 const Topology topology = found();
                 const auto gpus = topology.all(NodeKind::gpu);
                 ASSERT_EQ(gpus.size(), 8U);
                 EXPECT_EQ(topology.count(NodeKind::link_switch), 1);
                 for (std::size_t a = 0; a < gpus.size(); ++a)
                   for (std::size_t b = 0; b < gpus.size(); ++b) {
                     if (a == b) continue;
                     const Path path = path_between(topology, gpus[a], gpus[b]);
                     EXPECT_EQ(path.distance, Distance::link) << a << " to " << b;
                     EXPECT_EQ(path.links, 18);
                     EXPECT_DOUBLE_EQ(path.gbytes_per_s, 18 * 25);
                   }
                 EXPECT_FALSE(warned_of(topology, "NVLink"));
               });
  }
}

TEST(EmulatedNvml, SaysWhichGpusDoNotReachEachOther) {
  on_machine({{"EMUCUDA_DEVICES", "3"}, {"EMUCUDA_PEERS", "0"}},
             [] { EXPECT_TRUE(warned_of(found(), ": GPU0-GPU1, GPU0-GPU2, GPU1-GPU2")); });
}

TEST(OldNvml, LinksAndGpusAreFoundWithWhatThereIs) {
  for (const char* links : {"gpu:6", "hidden:6"}) {
    on_machine({{"EMUCUDA_DEVICES", "2"},
                {"EMUCUDA_COMPUTE", "7.0"},
                {"EMUCUDA_PEERS", "0"},
                {"EMUNVML_LINKS", links}},
               [] {
                 const Topology topology = found();
                 const auto gpus = topology.all(NodeKind::gpu);
                 ASSERT_EQ(gpus.size(), 2U);
                 EXPECT_EQ(path_between(topology, gpus[0], gpus[1]).links, 6);
                 EXPECT_EQ(bus_named(topology, "1"), "0000:18:00.0");
                 EXPECT_TRUE(topology[gpus[0]].info_of(kUuidInfo).empty());
                 EXPECT_FALSE(bus_named(topology, "GPU-").starts_with("0000"));
                 EXPECT_FALSE(warned_of(topology, "reach each other"));
               });
  }
}

TEST(OldNvml, LinksThatItCannotTellOfAreLeftOut) {
  on_machine({{"EMUCUDA_DEVICES", "2"}, {"EMUCUDA_COMPUTE", "9.0"}, {"EMUNVML_LINKS", "gpu:6"}},
             [] {
               const Topology topology = found();
               EXPECT_EQ(topology.count(NodeKind::gpu), 2);
               EXPECT_TRUE(topology.links.empty());
             });
}

}  // namespace
