// SPDX-License-Identifier: Apache-2.0
// The log of steps: each line is JSON, is there at once, and has no NaN.
#include "report/step_log.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "temporary_folder.hpp"

namespace training {
namespace step_log_test {

using nlohmann::json;

std::vector<json> lines_of(const std::string& path) {
  std::vector<json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

StepRecord example() {
  StepRecord record;
  record.step = 7;
  record.loss = 1.0 / 3;
  record.grad_norm = 0.5;
  record.learning_rate = 1e-3;
  record.loss_scale = 1024;
  record.tokens = 4096;
  record.seconds = 2;
  record.forward = 0.5;
  record.backward = 1;
  record.optimizer = 0.125;
  record.communication = 0.75;
  record.exposed = 0.25;
  record.own_compute = 0.625;
  record.bytes_sent = 1'000'000'000'000;
  record.memory[0] = 10;
  record.peak[5] = 20;
  record.peak_of_all = 25;
  record.flops = 3e9;
  return record;
}

TEST(StepLog, WritesEveryFigure) {
  const coll::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/steps.jsonl";
  RunFacts run{"run"};
  run.rank = 2;
  run.peak_flops = 6e9;
  StepLog log(path, run, false);
  StepRecord record = example();
  record.validation_loss = 0.4;
  record.note = "checkpoint \"a<b>\"\nwritten \xff";
  log.write(record);
  const auto lines = lines_of(path);  // the log is still open: it flushed
  ASSERT_EQ(lines.size(), 1U);
  json expected = {{"step", 7},
                   {"rank", 2},
                   {"loss", 1.0 / 3},
                   {"grad_norm", 0.5},
                   {"learning_rate", 1e-3},
                   {"loss_scale", 1024.0},
                   {"tokens", 4096},
                   {"seconds", 2.0},
                   {"tokens_per_second", 2048.0},
                   {"forward_seconds", 0.5},
                   {"backward_seconds", 1.0},
                   {"optimizer_seconds", 0.125},
                   {"communication_seconds", 0.75},
                   {"exposed_seconds", 0.25},
                   {"own_compute_seconds", 0.625},
                   {"bytes_sent", 1'000'000'000'000},
                   {"memory_peak_of_all_bytes", 25},
                   {"flops", 3e9},
                   {"mfu", 0.25},
                   {"validation_loss", 0.4},
                   {"note", "checkpoint \"a<b>\"\nwritten \xef\xbf\xbd"}};
  for (std::size_t i = 0; i < kUses; ++i) {
    expected["memory_bytes"][name_of(static_cast<Use>(i))] = i == 0 ? 10 : 0;
    expected["memory_peak_bytes"][name_of(static_cast<Use>(i))] = i == 5 ? 20 : 0;
  }
  EXPECT_EQ(lines[0], expected);
}

TEST(StepLog, WritesNullForWhatIsNotFinite) {
  const coll::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/steps.jsonl";
  StepLog log(path, {"run"}, false);
  StepRecord record;
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.grad_norm = std::numeric_limits<double>::infinity();
  log.write(record);
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(lines[0].at("loss").is_null());
  EXPECT_TRUE(lines[0].at("grad_norm").is_null());
  EXPECT_TRUE(lines[0].at("mfu").is_null()) << "no peak is known";
  EXPECT_EQ(lines[0].at("tokens_per_second"), 0.0) << "a step without time";
  EXPECT_FALSE(lines[0].contains("validation_loss"));
  EXPECT_FALSE(lines[0].contains("note"));
}

TEST(StepLog, AppendsAfterARestartOrBeginsAnew) {
  const coll::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/steps.jsonl";
  for (const bool append : {false, true, true}) StepLog(path, {"run"}, append).write(example());
  EXPECT_EQ(lines_of(path).size(), 3U);
  StepLog(path, {"run"}, false).write(example());
  EXPECT_EQ(lines_of(path).size(), 1U);
}

TEST(StepLog, FailsWhereItCannotWrite) {
  EXPECT_THROW(StepLog("/nowhere/steps.jsonl", {"run"}, false), Failure);
  StepLog full("/dev/full", {"run"}, true);
  EXPECT_THROW(full.write(example()), Failure);
}

}  // namespace step_log_test
}  // namespace training
