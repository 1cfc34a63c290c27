// SPDX-License-Identifier: Apache-2.0
// Numbers and names as text, and files that are replaced as a whole.
#include "report/writing/report_text.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "memory/failure.hpp"
#include "report/writing/replace_file.hpp"
#include "temporary_folder.hpp"

namespace training {
namespace report_text_test {

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(ReportText, WritesNumbers) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(1234), "1234");
  EXPECT_EQ(short_number(12345), "12.3k");
  EXPECT_EQ(short_number(999'600), "1.00M");
  EXPECT_EQ(short_number(-2.5e9), "-2.50G");
  EXPECT_EQ(short_number(0.0123456), "0.0123");
  EXPECT_EQ(short_number(3.14159), "3.14");
  EXPECT_EQ(short_number(9.996), "10.0");
  EXPECT_EQ(short_number(2e-7), "2.00e-07");
  EXPECT_EQ(short_number(std::numeric_limits<double>::infinity()), "-");
}

TEST(ReportText, WritesBytesTimesAndShares) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(1048575), "1.00 MiB");
  EXPECT_EQ(duration_text(0), "0 us");
  EXPECT_EQ(duration_text(0.0123), "12.3 ms");
  EXPECT_EQ(duration_text(4.5), "4.50 s");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(7500), "2 h 5 min");
  EXPECT_EQ(duration_text(200'000), "2 d 7 h");
  EXPECT_EQ(duration_text(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(percent_text(0.1234), "12.3 %");
}

TEST(ReportText, CleansAndEscapesNames) {
  EXPECT_EQ(xml_escaped("a<b & \"c\" 'd'>"), "a&lt;b &amp; &quot;c&quot; &#39;d&#39;&gt;");
  EXPECT_EQ(clean(std::string("a\0b\x1b\x7f", 5)), "ab");
  EXPECT_EQ(clean("caf\xc3\xa9 \xff!"), "caf\xc3\xa9 \xef\xbf\xbd!");
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("caf\xc3\xa9s", 4), "caf…");
}

TEST(ReplaceFile, LeavesTheNewTextAndNothingElse) {
  const coll::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  replace_file(path, "one\n");
  replace_file(path, "two\n");
  EXPECT_EQ(read(path), "two\n");
  using Files = std::filesystem::directory_iterator;
  EXPECT_EQ(std::distance(Files(folder.path()), Files()), 1);
}

TEST(ReplaceFile, GivesReadersTheOldTextOrTheNew) {
  const coll::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  replace_file(path, "the old text");
  std::ifstream reader(path);
  struct stat before {
  }, after{};
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  replace_file(path, "new");
  ASSERT_EQ(stat(path.c_str(), &after), 0);
  EXPECT_NE(before.st_ino, after.st_ino) << "it wrote into the file that readers have open";
  std::string text;
  std::getline(reader, text);
  EXPECT_EQ(text, "the old text");
}

TEST(ReplaceFile, FailsWithAReasonAndKeepsTheOldFile) {
  const coll::test::TemporaryFolder folder;
  try {
    replace_file(folder.path() + "/absent/file", "text");
    FAIL() << "there is no such folder";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("absent/file"), std::string::npos);
    EXPECT_NE(std::string(failure.what()).find("No such file"), std::string::npos);
  }
  // A full disk.
  const std::string path = folder.path() + "/file";
  replace_file(path, "old");
  ASSERT_EQ(symlink("/dev/full", (path + ".tmp").c_str()), 0);
  EXPECT_THROW(replace_file(path, "new"), Failure);
  EXPECT_EQ(read(path), "old");
}

}  // namespace report_text_test
}  // namespace training
