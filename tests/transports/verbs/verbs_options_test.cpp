// SPDX-License-Identifier: Apache-2.0
// The knob COLL_VERBS, descriptors, and their refusals.
#include "transports/verbs/verbs_options.hpp"

#include <gmock/gmock.h>

#include "transports/verbs/verbs_descriptor.hpp"

namespace coll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(VerbsOptions, EveryKeyIsTaken) {
  const auto options =
      VerbsOptions::parse("gid=3,sl=5,tc=106,pkey=1,timeout=18,retries=6,pairs=4,patience=60");
  ASSERT_TRUE(options.ok()) << options.status().text();
  EXPECT_EQ(options->gid, 3);
  EXPECT_EQ(options->service_level, 5);
  EXPECT_EQ(options->traffic_class, 106);
  EXPECT_EQ(options->partition, 1);
  EXPECT_EQ(options->timeout, 18);
  EXPECT_EQ(options->retries, 6);
  EXPECT_EQ(options->pairs, 4);
  EXPECT_EQ(options->patience_s, 60U);
}

TEST(VerbsOptions, NothingIsTheDefault) {
  const auto options = VerbsOptions::parse("");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->gid, -1);
  EXPECT_EQ(options->pairs, 1);
}

TEST(VerbsOptions, WhatIsNotUnderstoodIsRefusedByName) {
  for (const char* text :
       {"gid=-1", "gid=x", "sl=16", "tc=256", "timeout=0", "timeout=32", "retries=8", "pairs=0",
        "pairs=5", "patience=0", "timeout", "timeout=", "timeout=1 ", "speed=1", "=1", ","}) {
    const auto options = VerbsOptions::parse(text);
    ASSERT_FALSE(options.ok()) << text;
    EXPECT_EQ(options.status().code(), Code::invalid_argument);
    EXPECT_THAT(options.status().text(), HasSubstr("COLL_VERBS"));
  }
}

VerbsDescriptor described(const std::vector<std::string_view>& gids, bool ethernet = true) {
  VerbsDescriptor made;
  made.pairs = 2;
  made.dial = "verbs/2 4242 - 10.0.0.1";
  for (const std::string_view digits : gids) {
    VerbsDescriptor::Rail rail{.ethernet = ethernet};
    for (std::size_t i = 0; i < rail.gid.size(); ++i)
      rail.gid[i] = static_cast<std::uint8_t>(digits[i % digits.size()]);
    made.rails.push_back(rail);
  }
  return made;
}

/// ::ffff:a.b.c.d
VerbsDescriptor of_ipv4() {
  VerbsDescriptor made = described({"x"});
  made.rails[0].gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1};
  return made;
}

TEST(VerbsDescriptor, ComesBackFromItsText) {
  VerbsDescriptor mine = described({"abc", "xyz"});
  mine.rails[1].near = false;
  const auto read = VerbsDescriptor::parse(mine.text());
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(read->text(), mine.text());
  EXPECT_EQ(read->rails.size(), 2U);
  EXPECT_EQ(read->rails[1].gid, mine.rails[1].gid);
  EXPECT_TRUE(read->rails[0].near);
  EXPECT_FALSE(read->rails[1].near);
  EXPECT_EQ(read->dial, mine.dial);
}

TEST(VerbsDescriptor, OtherTextIsRefused) {
  const std::string good = described({"abc"}).text();
  for (std::size_t end = 0; end < good.find('|') + 2; ++end)
    EXPECT_FALSE(VerbsDescriptor::parse(good.substr(0, end)).ok()) << good.substr(0, end);
  for (const char* text : {"tcp/1 1 x", "verbs/2 0 | x", "verbs/2 1 | x", "verbs/2 1 e:00 | x",
                           "verbs/2 1 f:00 | x", "verbs/x 1 | x"})
    EXPECT_FALSE(VerbsDescriptor::parse(text).ok()) << text;
}

TEST(VerbsDescriptor, AnotherVersionIsAMismatchFromEitherSide) {
  VerbsDescriptor later = described({"abc"});
  later.version = kVerbsWireVersion + 1;
  const auto read = VerbsDescriptor::parse(later.text());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(verbs_accepts(described({"abc"}), *read).code(), Code::mismatch);
  EXPECT_EQ(verbs_accepts(*read, described({"abc"})).code(), Code::mismatch);
}

TEST(VerbsDescriptor, PortsOfDifferentKindsDoNotReachEachOther) {
  EXPECT_TRUE(verbs_accepts(described({"a"}), described({"b"})).ok());
  EXPECT_TRUE(verbs_accepts(of_ipv4(), of_ipv4()).ok());
  const VerbsDescriptor infiniband = described({"a"}, false);
  for (const auto& [one, other] :
       {std::pair(described({"a"}), infiniband), std::pair(described({"a"}), of_ipv4())}) {
    EXPECT_EQ(verbs_accepts(one, other).code(), Code::unreachable);
    EXPECT_EQ(verbs_accepts(other, one).code(), Code::unreachable);
  }
}

TEST(VerbsDescriptor, BothEndsCountTheSameQueuePairs) {
  VerbsDescriptor one = described({"a", "b", "c"}), other = described({"d", "e"});
  other.pairs = 3;
  EXPECT_THAT(verbs_shape(one, other).rails, ElementsAre(0, 1));
  EXPECT_EQ(verbs_shape(one, other).pairs, 4U);
  EXPECT_EQ(verbs_shape(other, one).pairs, 4U);
  one.pairs = other.pairs = 4;
  one.rails.resize(9, one.rails[0]);
  other.rails.resize(9, other.rails[0]);
  EXPECT_EQ(verbs_shape(one, other).pairs, 8U) << "as many as a greeting has room for";
}

/// With a mark for each port: n for near, - for far.
VerbsDescriptor seated(std::string_view marks, bool ethernet = true) {
  VerbsDescriptor made = described(std::vector<std::string_view>(marks.size(), "g"), ethernet);
  for (std::size_t i = 0; i < marks.size(); ++i) made.rails[i].near = marks[i] == 'n';
  return made;
}

TEST(VerbsDescriptor, RailsThatAreNearBothRanksAreUsedElseThoseThatAreNearOne) {
  const auto used = [](std::string_view one, std::string_view other) {
    const auto rails = verbs_shape(seated(one), seated(other)).rails;
    EXPECT_EQ(verbs_shape(seated(other), seated(one)).rails, rails) << "both ends agree";
    return rails;
  };
  EXPECT_THAT(used("nn--", "nn--"), ElementsAre(0, 1));
  EXPECT_THAT(used("-nn-", "--nn"), ElementsAre(2));
  EXPECT_THAT(used("n---", "nnnn"), ElementsAre(0));
  EXPECT_THAT(used("n---", "--n-"), ElementsAre(0, 2)) << "numbers are not crossed";
  EXPECT_THAT(used("---n", "n-"), ElementsAre(0));
  EXPECT_THAT(used("--n", "--"), ElementsAre(0, 1)) << "the other rank has no such number";
  EXPECT_THAT(used("--------nn", "--------nn"), ElementsAre(8, 9));
}

TEST(VerbsDescriptor, PortsThatNoMessageTakesNeedNotReachEachOther) {
  VerbsDescriptor one = seated("-n");
  one.rails[0].ethernet = false;
  EXPECT_TRUE(verbs_accepts(one, seated("nn")).ok());
  EXPECT_EQ(verbs_accepts(one, seated("n-")).code(), Code::unreachable);
}

}  // namespace
}  // namespace coll
