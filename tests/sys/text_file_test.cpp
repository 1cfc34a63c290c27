// SPDX-License-Identifier: Apache-2.0
// Short files and what stands in them.
#include "sys/text_file.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <new>
#include <vector>

#include "failing_allocations.hpp"
#include "sys/folder.hpp"
#include "sys/machine/cpu_list.hpp"
#include "temporary_folder.hpp"

namespace coll {
namespace {

using test::FailingAllocations;

class TextFile : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() + "/" + name, std::ios::binary) << text;
    return folder_.path() + "/" + name;
  }
  test::TemporaryFolder folder_;
};

TEST_F(TextFile, IsReadWholeWhateverItsLength) {
  for (const std::size_t length : {0U, 1U, 4095U, 4096U, 4097U, 100000U}) {
    std::string text(length, 'x');
    if (length > 0) text.back() = '\n';
    const auto read = read_file(write("file", text));
    ASSERT_TRUE(read.ok()) << read.status().text();
    EXPECT_EQ(*read, text) << length;
  }
}

TEST_F(TextFile, IsRefusedWhereItIsTooLongMissingOrAFolder) {
  const std::string path = write("file", std::string(1001, 'x'));
  EXPECT_TRUE(read_file(path, 1001).ok());
  EXPECT_EQ(read_file(path, 1000).status().code(), Code::invalid_argument);
  EXPECT_EQ(read_file(path + "-").status().failure()->error, ENOENT);
  EXPECT_EQ(read_file(folder_.path()).status().failure()->error, EISDIR);
  EXPECT_EQ(first_line_of(path + "-"), "");
}

TEST_F(TextFile, HasLinesAndWords) {
  EXPECT_EQ(first_line_of(write("file", "one two\nthree")), "one two");
  std::string_view rest = "a\n\nb";
  EXPECT_EQ(take_line(rest), "a");
  EXPECT_EQ(take_line(rest), "");
  EXPECT_EQ(take_line(rest), "b");
  EXPECT_EQ(rest, "");
  rest = " \tone  two\n";
  EXPECT_EQ(take_word(rest), "one");
  EXPECT_EQ(take_word(rest), "two");
  EXPECT_EQ(take_word(rest), "");
}

TEST_F(TextFile, NeverIsShorterBecauseMemoryRanOut) {
  NEEDS_FAILING_ALLOCATIONS();
  const std::string path = write("file", std::string(10000, 'x'));
  write("other", "y");
  long which = 0;
  for (bool fired = true; fired;) {
    FailingAllocations::arm(++which, FailingAllocations::Mode::one);
    std::size_t length = 0, entries = 0;
    bool thrown = false;
    try {
      length = read_file(path)->size();
      entries = entries_of(folder_.path()).size();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    fired = FailingAllocations::disarm();
    EXPECT_EQ(thrown, fired) << which;
    if (!thrown) {
      EXPECT_EQ(length, 10000U);
      EXPECT_EQ(entries, 2U);
    }
  }
  EXPECT_GT(which, 3);
}

TEST(CpuList, IsReadUpToWhereItMakesSense) {
  const auto cpus_of = [](const char* text) {
    const cpu_set_t set = read_cpu_list(text);
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
    }
    return cpus;
  };
  EXPECT_EQ(cpus_of("0-3,8"), (std::vector{0, 1, 2, 3, 8}));
  EXPECT_EQ(cpus_of("5"), (std::vector{5}));
  EXPECT_EQ(cpus_of(""), std::vector<int>());
  EXPECT_EQ(cpus_of("2,x,3"), (std::vector{2}));
  EXPECT_EQ(cpus_of("4-"), std::vector<int>());
  EXPECT_EQ(cpus_of("3-1,2"), (std::vector{2}));
  EXPECT_EQ(cpus_of("1022-99999999").size(), 2U);
  EXPECT_EQ(cpus_of("-5,1"), (std::vector{1}));
}

TEST(CpuList, IsReadWholeOrNotAtAll) {
  for (const char* text : {"0-3,8", "5", "1,1", "1022-99999999"}) {
    const auto whole = read_whole_cpu_list(text);
    const cpu_set_t set = read_cpu_list(text);
    EXPECT_TRUE(whole && CPU_EQUAL(&*whole, &set)) << text;
  }
  for (const char* text : {"", "0, 2", " 0", "0 ", "0-3;8", "4,x", "0-", "0,", "0,,1", "3-1,2",
                           "-5,1", "0-1-2", "99999999999"}) {
    EXPECT_FALSE(read_whole_cpu_list(text)) << text;
  }
}

}  // namespace
}  // namespace coll
