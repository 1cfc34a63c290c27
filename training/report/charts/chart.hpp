// SPDX-License-Identifier: Apache-2.0
// Charts as SVG: lines over a number, and stacked bars. In light or dark, as the reader's system
// is.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace training {

struct Line {
  std::string name;
  /// x and y, by x. What is not finite is a gap in the line.
  std::vector<std::pair<double, double>> points;
  bool marks = false;  ///< each point is marked: there are few
};

struct LineChart {
  std::string title, x_label, y_label;
  std::vector<Line> lines;
  bool from_zero = false;  ///< y begins at 0
};

struct Bar {
  std::string name;
  std::vector<double> parts;  ///< as many as the chart's
};

struct BarChart {
  std::string title;
  std::vector<std::string> parts;
  std::vector<Bar> bars;
  std::string (*text)(double value);  ///< of a part's value
};

/// `embedded` charts stand in an HTML page that has chart_style() in its head; others bring it
/// along.
std::string svg_of(const LineChart& chart, bool embedded);
std::string svg_of(const BarChart& chart, bool embedded);

/// CSS rules of all charts: for light, and for dark where the system is dark.
std::string chart_style();

}  // namespace training
