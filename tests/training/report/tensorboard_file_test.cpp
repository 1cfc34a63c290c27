// SPDX-License-Identifier: Apache-2.0
// Each run has a file of its own, in the order of their names, whose bytes are those of the format.
// What coll-train writes is read in coll_train_test.py.
#include "report/tensorboard_file.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "../failure_of.hpp"
#include "temporary_folder.hpp"

namespace training {
namespace tensorboard_file_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename());
  return names;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TensorboardFile, MakesTheFolderAndBeginsWithTheFormatsName) {
  const coll::test::TemporaryFolder folder;
  const std::string runs = folder.path() + "/runs/first";
  const TensorboardFile file(runs, {"run"}, 1);
  const auto names = names_in(runs);
  ASSERT_EQ(names.size(), 1U);
  EXPECT_THAT(*names.begin(), StartsWith("events.out.tfevents."));
  const std::string text = text_of(runs + "/" + *names.begin());
  ASSERT_GT(text.size(), 40U);
  // 24 bytes: a field of 8 and one of 13, each with its number, and a length. The CRC depends on
  // the length alone.
  EXPECT_EQ(text.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  EXPECT_EQ(text.substr(12, 1), "\x09") << "field 1, eight bytes: the time";
  EXPECT_EQ(text.substr(21, 15),
            "\x1a\x0d"
            "brain.Event:2");
}

TEST(TensorboardFile, AddsAFileThatComesAfterThoseOfEarlierRuns) {
  const coll::test::TemporaryFolder folder;
  std::set<std::string> before;
  for (std::size_t run = 1; run <= 3; ++run) {  // all in one second, or two
    TensorboardFile file(folder.path(), {"run"}, run);
    const std::string last = before.empty() ? "" : *before.rbegin();
    const std::string kept = last.empty() ? "" : text_of(folder.path() + "/" + last);
    StepRecord record;
    record.step = run;
    file.write(record);
    const auto names = names_in(folder.path());
    ASSERT_EQ(names.size(), run);
    if (!last.empty()) {
      EXPECT_EQ(text_of(folder.path() + "/" + last), kept) << "the earlier file stays";
    }
    EXPECT_FALSE(before.contains(*names.rbegin())) << "the new one is the last by name";
    before = names;
  }
}

TEST(TensorboardFile, AStepIsThereAtOnce) {
  const coll::test::TemporaryFolder folder;
  TensorboardFile file(folder.path(), {"run"}, 1);
  const std::string path = folder.path() + "/" + *names_in(folder.path()).begin();
  const std::size_t size = text_of(path).size();
  file.write({});
  EXPECT_THAT(text_of(path).substr(size), HasSubstr("grad_norm"));
}

TEST(TensorboardFile, SaysWhereItCannotWrite) {
  const coll::test::TemporaryFolder folder;
  const std::string file = folder.path() + "/file";
  std::ofstream(file) << "no folder";
  EXPECT_THAT(failure_of([&] { const TensorboardFile made(file + "/runs", {"run"}, 1); }),
              ::testing::AllOf(HasSubstr("cannot make"), HasSubstr(file + "/runs/events"),
                               HasSubstr("Not a directory")));
}

TEST(TensorboardFile, SaysWhenThereIsNoRoom) {
  const coll::test::TemporaryFolder folder;
  TensorboardFile file(folder.path(), {"run"}, 1);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit little{128, old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const std::string text = failure_of([&] { file.write({}); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(text, ::testing::AllOf(HasSubstr("cannot write to"), HasSubstr("too large")));
}

}  // namespace tensorboard_file_test
}  // namespace training
