// SPDX-License-Identifier: Apache-2.0
// Tuning tables on disk: found, refused, replaced.
#include "planner/tuning_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sys/machine/machine_signature.hpp"
#include "temporary_folder.hpp"

namespace coll {
namespace {

class TuningFile : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(folder_ + path).parent_path());
    std::ofstream(folder_ + path) << text;
  }
  /// Writes a table of `machine` with a point of `bytes` bytes.
  std::string table(const std::string& topology, const std::string& machine,
                    std::uint64_t bytes) const {
    const std::string path = tuning_path(folder_, topology);
    const TuningPoint point{Collective::broadcast, bytes, {}, "2026", {{{"chain"}, 1, 0}}};
    const Status written = write_tuning_file(path, {topology, machine, "0.1.0", {point}, {}});
    EXPECT_TRUE(written.ok()) << written.text();
    return path;
  }
  [[nodiscard]] FoundTuning find(const std::string& knob) const {
    return find_tuning(knob, folder_, [] { return std::string("here"); });
  }
  /// The lines that a warning or worse left on standard error.
  std::string told(const std::string& knob) const {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(find(knob).file.empty());
    return testing::internal::GetCapturedStderr();
  }
  const test::TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
};

TEST_F(TuningFile, TheTablesOfThisMachineAreFoundAndMerged) {
  EXPECT_TRUE(find("auto").file.empty());
  const std::string first = table("1", "here", 8), second = table("2", "here", 64);
  table("3", "elsewhere", 512);
  put("/other.json", "{}");
  const FoundTuning found = find("auto");
  EXPECT_EQ(found.file, first + ", " + second);
  ASSERT_EQ(found.table.points.size(), 2U);
  EXPECT_EQ(found.table.points[1].bytes, 64U);
  EXPECT_TRUE(find("none").file.empty());
  EXPECT_EQ(find(second).file, second);
}

TEST_F(TuningFile, ABrokenOneIsWarnedOfAndLeftOut) {
  const std::string good = table("1", "here", 8);
  const std::string broken = table("2", "here", 64);
  put("/tuning-2.json", "{\"tuning_version\": 1, \"points\": [{}]}");
  testing::internal::CaptureStderr();
  EXPECT_EQ(find("auto").file, good);
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find(broken), std::string::npos) << warning;
  EXPECT_NE(told(broken).find(broken), std::string::npos);
  EXPECT_NE(told(folder_ + "/absent.json").find("absent.json"), std::string::npos);
  EXPECT_NE(told(folder_).find(folder_), std::string::npos);  // a folder
}

TEST_F(TuningFile, AModelThatMakesNoSenseIsWarnedOfAndLeftOutOfItsTable) {
  const std::string path = table("1", "here", 8);
  TuningTable fitted = find(path).table;
  fitted.model = *default_cost_model();
  EXPECT_TRUE(write_tuning_file(path, fitted).ok());
  EXPECT_EQ(find(path).table.model, *default_cost_model());
  const auto told_of_model = [&] {
    testing::internal::CaptureStderr();
    const FoundTuning found = find(path);
    EXPECT_EQ(found.file, path);
    EXPECT_EQ(found.table.points.size(), 1U);
    EXPECT_FALSE(found.table.model);
    return testing::internal::GetCapturedStderr();
  };
  fitted.model->constants.memory.alpha_us = -1;
  EXPECT_TRUE(write_tuning_file(path, fitted).ok());
  EXPECT_NE(told_of_model().find(path + ": its model has memory.alpha_us -1"), std::string::npos);
  // As an older library may have written it.
  std::string text = to_json(fitted);
  text.replace(text.find("\"alpha_us\""), 10, "\"latency_us\"");
  put("/tuning-1.json", text);
  EXPECT_NE(told_of_model().find(path + ": its model has no memory.alpha_us"), std::string::npos);
}

TEST_F(TuningFile, OneOfAnotherMachineIsLeftOutWithoutAWarning) {
  EXPECT_EQ(told(table("1", "elsewhere", 8)), "");
  EXPECT_FALSE(find(table("2", "", 8)).file.empty());  // by hand, for any machine
}

TEST_F(TuningFile, AFailureToWriteSaysWhyAndLeavesNothing) {
  put("/file", "");
  const Status status = write_tuning_file(folder_ + "/file/table.json", {});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.text().find("/file/table.json"), std::string::npos) << status.text();
  table("1", "here", 8);
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++entries;
  EXPECT_EQ(entries, 2);
}

TEST_F(TuningFile, MachinesOfAnotherBuildHaveAnotherSignature) {
  EXPECT_EQ(machine_signature(folder_), "");
  put("/proc/cpuinfo",
      "processor\t: 0\nmodel name\t: Fast One\nmodel\t\t: 7\nflags\t:\n\nmodel\t: 9\n");
  put("/sys/devices/system/cpu/present", "0-7\n");
  put("/sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n");
  put("/sys/devices/system/cpu/cpu0/cache/index3/size", "8M\n");
  for (const char* device : {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"}) {
    const std::string folder = std::string("/sys/bus/pci/devices/") + device;
    put(folder + "/class", std::string(device) == "0000:03:00.0" ? "0x060400\n" : "0x030200\n");
    put(folder + "/vendor", "0x10de\n");
    put(folder + "/device", "0x2330\n");
  }
  EXPECT_EQ(machine_signature(folder_), "Fast One 7, PUs 0-7, caches 32K 8M, 2x 10de:2330");
  EXPECT_EQ(machine_signature(), machine_signature());
}

}  // namespace
}  // namespace coll
