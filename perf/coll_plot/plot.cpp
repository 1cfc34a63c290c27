// SPDX-License-Identifier: Apache-2.0
// Coll-plot, which draws lines of "series,bytes,value" from standard input as SVG on standard
// output.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>

#include "coll_plot/plot_svg.hpp"
#include "command_line.hpp"

namespace {

/// "name,8,0.33": false if it is no such line. A name that starts with "-" is dashed, without it.
bool add_line(const std::string& line, perf::Chart& chart) {
  const std::size_t second = line.rfind(',');
  const std::size_t first =
      second == 0 || second == line.npos ? line.npos : line.rfind(',', second - 1);
  if (first == line.npos || first == 0) return false;
  char *x_end = nullptr, *y_end = nullptr;
  const double x = std::strtod(line.c_str() + first + 1, &x_end);
  const double y = std::strtod(line.c_str() + second + 1, &y_end);
  if (x_end != line.c_str() + second || y_end == line.c_str() + second + 1 || *y_end != 0)
    return false;
  const bool dashed = line[0] == '-';
  const std::string name = line.substr(dashed ? 1 : 0, first - (dashed ? 1 : 0));
  auto series = std::find_if(chart.series.begin(), chart.series.end(),
                             [&](const perf::Series& s) { return s.name == name; });
  if (series == chart.series.end())
    series = chart.series.insert(chart.series.end(), {name, {}, dashed});
  series->points.emplace_back(x, y);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Draws lines of \"series,bytes,value\" as SVG; -series is dashed.", "coll-plot"};
  perf::Chart chart;
  chart.x_label = "size";
  app.add_option("--title", chart.title, "Above the chart");
  app.add_option("--y", chart.y_label, "What the values are");
  if (const auto code = perf::parse_command_line(app, argc, argv)) return *code;
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number)
    if (!add_line(line, chart)) {
      fmt::print(stderr, "coll-plot: line {} is not \"series,bytes,value\": {}\n", number, line);
      return 2;
    }
  std::cout << perf::draw_svg(chart) << std::flush;
  return std::cout ? 0 : 2;
}
