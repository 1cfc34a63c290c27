// SPDX-License-Identifier: Apache-2.0
// The file for Prometheus, read by a strict parser of the text exposition format.
#include "report/prometheus_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "temporary_folder.hpp"

namespace training {
namespace prometheus_file_test {

/// "name{label="value",…}" without the labels of the run, and values. Throws for all that is not in
/// order: an unknown line, a sample without HELP and TYPE or apart from its metric's others, a
/// label with a wrong escape, a value that is no number, a sample twice.
class Parsed {
 public:
  explicit Parsed(const std::string& text) {
    if (text.empty() || text.back() != '\n') throw std::runtime_error("no newline at the end");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) parse(line);
  }
  [[nodiscard]] double at(const std::string& sample) const { return samples_.at(sample); }
  [[nodiscard]] bool has(const std::string& sample) const { return samples_.contains(sample); }
  [[nodiscard]] const std::map<std::string, std::string>& types() const { return types_; }
  std::string run, rank;

 private:
  void parse(const std::string& line) {
    static const std::regex help(R"(# HELP (coll_train_[a-z_]+) ([^\\\n]+))");
    static const std::regex type(R"(# TYPE (coll_train_[a-z_]+) (gauge|counter))");
    static const std::regex sample(
        R"((coll_train_[a-z_]+)\{((?:[a-z_]+="(?:[^"\\]|\\[\\"n])*",?)+)\} (\S+))");
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      if (!described_.insert(match[1]).second) throw std::runtime_error("twice: " + line);
      metric_ = match[1];
    } else if (std::regex_match(line, match, type)) {
      if (match[1] != metric_) throw std::runtime_error("TYPE without HELP: " + line);
      types_[match[1]] = match[2];
    } else if (std::regex_match(line, match, sample)) {
      if (match[1] != metric_ || !types_.contains(metric_))
        throw std::runtime_error("a sample apart from its metric: " + line);
      add(match[1], match[2], match[3]);
    } else {
      throw std::runtime_error("no line of the format: " + line);
    }
  }
  void add(const std::string& name, std::string labels, const std::string& value) {
    static const std::regex label(R"re(([a-z_]+)="((?:[^"\\]|\\.)*)",?)re");
    std::string others;
    for (std::smatch match; std::regex_search(labels, match, label); labels = match.suffix()) {
      if (match[1] == "run")
        run = match[2];
      else if (match[1] == "rank")
        rank = match[2];
      else
        others += "{" + match[2].str() + "}";
    }
    const std::map<std::string, double> words = {
        {"NaN", std::nan("")}, {"+Inf", HUGE_VAL}, {"-Inf", -HUGE_VAL}};
    std::size_t used = value.size();
    const double number = words.contains(value) ? words.at(value) : std::stod(value, &used);
    if (used != value.size()) throw std::runtime_error("no number: " + value);
    if (!samples_.emplace(name.substr(11) + others, number).second)
      throw std::runtime_error("twice: " + name + others);
  }
  std::string metric_;
  std::set<std::string> described_;
  std::map<std::string, std::string> types_;
  std::map<std::string, double> samples_;
};

StepRecord step_of(std::uint64_t step) {
  StepRecord record;
  record.step = step;
  record.loss = 2.5;
  record.grad_norm = 1e-7;
  record.tokens = 1000;
  record.seconds = 0.5;
  record.forward = 0.125;
  record.exposed = 0.125;
  record.bytes_sent = 1'000'000'007;
  record.memory[1] = 100;
  record.peak[1] = 200;
  record.flops = 1e8;
  return record;
}

TEST(PrometheusFile, TellsTheLastStepAndCountsAll) {
  RunFacts run{"run"};
  run.rank = 3;
  run.ranks = 4;
  run.total_steps = 50;
  run.peak_flops = 1e9;
  PrometheusFile file("", run);
  StepRecord first = step_of(11);
  first.validation_loss = 2.75;
  file.add(first);
  file.add(step_of(12));
  const Parsed parsed(file.text());
  EXPECT_EQ(parsed.rank, "3");
  EXPECT_EQ(parsed.at("ranks"), 4);
  EXPECT_EQ(parsed.at("step"), 12);
  EXPECT_EQ(parsed.at("total_steps"), 50);
  EXPECT_EQ(parsed.at("steps_total"), 2);
  EXPECT_EQ(parsed.at("tokens_total"), 2000);
  EXPECT_EQ(parsed.at("sent_bytes_total"), 2'000'000'014);
  EXPECT_EQ(parsed.at("phase_seconds_total{forward}"), 0.25);
  EXPECT_EQ(parsed.at("phase_seconds_total{other}"), 0.5);
  EXPECT_EQ(parsed.at("seconds_total"), 1);
  EXPECT_EQ(parsed.at("loss"), 2.5);
  EXPECT_EQ(parsed.at("grad_norm"), 1e-7);
  EXPECT_EQ(parsed.at("validation_loss"), 2.75) << "of a step before";
  EXPECT_EQ(parsed.at("tokens_per_second"), 2000);
  EXPECT_EQ(parsed.at("exposed_ratio"), 0.25);
  EXPECT_EQ(parsed.at("mfu_ratio"), 0.2);
  EXPECT_EQ(parsed.at("memory_bytes{gradients}"), 100);
  EXPECT_EQ(parsed.at("memory_peak_bytes{gradients}"), 200);
  EXPECT_EQ(parsed.at("memory_peak_bytes{staging}"), 0);
  for (const auto& [name, type] : parsed.types())
    EXPECT_EQ(type == "counter", name.ends_with("_total")) << name;
}

TEST(PrometheusFile, IsInOrderWithoutStepsAndWithOddValues) {
  PrometheusFile file("", {"a\"b\\c\n<d>\x01"});
  const Parsed before(file.text());
  EXPECT_EQ(before.at("steps_total"), 0);
  EXPECT_FALSE(before.has("loss"));
  EXPECT_EQ(before.run, R"(a\"b\\c\n<d>)");
  StepRecord record = step_of(1);
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.grad_norm = std::numeric_limits<double>::infinity();
  file.add(record);
  const Parsed after(file.text());
  EXPECT_TRUE(std::isnan(after.at("loss")));
  EXPECT_TRUE(std::isinf(after.at("grad_norm")));
  EXPECT_FALSE(after.has("mfu_ratio"));
}

TEST(PrometheusFile, IsWrittenWhole) {
  const coll::test::TemporaryFolder folder;
  PrometheusFile file(folder.path() + "/coll.prom", {"run"});
  file.add(step_of(1));
  file.write();
  file.add(step_of(2));
  file.write();
  std::ostringstream text;
  text << std::ifstream(folder.path() + "/coll.prom").rdbuf();
  EXPECT_EQ(text.str(), file.text());
}

}  // namespace prometheus_file_test
}  // namespace training
