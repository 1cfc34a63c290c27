// SPDX-License-Identifier: Apache-2.0
// What a run says at its end: a table in the terminal, a page of HTML with charts, and JSON.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "step_record.hpp"

namespace training {

/// Where the trainer collects what the report is made of.
struct RunReport {
  RunFacts run;
  std::vector<StepRecord> steps;
  std::vector<std::pair<std::string, std::uint64_t>> bytes_by_operation;  ///< ("all_reduce", …)
  std::string stragglers;  ///< straggler_text(); empty: not looked for
};

/// The run in figures. What no step measured is NaN.
struct Summary {
  StepRecord sum;     ///< of what adds up: tokens, seconds and their parts, bytes, FLOPs
  StepRecord median;  ///< the step of median time
  StepRecord slowest;
  StepRecord last;  ///< `peak` in it: the highest of all steps
  double lowest_loss, first_loss;
  double validation_loss, best_validation_loss, validation_accuracy;  ///< last, lowest, last
  std::size_t not_finite = 0;                                         ///< steps whose loss was not
};
Summary summary_of(const std::vector<StepRecord>& steps);

std::string report_table(const RunReport& report);
nlohmann::ordered_json report_json(const RunReport& report);
/// One file without scripts that needs no other; also well-formed XML.
std::string report_html(const RunReport& report);
/// The loss over the steps, as an SVG file.
std::string loss_svg(const RunReport& report);

/// Writes report.json, report.html and loss.svg into the folder. Throws Failure.
void write_report(const RunReport& report, const std::string& folder);

}  // namespace training
