// SPDX-License-Identifier: Apache-2.0
// Traces are valid trace events, each rank's alone and all ranks' on one clock.
#include "report/tracer.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "memory/failure.hpp"
#include "temporary_folder.hpp"

namespace training {
namespace tracer_test {

using nlohmann::json;

json read_json(const std::string& path) {
  return json::parse(std::ifstream(path));
}

std::vector<json> spans_of(const json& trace) {
  std::vector<json> spans;
  for (const json& event : trace.at("traceEvents"))
    if (event.at("ph") == "X") spans.push_back(event);
  return spans;
}

/// The names of the trace's rows: {process, thread}.
std::map<std::pair<int, int>, std::string> rows_of(const json& trace) {
  std::map<std::pair<int, int>, std::string> rows;
  for (const json& event : trace.at("traceEvents"))
    if (event.at("name") == "thread_name" && event.at("ph") == "M")
      rows[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
  return rows;
}

TEST(Tracer, RecordsNothingUnlessItIsOn) {
  const coll::test::TemporaryFolder folder;
  Tracer tracer;
  tracer.span(Stream::compute, "forward", 1, 2);
  EXPECT_FALSE(tracer.on());
  tracer.write(folder.path() + "/trace.json", 0);
  EXPECT_TRUE(spans_of(read_json(folder.path() + "/trace.json")).empty());
}

TEST(Tracer, WritesSpansWithNamesBytesAndMicroseconds) {
  const coll::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/trace.json";
  Tracer tracer(true);
  const std::int64_t begin = 1'700'000'000'123'456'789;  // a clock that a double cannot hold
  tracer.span(Stream::communication, "all_reduce \"<0>\" \xff", begin + 1'500, begin + 4'001,
              {4096, 7});
  tracer.span(Stream::compute, "forward", begin, begin + 2'000);
  tracer.write(path, 3);
  const auto spans = spans_of(read_json(path));
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].at("name"), "forward");
  EXPECT_EQ(spans[0].at("ts"), 0.0);
  EXPECT_EQ(spans[0].at("dur"), 2.0);
  EXPECT_EQ(spans[0].at("args"), json::object());
  EXPECT_EQ(spans[1].at("name"), "all_reduce \"<0>\" \xef\xbf\xbd");
  EXPECT_EQ(spans[1].at("ts"), 1.5);
  EXPECT_EQ(spans[1].at("dur"), 2.501);
  EXPECT_EQ(spans[1].at("pid"), 3);
  EXPECT_EQ(spans[1].at("args"), (json{{"bytes", 4096}, {"step", 7}}));
  EXPECT_NE(spans[0].at("tid"), spans[1].at("tid")) << "a row for each stream";
}

TEST(Tracer, GivesEachStreamARowAndMoreOnlyWhereSpansCross) {
  const coll::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/trace.json";
  Tracer tracer(true);
  tracer.span(Stream::compute, "unit", 10, 20);
  tracer.span(Stream::compute, "forward", 10, 50);  // recorded after what lies in it
  tracer.span(Stream::compute, "unit", 20, 30);
  tracer.span(Stream::communication, "a", 0, 100);
  tracer.span(Stream::communication, "b", 50, 150);
  tracer.span(Stream::communication, "c", 120, 200);
  tracer.span(Stream::storage, "read", 0, 0);
  tracer.write(path, 1);
  const json trace = read_json(path);
  std::multiset<std::string> names;
  for (const auto& [row, name] : rows_of(trace)) names.insert(name);
  EXPECT_EQ(names,
            (std::multiset<std::string>{"compute", "communication", "communication 2", "storage"}));
  // In no row do spans cross.
  const auto spans = spans_of(trace);
  for (const json& a : spans) {
    for (const json& b : spans) {
      if (a.at("tid") != b.at("tid")) continue;
      const double begin_a = a.at("ts"), end_a = begin_a + a.at("dur").get<double>();
      const double begin_b = b.at("ts"), end_b = begin_b + b.at("dur").get<double>();
      EXPECT_FALSE(begin_a < begin_b && begin_b < end_a && end_a < end_b) << a << b;
    }
  }
}

TEST(Tracer, CountsWhatIsTooMuch) {
  const coll::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/trace.json";
  Tracer tracer(true, 2);
  for (int i = 0; i < 5; ++i) tracer.span(Stream::compute, "unit", i, i + 1);
  tracer.write(path, 0);
  EXPECT_EQ(spans_of(read_json(path)).size(), 2U);
  EXPECT_EQ(read_json(path).at("otherData").at("dropped"), 3);
}

class Merge : public testing::Test {
 protected:
  std::string write(std::size_t rank, std::int64_t begin) {
    Tracer tracer(true, 1);
    tracer.span(Stream::compute, "step", begin, begin + 1000);
    tracer.span(Stream::compute, "too much", begin, begin + 1000);
    const std::string path = folder.path() + "/rank" + std::to_string(files++) + ".json";
    tracer.write(path, rank);
    return path;
  }
  coll::test::TemporaryFolder folder;
  int files = 0;
};

TEST_F(Merge, PutsRanksOnOneClock) {
  const std::string zero = write(0, 5'000'000), one = write(1, 900'000'000'000'000'000);
  const std::string merged = folder.path() + "/all.json";
  // Rank 1's step began 2 us before rank 0's, on rank 0's clock.
  merge_traces({zero, one}, {0, 5'000'000 - 2'000 - 900'000'000'000'000'000}, merged);
  const json trace = read_json(merged);
  const auto spans = spans_of(trace);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].at("pid"), 0);
  EXPECT_EQ(spans[0].at("ts"), 2.0);
  EXPECT_EQ(spans[1].at("pid"), 1);
  EXPECT_EQ(spans[1].at("ts"), 0.0);
  EXPECT_EQ(trace.at("otherData"), (json{{"ranks", 2}, {"dropped", 2}}));
  EXPECT_EQ(rows_of(trace).size(), 2U);
}

TEST_F(Merge, IgnoresTheClockOfATraceWithoutSpans) {
  const std::string zero = write(0, 5'000'000), empty = folder.path() + "/empty.json";
  Tracer(true).write(empty, 1);
  merge_traces({zero, empty}, {0, 0}, folder.path() + "/all.json");
  EXPECT_EQ(spans_of(read_json(folder.path() + "/all.json")).at(0).at("ts"), 0.0);
}

TEST_F(Merge, RefusesWhatItCannotMerge) {
  const std::string zero = write(0, 0), again = write(0, 0), to = folder.path() + "/all.json";
  EXPECT_THROW(merge_traces({zero}, {}, to), Failure);
  EXPECT_THROW(merge_traces({zero, again}, {0, 0}, to), Failure);
  EXPECT_THROW(merge_traces({folder.path() + "/absent.json"}, {0}, to), Failure);
  merge_traces({zero}, {0}, to);
  EXPECT_THROW(merge_traces({to}, {0}, to), Failure) << "a merged trace has no clock of its own";
  std::ofstream(zero) << "{\"traceEvents\": [";
  EXPECT_THROW(merge_traces({zero}, {0}, to), Failure);
}

}  // namespace tracer_test
}  // namespace training
