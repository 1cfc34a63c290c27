// SPDX-License-Identifier: Apache-2.0
// How a failure travels and what it says.
#include "base/status.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>

namespace coll {
namespace {

TEST(Status, DefaultIsSuccess) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::ok);
  EXPECT_EQ(status.rank(), kNoRank);
  EXPECT_EQ(status.text(), "ok");
  EXPECT_TRUE(status.in_call({"all_reduce #1", 1, Collective::all_reduce}).ok());
  EXPECT_TRUE(status.at_rank(2).ok());
  EXPECT_TRUE(status.with_context("connecting").ok());
}

TEST(Status, TextHasCodeWhatErrnoCallHintAndPlace) {
  const std::string text = failed(Code::peer_lost, "rank 3 (pid 812) closed its connection",
                                  "look at its log", ECONNRESET)
                               .in_call({"all_reduce #41 f32x4096 sum", 41, Collective::all_reduce})
                               .text();
  for (const char* part :
       {"peer lost: rank 3 (pid 812) closed its connection", "Connection reset", "errno 104",
        "[in all_reduce #41 f32x4096 sum]", "; look at its log", "status_test.cpp:"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " missing in: " << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(text.find('/'), std::string::npos) << "the place is a file's name, not its path";
}

TEST(Status, TheFirstCallAndRankThatAreNamedStay) {
  const Status status = failed(Code::deadline, "late")
                            .in_call({"first", 1})
                            .in_call({"second", 2})
                            .at_rank(1)
                            .at_rank(2);
  EXPECT_EQ(status.failure()->call.text, "first");
  EXPECT_EQ(status.failure()->call.sequence, 1);
  EXPECT_EQ(status.rank(), 1);
}

TEST(Status, ContextComesBeforeWhatFailedOutermostFirst) {
  const Status status =
      failed(Code::unreachable, "connect").with_context("rank 3").with_context("meeting");
  EXPECT_EQ(status.failure()->what, "meeting: rank 3: connect");
}

TEST(Status, ChangingACopyLeavesTheOriginal) {
  const Status status = failed(Code::internal, "what");
  EXPECT_EQ(status.with_context("more").failure()->what, "more: what");
  EXPECT_EQ(status.failure()->what, "what");
}

TEST(Status, SystemFailuresTellShortageFromError) {
  for (const int error : {EMFILE, ENFILE, ENOMEM, ENOSPC, ENOBUFS, EAGAIN})
    EXPECT_EQ(system_failure("x", error).code(), Code::out_of_resources) << error;
  for (const int error : {ECONNREFUSED, EACCES, EINVAL})
    EXPECT_EQ(system_failure("x", error).code(), Code::system) << error;
  EXPECT_NE(system_failure("socket", EMFILE).text().find("ulimit -n"), std::string::npos);
  EXPECT_NE(system_failure("socket", ENFILE).text().find("fs.file-max"), std::string::npos);
  EXPECT_EQ(system_failure("socket", EMFILE, "mine").failure()->hint, "mine");
}

TEST(Status, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int code = 0; code <= COLL_INTERNAL; ++code)
    EXPECT_TRUE(names.insert(name_of(static_cast<Code>(code))).second) << code;
  EXPECT_FALSE(names.contains("unknown status"));
}

Result<std::unique_ptr<int>> make(bool good) {
  if (!good) return failed(Code::system, "no");
  return std::make_unique<int>(7);
}
Result<int> use(bool good) {
  COLL_ASSIGN(const std::unique_ptr<int> value, make(good));
  COLL_TRY(Status{});
  return *value;
}

TEST(Result, HasAValueOrAFailureThatTravelsThroughTheMacros) {
  ASSERT_TRUE(use(true).ok());
  EXPECT_EQ(*use(true), 7);
  EXPECT_FALSE(use(false).ok());
  EXPECT_EQ(use(false).status().failure()->what, "no");
}

Result<int> neither() {
  return Status{};
}

TEST(ResultDeathTest, ASuccessWithoutAValueIsADefect) {
  EXPECT_DEATH((void)neither(), "broken invariant at .*status.hpp.*needs a failure");
}

}  // namespace
}  // namespace coll
