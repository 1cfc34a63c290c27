// SPDX-License-Identifier: Apache-2.0
// What coll-perf writes: table, JSON, CSV, chart.
#include "coll_perf/coll_perf_report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace perf {
namespace {

Row example_row(std::size_t bytes, double time_s) {
  Row row;
  row.point = {Operation::all_reduce, COLL_FLOAT32, COLL_SUM, 0, {bytes, bytes / 4}};
  Sample sample;
  sample.time_s = time_s;
  sample.min_s = time_s / 2;
  sample.mean_s = time_s;
  sample.algbw = static_cast<double>(bytes) / time_s / 1e9;
  sample.busbw = sample.algbw * 1.5;
  sample.calls = 100;
  sample.wrong = 0;
  row.out_of_place = sample;
  sample.wrong.reset();
  sample.busbw = 1;
  row.in_place = sample;
  return row;
}

TEST(Table, LooksLikeThis) {
  const std::string table = table_head(Operation::all_reduce, {}) +
                            table_line(example_row(8, 0.331e-6), {}) +
                            table_line(example_row(67108864, 16.8e-3), {});
  EXPECT_EQ(table, R"(#
# all_reduce
#                                                         out-of-place                        in-place             
#       size        count      type  redop  root      time   algbw   busbw #wrong       time   algbw   busbw #wrong
#        (B)   (elements)                             (us)  (GB/s)  (GB/s)              (us)  (GB/s)  (GB/s)       
           8            2     float    sum    -1     0.331   0.024   0.036      0      0.331   0.024   1.000    N/A
    67108864     16777216     float    sum    -1     16800   3.995   5.992      0      16800   3.995   1.000    N/A
)");
}

TEST(Table, LinesAreAsWideAsTheHead) {
  Row row = example_row(8, 1e-6);
  row.out_of_place->percentiles = Percentiles{1e-6, 2e-6, 123.4e-6};
  row.out_of_place->cpu_s = 4e-6;
  row.out_of_place->cores = 1.5;
  row.out_of_place->overlap = Overlap{10e-3, 11e-3, 13e-3, 0, 0};
  row.out_of_place->gpu = GpuUse{1000, 0.125};
  row.in_place.reset();
  row.point.operation = Operation::all_to_all;
  const Extras extras{.percentiles = true, .cpu = true, .overlap = true, .gpu = true};
  std::string text = table_head(Operation::all_to_all, extras) + table_line(row, extras);
  std::vector<std::size_t> widths;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    widths.push_back(end - at);
    at = end + 1;
  }
  ASSERT_EQ(widths.size(), 6U);
  EXPECT_EQ(widths[3], widths[2]);
  EXPECT_EQ(widths[4], widths[2]);
  EXPECT_EQ(widths[5], widths[2]);
  EXPECT_NE(text.find("none"), std::string::npos);
  EXPECT_NE(text.find("123.4     4.000  1.500     10000     11000     13000   80.00  12.50"),
            std::string::npos);
}

TEST(Table, FootSaysFailed) {
  Row row = example_row(8, 1e-6);
  row.out_of_place->wrong = 3;
  row.out_of_place->busbw = 2;
  const Summary summary = summarize({row});
  EXPECT_EQ(summary.wrong, 3U);
  EXPECT_DOUBLE_EQ(summary.busbw, 1.5);
  EXPECT_NE(table_foot(summary, true).find("3 FAILED"), std::string::npos);
  EXPECT_NE(table_foot(summary, true).find("# Avg bus bandwidth    : 1.5"), std::string::npos);
  EXPECT_NE(table_foot(summary, false).find("not checked"), std::string::npos);
}

TEST(Overlap, IsThePartOfTheCallThatComputingHides) {
  EXPECT_DOUBLE_EQ((Overlap{2, 2, 2, 0, 0}.percent()), 100);
  EXPECT_DOUBLE_EQ((Overlap{2, 2, 4, 0, 0}.percent()), 0);
  EXPECT_DOUBLE_EQ((Overlap{2, 3, 3.5, 0, 0}.percent()), 75);
  EXPECT_DOUBLE_EQ((Overlap{2, 2, 5, 0, 0}.percent()), 0);      // slower than one after the other
  EXPECT_DOUBLE_EQ((Overlap{2, 2, 1.9, 0, 0}.percent()), 100);  // the clock's noise
  EXPECT_DOUBLE_EQ((Overlap{0, 0, 0, 0, 0}.percent()), 0);
}

TEST(Report, JsonHasTheSchema) {
  Row row = example_row(1024, 2e-6);
  row.out_of_place->cpu_s = 3e-6;
  row.out_of_place->cores = 1.5;
  row.out_of_place->overlap = Overlap{1e-3, 1e-3, 1.25e-3, 4e-3, 5e-3};
  row.out_of_place->percentiles = Percentiles{1e-6, 2e-6, 3e-6};
  row.out_of_place->gpu = GpuUse{4096, 0.25};
  Origin origin{2, 10203, {"a", "b"}, "shm", ""};
  EXPECT_EQ(nlohmann::json::parse(to_json(origin, {row})).at("memory"), "host");
  origin.gpus.emplace();
  origin.gpus->gpus = {
      {"A GPU", "0000:17:00.0", "GPU-1", 12080, {0, 1}, {{{1 << 20, 2e12}, {1 << 19, 3e12}}}}};
  const auto json = nlohmann::json::parse(to_json(origin, {row}));
  EXPECT_EQ(json.at("tool"), "coll-perf");
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_EQ(json.at("library_version"), "1.2.3");
  EXPECT_EQ(json.at("ranks"), 2);
  EXPECT_EQ(json.at("hosts").size(), 2U);
  ASSERT_EQ(json.at("results").size(), 2U);
  const auto& first = json.at("results").at(0);
  EXPECT_EQ(first.at("operation"), "all_reduce");
  EXPECT_EQ(first.at("bytes"), 1024);
  EXPECT_EQ(first.at("count"), 256);
  EXPECT_EQ(first.at("type"), "float");
  EXPECT_EQ(first.at("redop"), "sum");
  EXPECT_EQ(first.at("root"), -1);
  EXPECT_EQ(first.at("in_place"), false);
  EXPECT_NEAR(first.at("time_us").get<double>(), 2, 1e-9);
  EXPECT_EQ(first.at("wrong"), 0);
  EXPECT_NEAR(first.at("per_call_us").at("p99").get<double>(), 3, 1e-9);
  EXPECT_NEAR(first.at("cpu_us").get<double>(), 3, 1e-9);
  EXPECT_EQ(first.at("cores"), 1.5);
  const auto& overlap = first.at("overlap");
  EXPECT_NEAR(overlap.at("percent").get<double>(), 75, 1e-9);
  EXPECT_NEAR(overlap.at("comm_us").get<double>(), 1000, 1e-6);
  EXPECT_NEAR(overlap.at("compute_us").get<double>(), 1000, 1e-6);
  EXPECT_NEAR(overlap.at("total_us").get<double>(), 1250, 1e-6);
  EXPECT_NEAR(overlap.at("comm_cpu_us").get<double>(), 4000, 1e-6);
  EXPECT_NEAR(overlap.at("total_cpu_us").get<double>(), 5000, 1e-6);
  EXPECT_FALSE(json.at("results").at(1).contains("overlap"));
  EXPECT_EQ(first.at("gpu").at("bytes"), 4096);
  EXPECT_EQ(first.at("gpu").at("limit_percent"), 25);
  EXPECT_FALSE(json.at("results").at(1).contains("gpu"));
  EXPECT_EQ(json.at("memory"), "cuda");
  const auto& gpu = json.at("gpus").at(0);
  EXPECT_EQ(gpu.at("name"), "A GPU");
  EXPECT_EQ(gpu.at("cuda"), "12.8");
  EXPECT_EQ(gpu.at("ranks"), (std::vector{0, 1}));
  EXPECT_NEAR(gpu.at("limit_GBps").get<double>(), 3000, 1e-9);
  EXPECT_EQ(gpu.at("copies").at(0).at("bytes"), 1 << 20);
  EXPECT_NEAR(gpu.at("copies").at(0).at("moved_GBps").get<double>(), 2000, 1e-9);
  EXPECT_TRUE(json.at("results").at(1).at("wrong").is_null());
  EXPECT_TRUE(json.at("results").at(1).at("in_place"));
}

std::size_t commas(const std::string& line) {
  return static_cast<std::size_t>(std::count(line.begin(), line.end(), ','));
}

TEST(Report, CsvLinesHaveTheColumnsOfTheHead) {
  Row row = example_row(1024, 2e-6);
  row.in_place->percentiles = Percentiles{1e-6, 2e-6, 3e-6};
  row.in_place->overlap = Overlap{1e-3, 1e-3, 1.25e-3, 4e-3, 5e-3};
  const std::string csv = to_csv({2, 100, {}, "", ""}, {row});
  const std::size_t first = csv.find('\n');
  const std::size_t second = csv.find('\n', first + 1);
  EXPECT_EQ(commas(csv.substr(0, first)), commas(csv.substr(first, second - first)));
  EXPECT_EQ(commas(csv.substr(0, first)), commas(csv.substr(second)));
  EXPECT_TRUE(csv.ends_with(",75.00,1000.000,1000.000,1250.000,4000.000,5000.000,,\n"));
  row.in_place->gpu = GpuUse{4096, 0.25};
  EXPECT_TRUE(to_csv({2, 100, {}, "", "", 1, 1, false, {}}, {row}).ends_with(",4096,25.000\n"));
  EXPECT_NE(csv.find("all_reduce,2,1024,256,float,sum,-1,0,2.000,"), std::string::npos);
}

TEST(Report, PeersLineIsTheirs) {
  const Row row = example_row(1024, 2e-6);
  Point point = row.point;
  point.operation = Operation::all_to_all;
  const std::string line = peers_line("ours", "shm", 2, point, *row.out_of_place, "default");
  EXPECT_EQ(line, "ours,shm,2,alltoall,1024,2.000,0.7680,0.5120,1.000,2.000,100,ok,default\n");
  EXPECT_EQ(commas(line), commas(peers_head()));
}

/// Names of the elements, in order; fails the test unless every one is closed in its turn.
std::vector<std::string> xml_elements(const std::string& text) {
  std::vector<std::string> names, open;
  std::size_t at = 0;
  while ((at = text.find('<', at)) != std::string::npos) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) {
      ADD_FAILURE() << "an open tag at " << at;
      break;
    }
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != name) {
        ADD_FAILURE() << "</" << name << "> closes nothing";
        break;
      }
      open.pop_back();
    } else if (tag[0] != '?') {
      names.push_back(name);
      if (tag.back() != '/') open.push_back(name);
      EXPECT_EQ(std::count(tag.begin(), tag.end(), '\'') % 2, 0) << tag;
    }
    at = end;
  }
  EXPECT_TRUE(open.empty());
  return names;
}

TEST(Plot, IsWellFormedWithALinePerSeries) {
  Row barrier = example_row(0, 1e-6);
  barrier.point.operation = Operation::barrier;
  Chart chart =
      to_chart({2, 100, {}, "", ""}, {example_row(8, 1e-6), example_row(1 << 26, 1e-2), barrier});
  ASSERT_EQ(chart.series.size(), 2U);
  EXPECT_EQ(chart.series[1].name, "all_reduce, in place");
  EXPECT_TRUE(chart.series[1].dashed);
  chart.title = "a < b & \"c\"";
  const std::string svg = draw_svg(chart);
  const auto names = xml_elements(svg);
  EXPECT_EQ(names.at(0), "svg");
  EXPECT_EQ(std::count(names.begin(), names.end(), "polyline"), 2);
  EXPECT_EQ(std::count(names.begin(), names.end(), "circle"), 4);
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(svg.find(">16 MiB<"), std::string::npos);
}

TEST(Plot, NothingToDrawIsStillAChart) {
  xml_elements(draw_svg({"empty", "x", "y", {}}));
  const std::string svg = draw_svg({"zero", "x", "y", {{"zeros", {{8, 0}, {16, 0}}, false}}});
  xml_elements(svg);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_NE(svg.find("nothing above 0"), std::string::npos);
}

TEST(BytesText, ReadsWell) {
  EXPECT_EQ(bytes_text(8), "8 B");
  EXPECT_EQ(bytes_text(65536), "64 KiB");
  EXPECT_EQ(bytes_text(1.5 * 1048576), "1.5 MiB");
}

}  // namespace
}  // namespace perf
