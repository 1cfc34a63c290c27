// SPDX-License-Identifier: Apache-2.0
// What a person sees while training runs: one line that is rewritten in place on a terminal, and a
// line every few seconds elsewhere.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "step_record.hpp"

namespace training {

/// The width of the terminal behind a file descriptor; 0 if there is none.
std::size_t terminal_columns(int descriptor);

/// Says what to write, and the caller writes it. Figures are means over the steps since the last
/// line; the time left follows the mean of all steps since the program began.
class ProgressLine {
 public:
  static constexpr double kTerminalEvery = 0.1, kPlainEvery = 5;  ///< seconds

  /// `columns` as terminal_columns() tells.
  ProgressLine(RunFacts run, std::size_t columns);

  /// The text to write after a step, often empty. A note has a line of its own, at once; the last
  /// step is always shown. `now`: seconds of a steady clock.
  std::string after(const StepRecord& record, double now);
  /// Ends the line that is on the terminal, so that other text can follow.
  std::string end();

 private:
  [[nodiscard]] std::string line(const StepRecord& last) const;
  RunFacts run_;
  std::size_t columns_;
  bool open_ = false;  ///< a line without an end is on the terminal
  double shown_at_ = -1e300, all_seconds_ = 0;
  std::uint64_t steps_ = 0;
  StepRecord sum_;  ///< since the last line
};

}  // namespace training
