// SPDX-License-Identifier: Apache-2.0
// The line of progress: what it says, when it is written, and how a terminal shows it.
#include "report/progress_line.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <limits>

namespace training {
namespace progress_line_test {

RunFacts run_of(std::uint64_t steps) {
  RunFacts run{"test"};
  run.total_steps = steps;
  run.peak_flops = 1e9;
  return run;
}

StepRecord step_of(std::uint64_t step) {
  StepRecord record;
  record.step = step;
  record.loss = 2.5;
  record.tokens = 1000;
  record.seconds = 0.5;
  record.exposed = 0.125;
  record.flops = 2e8;
  return record;
}

TEST(ProgressLine, SaysAllFigures) {
  ProgressLine progress(run_of(100), 0);
  EXPECT_EQ(progress.after(step_of(40), 1),
            "step 40/100  loss 2.5000  2000 tokens/s  exposed 25.0 %  MFU 40.0 %  30.0 s left\n");
}

TEST(ProgressLine, LeavesOutWhatIsNotKnown) {
  RunFacts run{"test"};
  ProgressLine progress(run, 0);
  StepRecord record = step_of(3);
  record.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(progress.after(record, 1), "step 3  loss nan  2000 tokens/s  exposed 25.0 %\n");
}

TEST(ProgressLine, WritesPlainLinesEveryFewSecondsAndTheLastStep) {
  ProgressLine progress(run_of(100), 0);
  std::vector<std::uint64_t> shown;
  for (std::uint64_t step = 1; step <= 100; ++step) {
    const std::string text = progress.after(step_of(step), 0.1 * static_cast<double>(step));
    EXPECT_EQ(text.find('\r'), std::string::npos);
    if (text.empty()) continue;
    EXPECT_EQ(text.back(), '\n');
    shown.push_back(step);
  }
  EXPECT_EQ(shown, (std::vector<std::uint64_t>{1, 51, 100}));
  EXPECT_EQ(progress.end(), "");
}

TEST(ProgressLine, AveragesOverTheStepsSinceTheLastLine) {
  ProgressLine progress(run_of(100), 0);
  EXPECT_NE(progress.after(step_of(1), 0), "");
  StepRecord slow = step_of(2);
  slow.seconds = 1.5;
  EXPECT_EQ(progress.after(slow, 1), "");
  const std::string text = progress.after(step_of(3), 6);
  EXPECT_NE(text.find("1000 tokens/s"), std::string::npos) << text;    // 2000 in 2 s
  EXPECT_NE(text.find("1 min 20 s left"), std::string::npos) << text;  // 2.5 s of 3 steps
}

TEST(ProgressLine, RewritesTheLineOfATerminal) {
  ProgressLine progress(run_of(100), 200);
  const std::string first = progress.after(step_of(1), 0);
  EXPECT_EQ(first.find_first_of("\r\n"), std::string::npos) << first;
  EXPECT_EQ(progress.after(step_of(2), 0.05), "");
  EXPECT_EQ(progress.after(step_of(3), 0.2).substr(0, 11), "\r\x1b[Kstep 3/");
  EXPECT_EQ(progress.end(), "\n");
  EXPECT_EQ(progress.end(), "");
}

TEST(ProgressLine, NeverWrapsOnATerminal) {
  ProgressLine progress(run_of(100), 20);
  EXPECT_EQ(progress.after(step_of(1), 0).size(), 19U);
}

TEST(ProgressLine, GivesANoteALineOfItsOwn) {
  ProgressLine progress(run_of(100), 200);
  progress.after(step_of(1), 0);
  StepRecord record = step_of(2);
  record.note = "checkpoint written\x1b[2J";
  EXPECT_EQ(progress.after(record, 0.01), "\r\x1b[Kstep 2: checkpoint written[2J\n")
      << "and no control characters";
  EXPECT_EQ(progress.after(step_of(3), 1).substr(0, 7), "step 3/");
}

TEST(TerminalColumns, AreNoneOfAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(terminal_columns(ends[1]), 0U);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace progress_line_test
}  // namespace training
