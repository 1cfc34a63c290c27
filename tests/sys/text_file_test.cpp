// SPDX-License-Identifier: Apache-2.0
// Short files and what stands in them, and the folders that they are in.
#include "sys/text_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <new>
#include <vector>

#include "failing_allocations.hpp"
#include "sys/fd.hpp"
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

TEST_F(TextFile, IsReplacedWholeOrNotAtAll) {
  const std::string folder = folder_.path() + "/new/folder", path = folder + "/file";
  EXPECT_EQ(replace_file(path, "one").failure()->error, ENOENT);
  ASSERT_TRUE(make_folder(folder).ok());
  ASSERT_TRUE(make_folder(folder).ok()) << "it is there already";
  EXPECT_TRUE(make_folder(std::filesystem::path("file").parent_path()).ok()) << "the current one";
  ASSERT_TRUE(replace_file(path, "one", 0640).ok());
  EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms::others_all,
            std::filesystem::perms::none);
  const Fd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string longer(100000, 'y');
  ASSERT_TRUE(replace_file(path, longer).ok());
  EXPECT_EQ(*read_file(path), longer);
  char old[8] = {};
  EXPECT_EQ(::read(reader.get(), old, sizeof old), 3) << "who has it open reads on in the old one";
  EXPECT_STREQ(old, "one");
  EXPECT_EQ(replace_file(path + "/file", "two").failure()->error, ENOTDIR);
  EXPECT_EQ(make_folder(path + "/folder").failure()->error, ENOTDIR);
  EXPECT_EQ(replace_file(folder_.path() + "/new", "two").failure()->error, EISDIR);
  EXPECT_EQ(entries_of(folder).size(), 1U) << "nothing half-made is left";
  EXPECT_EQ(entries_of(folder_.path()).size(), 1U);
}

TEST(CacheFolder, IsWhereCachesBelong) {
  const auto folder = [](std::map<std::string, const char*> variables) {
    return cache_folder([=](const char* name) -> const char* {
      return variables.contains(name) ? variables.at(name) : nullptr;
    });
  };
  EXPECT_EQ(folder({{"XDG_CACHE_HOME", "/c"}, {"HOME", "/h"}}), "/c/collectives");
  EXPECT_EQ(folder({{"XDG_CACHE_HOME", ""}, {"HOME", "/h"}}), "/h/.cache/collectives");
  EXPECT_EQ(folder({{"XDG_CACHE_HOME", "here"}}), "");
  EXPECT_EQ(folder({}), "");
}

}  // namespace
}  // namespace coll
