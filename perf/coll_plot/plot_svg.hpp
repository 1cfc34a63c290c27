// SPDX-License-Identifier: Apache-2.0
// A chart with two logarithmic axes, as SVG.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace perf {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x, y; those not above 0 are left out
  bool dashed = false;
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series{};
  bool x_is_bytes = true;  ///< its ticks are powers of two: with B, KiB, MiB …, or as they are
};

std::string draw_svg(const Chart& chart);

}  // namespace perf
