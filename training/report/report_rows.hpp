// SPDX-License-Identifier: Apache-2.0
// The lines that the table in the terminal and the one in the page share.
#pragma once
#include <string>
#include <vector>

#include "final_report.hpp"

namespace training {

struct ReportRow {
  std::string name, value;
};
std::vector<ReportRow> report_rows(const RunReport& report);

/// Which figures are of all ranks and which of one; empty if there is one rank.
std::string scope_text(const RunFacts& run);

}  // namespace training
