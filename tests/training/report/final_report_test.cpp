// SPDX-License-Identifier: Apache-2.0
// The report of a run: figures, the table, JSON, and a page that is well-formed and stands alone.
#include "report/final_report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <pugixml.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "memory/failure.hpp"
#include "report/step_log.hpp"
#include "temporary_folder.hpp"

namespace training {
namespace final_report_test {

using nlohmann::json;

StepRecord step_of(std::uint64_t step) {
  StepRecord record;
  const auto x = static_cast<double>(step);
  record.step = step;
  record.loss = 4 / std::sqrt(x);
  record.grad_norm = 1 / x;
  record.tokens = 1024;
  record.seconds = step == 1 ? 0.4 : 0.1;
  record.forward = 0.02;
  record.backward = 0.04;
  record.optimizer = 0.01;
  record.exposed = 0.02;
  record.communication = 0.05;
  record.bytes_sent = 1 << 20;
  record.memory = {100 << 10, 50 << 10, 200 << 10, 0, 25 << 10, 1 << 10};
  record.peak = {100 << 10, 50 << 10, 200 << 10, step << 10, 25 << 10, 1 << 10};
  record.peak_of_all = 400 << 10;
  record.flops = 1e9;
  if (step % 10 == 0) record.validation_loss = record.loss + 0.1;
  return record;
}

RunReport report_of(std::uint64_t steps) {
  RunReport report;
  report.run.name = "GPT \"tiny\" <b>&</b>";
  report.run.facts = {{"model", "4 layers & <more>"}};
  report.run.ranks = 4;
  report.run.total_steps = steps;
  report.run.peak_flops = 5e10;
  for (std::uint64_t step = 1; step <= steps; ++step) report.steps.push_back(step_of(step));
  report.bytes_by_operation = {{"all_reduce", 123456}};
  return report;
}

pugi::xml_document parsed(const std::string& text) {
  pugi::xml_document document;
  const auto result = document.load_string(
      text.c_str(), pugi::parse_default | pugi::parse_doctype | pugi::parse_declaration);
  EXPECT_TRUE(result) << result.description() << " at " << text.substr(0, 2000);
  return document;
}

std::size_t count(const pugi::xml_document& page, const char* path) {
  return page.select_nodes(path).size();
}

/// No scripts, and nothing from elsewhere.
void expect_alone(const pugi::xml_document& page, const std::string& text) {
  EXPECT_EQ(count(page, "//script|//link|//img|//iframe|//object|//use|//image"), 0U);
  EXPECT_EQ(count(page, "//@href|//@src|//@onload|//@onclick"), 0U);
  EXPECT_EQ(text.find("url("), std::string::npos);
  EXPECT_EQ(text.find("@import"), std::string::npos);
}

struct Box {
  double left, right, top, bottom;
  std::string text;
};

/// About the place of a text in a sans-serif font.
Box box_of(const pugi::xml_node& node) {
  const std::string text = node.child_value();
  const auto characters = std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  });
  const bool title = std::string(node.attribute("class").value()) == "title";
  const double width = static_cast<double>(characters) * (title ? 9 : 6.8);
  const std::string anchor = node.attribute("text-anchor").value();
  const double left = node.attribute("x").as_double() - (anchor == "end"      ? width
                                                         : anchor == "middle" ? width / 2
                                                                              : 0);
  const double base = node.attribute("y").as_double();
  return {left, left + width, base - (title ? 12 : 9), base + 3, text};
}

/// Texts are on the paper and do not touch.
void expect_labels_apart(const pugi::xml_document& page) {
  for (const auto& svg : page.select_nodes("//svg")) {
    std::vector<Box> boxes;
    for (const auto& text : svg.node().select_nodes(".//text"))
      boxes.push_back(box_of(text.node()));
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const Box& a = boxes[i];
      EXPECT_GE(a.left, 0) << a.text;
      EXPECT_LE(a.right, 720) << a.text;
      for (std::size_t j = 0; j < i; ++j) {
        const Box& b = boxes[j];
        EXPECT_FALSE(a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
            << a.text << " and " << b.text;
      }
    }
  }
}

/// Coordinates are numbers within the paper.
void expect_drawn_on_paper(const pugi::xml_document& page) {
  expect_labels_apart(page);
  for (const auto& svg : page.select_nodes("//svg")) {
    std::istringstream box(svg.node().attribute("viewBox").value());
    double left, top, width, height;
    ASSERT_TRUE(box >> left >> top >> width >> height);
    for (const auto& node : svg.node().select_nodes(".//*")) {
      for (const auto& [name, most] :
           std::initializer_list<std::pair<const char*, double>>{{"x", width},
                                                                 {"x1", width},
                                                                 {"x2", width},
                                                                 {"cx", width},
                                                                 {"y", height},
                                                                 {"y1", height},
                                                                 {"y2", height},
                                                                 {"cy", height}}) {
        const pugi::xml_attribute value = node.node().attribute(name);
        if (!value) continue;
        EXPECT_GE(value.as_double(-1), 0) << name << "=" << value.value();
        EXPECT_LE(value.as_double(1e9), most) << name << "=" << value.value();
      }
      const std::string path = node.node().attribute("d").value();
      EXPECT_EQ(path.find_first_not_of("ML0123456789. "), std::string::npos) << path;
    }
  }
}

TEST(Summary, AddsUp) {
  const Summary all = summary_of(report_of(20).steps);
  EXPECT_NEAR(all.sum.seconds, 0.4 + 19 * 0.1, 1e-12);
  EXPECT_EQ(all.sum.tokens, 20U * 1024);
  EXPECT_EQ(all.median.seconds, 0.1);
  EXPECT_EQ(all.slowest.step, 1U);
  EXPECT_EQ(all.first_loss, 4);
  EXPECT_EQ(all.lowest_loss, all.last.loss);
  EXPECT_NEAR(all.validation_loss, 4 / std::sqrt(20) + 0.1, 1e-12);
  EXPECT_EQ(all.last.peak[3], 20U << 10) << "the highest of all steps";
  EXPECT_EQ(all.not_finite, 0U);
}

TEST(Summary, PassesOverLossesThatAreNotFinite) {
  auto steps = report_of(5).steps;
  steps[2].loss = std::numeric_limits<double>::quiet_NaN();
  steps[3].loss = -std::numeric_limits<double>::infinity();
  const Summary all = summary_of(steps);
  EXPECT_EQ(all.not_finite, 2U);
  EXPECT_EQ(all.lowest_loss, steps[4].loss);
  EXPECT_TRUE(std::isnan(all.validation_loss));
}

TEST(ReportTable, SaysTheFigures) {
  RunReport report = report_of(20);
  report.stragglers = "Rank 3 is a straggler.";
  const std::string table = report_table(report);
  for (const char* part :
       {"GPT \"tiny\" <b>&</b>\n", "4 layers & <more>", "20 (the last is 20 of 20)",
        "4.0000 at the first step, 0.8944 at the last", "8904 per second", "MFU",
        "17.4 % of 50 GFLOP/s", "400 ms (17.4 %)", "20.0 MiB", "sent by all_reduce", "121 KiB",
        "peak of optimizer", "200 KiB", "Rank 3 is a straggler.", "those of rank 0"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << " is not in\n" << table;
  }
}

TEST(ReportJson, HasTheSummaryAndEveryStep) {
  const json document = json::parse(json_text(report_json(report_of(20))));
  EXPECT_EQ(document.at("name"), "GPT \"tiny\" <b>&</b>");
  EXPECT_EQ(document.at("summary").at("tokens"), 20 * 1024);
  EXPECT_NEAR(document.at("summary").at("mfu").get<double>(), 20e9 / 2.3 / 5e10, 1e-9);
  EXPECT_EQ(document.at("summary").at("bytes_by_operation").at("all_reduce"), 123456);
  EXPECT_EQ(document.at("summary").at("memory_peak_bytes").at("activations"), 20 << 10);
  ASSERT_EQ(document.at("steps").size(), 20U);
  EXPECT_EQ(document.at("steps")[19].at("step"), 20);
}

TEST(ReportPage, IsWellFormedAndStandsAlone) {
  RunReport report = report_of(50);
  report.steps[9].note = "checkpoint <written> & \"kept\"";
  const std::string text = report_html(report);
  const auto page = parsed(text);
  expect_alone(page, text);
  expect_drawn_on_paper(page);
  EXPECT_STREQ(page.select_node("//h1").node().child_value(), "GPT \"tiny\" <b>&</b>");
  std::multiset<std::string> titles;
  for (const auto& title : page.select_nodes("//svg/text[@class='title']"))
    titles.insert(title.node().child_value());
  EXPECT_EQ(titles, (std::multiset<std::string>{"Loss over steps", "Loss over time", "Speed",
                                                "Communication", "Where a step's time goes",
                                                "Memory by use"}));
  EXPECT_NE(text.find("@media (prefers-color-scheme: dark)"), std::string::npos);
  EXPECT_EQ(count(page, "//svg[1]//circle"), 5U) << "the validations are marked";
  EXPECT_EQ(count(page, "//td[.='checkpoint <written> & \"kept\"']"), 1U);
}

TEST(ReportPage, TakesOddRuns) {
  RunReport one = report_of(1);
  one.run.ranks = 1;
  RunReport wild = report_of(3000);
  for (std::size_t i = 0; i < wild.steps.size(); i += 7)
    wild.steps[i].loss = std::numeric_limits<double>::quiet_NaN();
  wild.steps[1500].loss = 1e30;
  RunReport no_loss = report_of(3);
  for (StepRecord& step : no_loss.steps) step.loss = std::numeric_limits<double>::infinity();
  RunReport nothing = report_of(5);
  for (StepRecord& step : nothing.steps) step = StepRecord{};
  RunReport flat = report_of(2345);
  flat.run.name = std::string(300, 'W');
  for (StepRecord& step : flat.steps) step.loss = 123456.75;
  RunReport tiny = report_of(4);
  for (StepRecord& step : tiny.steps) {
    step.loss *= -1e-9;
    step.seconds = 1e-5;
    step.tokens = 1'000'000'000'000;
  }
  RunReport unnamed;
  for (const RunReport& report : {report_of(0), one, wild, no_loss, nothing, flat, tiny, unnamed}) {
    const std::string text = report_html(report);
    const auto page = parsed(text);
    expect_alone(page, text);
    expect_drawn_on_paper(page);
    const std::string loss = loss_svg(report);
    expect_drawn_on_paper(parsed(loss));
    EXPECT_NE(report_table(report), "");
    EXPECT_TRUE(json::accept(json_text(report_json(report))));
    EXPECT_EQ(text.find("nan"), std::string::npos);
  }
  EXPECT_NE(loss_svg(report_of(0)).find("no finite values"), std::string::npos);
  EXPECT_NE(loss_svg(no_loss).find("no finite values"), std::string::npos);
}

TEST(ReportPage, KeepsSpikesOfLongRuns) {
  RunReport report = report_of(20'000);
  const std::string calm = loss_svg(report);
  EXPECT_LT(calm.size(), 60'000U) << "a line has no more points than the paper";
  report.steps[13'333].loss = 3.9;
  const auto lowest_y = [](const std::string& svg, double from_x) {
    static const std::regex point(R"([ML]([\d.]+) ([\d.]+))");
    double lowest = 1e9;
    for (std::sregex_iterator it(svg.begin(), svg.end(), point), end; it != end; ++it)
      if (std::stod((*it)[1]) > from_x) lowest = std::min(lowest, std::stod((*it)[2]));
    return lowest;
  };
  EXPECT_LT(lowest_y(loss_svg(report), 400), lowest_y(calm, 400) - 100);
}

TEST(LossSvg, IsAFileOfItsOwn) {
  const std::string text = loss_svg(report_of(30));
  const auto svg = parsed(text);
  expect_alone(svg, text);
  EXPECT_STREQ(svg.document_element().attribute("xmlns").value(), "http://www.w3.org/2000/svg");
  EXPECT_STREQ(svg.select_node("//text[@class='title']").node().child_value(),
               "Loss of GPT \"tiny\" <b>&</b>");
  EXPECT_EQ(count(svg, "/svg/style"), 1U);
}

TEST(WriteReport, WritesThreeFiles) {
  const coll::test::TemporaryFolder folder;
  write_report(report_of(10), folder.path());
  for (const char* name : {"/report.json", "/report.html", "/loss.svg"}) {
    std::ostringstream text;
    text << std::ifstream(folder.path() + name).rdbuf();
    EXPECT_GT(text.str().size(), 1000U) << name;
  }
  EXPECT_THROW(write_report(report_of(1), folder.path() + "/absent"), Failure);
}

}  // namespace final_report_test
}  // namespace training
