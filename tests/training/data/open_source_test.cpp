// SPDX-License-Identifier: Apache-2.0
// Sources by name: what is not there is refused, with what to do.
#include "data/open_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "micro_batches.hpp"
#include "temporary_folder.hpp"
#include "test_seed.hpp"

namespace training {
namespace open_source_test {

using testing::HasSubstr;

const Draw kDraw{.seed = 5, .sequences = 2, .tokens = 8};

std::string refusal(const std::string& description, const Draw& draw = kDraw) {
  return failure_of([&] { open_source(description, draw); });
}

TEST(OpenSource, RefusesNamesThatItDoesNotKnow) {
  for (const std::string description : {"", "bibel", "text", "bible:x", "verses:x", "Markov"})
    EXPECT_THAT(refusal(description), HasSubstr("it is not known. There are bible, verses"));
  EXPECT_THAT(refusal("text:"), HasSubstr("nothing follows the colon"));
  for (const std::string states : {"1", "0", "257", "-3", "4x", "x", "99999999999999999999"})
    EXPECT_THAT(refusal("markov:" + states), HasSubstr("from 2 to 256 states")) << states;
  EXPECT_EQ(open_source("markov:256", kDraw)->shape().kinds, 256U);
}

TEST(OpenSource, RefusesMicroBatchesOfNoneOrTooMany) {
  for (const Draw& draw : {Draw{1, 0, 8}, Draw{1, 8, 0}, Draw{1, 1U << 20U, 1U << 12U}})
    EXPECT_THAT(refusal("markov", draw), HasSubstr("cannot be"));
}

TEST(OpenSource, ReadsAFile) {
  const coll::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/a:b.txt";
  std::ofstream(path) << std::string(150, 'a') + std::string(150, 'b') + "\n"
                      << std::string(20, 'c');
  const auto source = open_source("text:" + path, kDraw);
  EXPECT_EQ(source->shape().kinds, 4U);
  EXPECT_THAT(source->describe(), HasSubstr("321 characters of 4 kinds, the last 33"));
}

TEST(OpenSource, KeepsItsPromisesForAFile) {
  const coll::test::TemporaryFolder folder;
  std::ofstream file(folder.path() + "/text");
  for (int i = 0; i < 5000; ++i) file << i << ' ';
  file.close();
  expect_promises("text:" + folder.path() + "/text",
                  {.seed = coll::test::test_seed(), .sequences = 4, .tokens = 64}, 11);
}

TEST(OpenSource, RefusesFilesThatHaveNoText) {
  const coll::test::TemporaryFolder folder;
  std::ofstream(folder.path() + "/empty") << "";
  EXPECT_THAT(refusal("text:" + folder.path() + "/empty"), HasSubstr("is empty"));
  EXPECT_THAT(refusal("text:" + folder.path() + "/none"), HasSubstr("No such file"));
  EXPECT_THAT(refusal("text:" + folder.path()), HasSubstr("Is a directory"));
}

/// A folder that is all of PATH, maybe with a `bible` that says something else.
class OwnPath {
 public:
  OwnPath() : path_(std::getenv("PATH")) { setenv("PATH", folder_.path().c_str(), 1); }
  ~OwnPath() { setenv("PATH", path_.c_str(), 1); }
  OwnPath(const OwnPath&) = delete;
  OwnPath& operator=(const OwnPath&) = delete;
  void put_bible(const std::string& script) const {
    const std::string program = folder_.path() + "/bible";
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    EXPECT_EQ(chmod(program.c_str(), 0755), 0);
  }

 private:
  coll::test::TemporaryFolder folder_;
  std::string path_;
};

TEST(OpenSource, SaysWhatToInstallWhereThereIsNoBible) {
  const OwnPath path;
  for (const char* description : {"bible", "verses"}) {
    EXPECT_THAT(refusal(description), HasSubstr("the program `bible` is not installed"));
    EXPECT_THAT(refusal(description), HasSubstr("apt-get install bible-kjv bible-kjv-text"));
  }
}

TEST(OpenSource, RefusesABibleThatIsAnother) {
  const OwnPath path;
  path.put_bible("exit 3");
  EXPECT_THAT(refusal("bible"), HasSubstr("failed with status 0x300"));
  path.put_bible("echo 'Ge1:1 In the beginning'");
  EXPECT_THAT(refusal("bible"), HasSubstr("gave 1 verses instead of 31102"));
  for (const char* line :
       {"In the beginning", "Genesis: the beginning", ":1 In", "Ge1:1", "", "Ge1: In", "Ge:1 x"}) {
    path.put_bible("echo '" + std::string(line) + "'");
    EXPECT_THAT(refusal("verses"), HasSubstr("a line without a verse's reference")) << line;
  }
}

}  // namespace open_source_test
}  // namespace training
