// SPDX-License-Identifier: Apache-2.0
// The caches of a core.
#include "sys/machine/core_caches.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_folder.hpp"

namespace coll {
namespace {

class CoreCachesTest : public ::testing::Test {
 protected:
  void add(const std::string& index, const std::string& level, const std::string& type,
           const std::string& size, const std::string& sharing, int cpu = 0) const {
    const std::filesystem::path folder =
        root_ + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/" + index;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "level") << level << '\n';
    std::ofstream(folder / "type") << type << '\n';
    std::ofstream(folder / "size") << size << '\n';
    std::ofstream(folder / "shared_cpu_list") << sharing << '\n';
  }
  const test::TemporaryFolder temporary_;
  const std::string& root_ = temporary_.path();
};

TEST_F(CoreCachesTest, AreReadLevelByLevel) {
  EXPECT_EQ(core_caches(root_), CoreCaches{});
  add("index0", "1", "Data", "48K", "0");
  add("index1", "1", "Instruction", "32K", "0");
  add("index2", "2", "Unified", "1024K", "0");
  EXPECT_EQ(core_caches(root_), (CoreCaches{.own = 1 << 20}));
  add("index3", "3", "Unified", "32M", "0-3,8-11");
  EXPECT_EQ(core_caches(root_), (CoreCaches{.own = 1 << 20, .shared = 32 << 20, .shared_by = 8}));
  add("index4", "2", "Instruction", "7K", "0");
  EXPECT_EQ(core_caches(root_).own, 1U << 20);
  add("index3", "3", "Unified", "?", "");
  EXPECT_EQ(core_caches(root_), (CoreCaches{.own = 1 << 20}));
}

TEST_F(CoreCachesTest, AreThoseThatOneCoreReaches) {
  constexpr int kSlices = 8;
  for (int slice = 0; slice < kSlices; ++slice) {
    const std::string sharing = std::to_string(2 * slice) + "-" + std::to_string(2 * slice + 1);
    for (const int cpu : {2 * slice, 2 * slice + 1})
      add("index3", "3", "Unified", "32768K", sharing, cpu);
  }
  EXPECT_EQ(core_caches(root_), (CoreCaches{.shared = 32 << 20, .shared_by = 2}));
}

}  // namespace
}  // namespace coll
