// SPDX-License-Identifier: Apache-2.0
// The table on the terminal, with nccl-tests' columns.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "coll_perf/coll_perf_measure.hpp"

namespace perf {

/// One line of the table.
struct Row {
  Point point;
  std::optional<Sample> out_of_place;
  std::optional<Sample> in_place;
};

/// What is shown beside nccl-tests' columns.
struct Extras {
  bool percentiles = false;
  bool cpu = false;
  bool overlap = false;
  bool gpu = false;
};
std::string table_head(Operation operation, const Extras& extras);
std::string table_line(const Row& row, const Extras& extras);

/// nccl-tests' closing lines.
struct Summary {
  double busbw = 0;         ///< mean over all samples, GB/s
  std::uint64_t wrong = 0;  ///< elements
};
Summary summarize(const std::vector<Row>& rows);
std::string table_foot(const Summary& summary, bool checked);

const char* redop_text(const Point& point);  ///< "none" where nothing is reduced
int root_number(const Point& point);         ///< -1 where there is none
std::string bytes_text(double bytes);        ///< "8 B", "64 KiB", "1.5 MiB"

}  // namespace perf
