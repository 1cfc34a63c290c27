// SPDX-License-Identifier: Apache-2.0
// The log of a run: JSON lines, one for each step, flushed as soon as the step is done.
#pragma once
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "step_record.hpp"

namespace training {

/// A step with the derived figures. What is not finite is NaN here and null in text.
nlohmann::ordered_json to_json(const StepRecord& record, const RunFacts& run);

/// One line of text; broken UTF-8 in a note is repaired.
std::string json_text(const nlohmann::ordered_json& json);

class StepLog {
 public:
  /// A resumed run appends: of two lines of one step the later one counts.
  StepLog(std::string path, RunFacts run, bool append);
  /// Writes the step and flushes. Throws Failure if that fails.
  void write(const StepRecord& record);

 private:
  void check(const char* what) const;
  std::string path_;
  RunFacts run_;
  std::ofstream file_;
};

}  // namespace training
