// SPDX-License-Identifier: Apache-2.0
// The table of knobs and how values are read.
#include "base/knobs.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string_view>

namespace coll {
namespace {

Result<Knobs> parse(const std::map<std::string, std::string>& environment) {
  return parse_knobs([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

const Knob& knob(std::string_view name) {
  for (const Knob& row : knob_table())
    if (row.name == name) return row;
  throw std::invalid_argument("no such knob");
}

TEST(Knobs, NothingSetGivesTheDefaultsOfTheTable) {
  const auto knobs = parse({});
  ASSERT_TRUE(knobs.ok()) << knobs.status().text();
  EXPECT_EQ(knobs->rank, -1);
  EXPECT_EQ(knobs->deadline_s, 600);
  EXPECT_EQ(knobs->transports, "cuda_ipc,shm,verbs,tcp");
  for (const Knob& row : knob_table()) EXPECT_EQ(knob_value(row, *knobs), row.fallback) << row.name;
}

TEST(Knobs, ValuesComeFromTheEnvironment) {
  const auto knobs = parse({{"COLL_RANK", "3"}, {"COLL_DEADLINE_S", "1.5"}, {"COLL_LOG", "debug"}});
  ASSERT_TRUE(knobs.ok()) << knobs.status().text();
  EXPECT_EQ(knobs->rank, 3);
  EXPECT_EQ(knobs->deadline_s, 1.5);
  EXPECT_EQ(knobs->log, "debug");
  EXPECT_EQ(knobs->size, 0);
}

TEST(Knobs, WholeNumbersTakeSuffixesInPowersOf1024) {
  const std::map<std::string, std::int64_t> cases{
      {"64", 64}, {"64K", 65536}, {"64k", 65536}, {"1.5M", 1572864}, {"2G", 2147483648}};
  for (const auto& [text, value] : cases) {
    const auto knobs = parse({{"COLL_SLICE_BYTES", text}});
    ASSERT_TRUE(knobs.ok()) << knobs.status().text();
    EXPECT_EQ(knobs->slice_bytes, value) << text;
  }
}

TEST(Knobs, AnUnreadableValueIsRefusedByNameWithTheDefaultToGoBackTo) {
  const std::pair<const char*, const char*> cases[] = {
      {"COLL_LANES", "many"},     {"COLL_LANES", "0x10"},     {"COLL_LANES", "1.5"},
      {"COLL_LANES", "4x"},       {"COLL_LANES", "-1"},       {"COLL_LANES", "1e300"},
      {"COLL_DEADLINE_S", "-1"},  {"COLL_DEADLINE_S", "x"},   {"COLL_DEADLINE_S", "nan"},
      {"COLL_DEADLINE_S", "inf"}, {"COLL_CONNECT_S", "0"},    {"COLL_DEADLINE_S", "5 s"},
      {"COLL_CREDITS", "4G"},     {"COLL_SLICE_BYTES", "4G"}, {"COLL_CONNECT_S", "1e10"},
      {"COLL_LOG", "trace"},      {"COLL_LOG", "warn, info"}, {"COLL_ISA", "avx"},
  };
  for (const auto& [name, text] : cases) {
    const auto knobs = parse({{name, text}});
    ASSERT_FALSE(knobs.ok()) << name << "=" << text;
    EXPECT_EQ(knobs.status().code(), Code::invalid_argument);
    const std::string message = knobs.status().text();
    EXPECT_NE(message.find(std::string(name) + "=" + text), std::string::npos) << message;
    EXPECT_NE(message.find(knob(name).fallback), std::string::npos) << message;
  }
}

TEST(Knobs, SetButEmptyIsNotSet) {
  for (const Knob& row : knob_table()) {
    const auto knobs = parse({{row.name, ""}});
    ASSERT_TRUE(knobs.ok()) << knobs.status().text();
    EXPECT_EQ(knob_value(row, *knobs), row.fallback) << row.name;
  }
}

TEST(Knobs, TheSecretIsNeverShown) {
  const auto knobs = parse({{"COLL_SECRET", "hunter2"}});
  ASSERT_TRUE(knobs.ok());
  EXPECT_EQ(knobs->secret, "hunter2");
  EXPECT_EQ(knob_value(knob("COLL_SECRET"), *knobs), "***");
  EXPECT_EQ(knob_value(knob("COLL_SECRET"), *parse({})), "");
}

TEST(Knobs, TheTableIsShortAndEveryRowIsAnExplainedCollName) {
  EXPECT_LE(knob_table().size(), 32U);
  std::set<std::string> names;
  for (const Knob& row : knob_table()) {
    const std::string_view name = row.name;
    EXPECT_TRUE(name.starts_with("COLL_")) << name;
    EXPECT_EQ(name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), name.npos) << name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " twice";
    const std::string sentence = row.sentence;
    EXPECT_TRUE(sentence.ends_with('.')) << row.name << ": " << sentence;
    EXPECT_GT(sentence.size(), 20U) << row.name;
  }
}

TEST(Knobs, ValuesReadBackAsTheyWereWritten) {
  const auto knobs = parse({{"COLL_DEADLINE_S", "0.25"}, {"COLL_CREDITS", "8"}});
  ASSERT_TRUE(knobs.ok());
  EXPECT_EQ(knob_value(knob("COLL_DEADLINE_S"), *knobs), "0.25");
  EXPECT_EQ(knob_value(knob("COLL_CREDITS"), *knobs), "8");
}

}  // namespace
}  // namespace coll
