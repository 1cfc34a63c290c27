// SPDX-License-Identifier: Apache-2.0
// Draws lines over a number, with linear axes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../writing/report_text.hpp"
#include "chart.hpp"
#include "chart_frame.hpp"

namespace training {
namespace {

constexpr double kPlotHeight = 230;
constexpr std::size_t kMostPoints = 1200;  // of a line: more than the paper shows

struct Axis {
  double low = 0, high = 1;
  double start = 0, end = 1;  ///< on the paper
  double step = 1;            ///< from tick to tick
  [[nodiscard]] double at(double value) const {
    return start + (value - low) / (high - low) * (end - start);
  }
};

bool shown(const std::pair<double, double>& point) {
  return std::abs(point.first) < 1e300 && std::abs(point.second) < 1e300;  // not NaN
}

/// 1, 2 or 5 times a power of ten: about `ticks` of them are in the span.
double nice_step(double span, double ticks) {
  const double power = std::pow(10, std::floor(std::log10(span / ticks)));
  const double digit = span / ticks / power;
  return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

/// Makes room where all values are one.
void widen(Axis& axis) {
  const double size = std::max(std::abs(axis.low), std::abs(axis.high));
  const double least = size > 0 ? size * 1e-4 : 1;
  if (axis.high - axis.low >= least) return;
  const double middle = (axis.low + axis.high) / 2;
  axis.low = middle - least / 2;
  axis.high = middle + least / 2;
}

/// Both axes around all points; false if there are none.
bool fit(const LineChart& chart, Axis& x, Axis& y) {
  bool any = false;
  for (const Line& line : chart.lines) {
    for (const auto& point : line.points) {
      if (!shown(point)) continue;
      x.low = any ? std::min(x.low, point.first) : point.first;
      x.high = any ? std::max(x.high, point.first) : point.first;
      y.low = any ? std::min(y.low, point.second) : point.second;
      y.high = any ? std::max(y.high, point.second) : point.second;
      any = true;
    }
  }
  if (chart.from_zero) {
    y.low = std::min(y.low, 0.0);
    y.high = std::max(y.high, 0.0);
  }
  if (x.low == x.high && x.low > 0) x = {0, 2 * x.low, x.start, x.end, x.step};
  widen(x);
  widen(y);
  x.step = nice_step(x.high - x.low, 7);
  y.step = nice_step(y.high - y.low, 5);
  y.low = std::floor(y.low / y.step) * y.step;
  y.high = std::ceil(y.high / y.step) * y.step;
  return any;
}

/// A tick's value with just the digits that tell it from its neighbours.
std::string tick_text(double value, const Axis& axis) {
  const double size = std::max(std::abs(axis.low), std::abs(axis.high));
  if (size < 1e-4 || size >= 1e18) return fmt::format("{:.1e}", value);
  double unit = 1;
  const char* letter = "";
  if (size >= 1e4) {
    constexpr const char* kLetters[] = {"k", "M", "G", "T", "P"};
    const auto thousands = static_cast<std::size_t>(std::min(std::log10(size) / 3, 5.0));
    unit = std::pow(1000.0, static_cast<double>(thousands));
    letter = kLetters[thousands - 1];
  }
  if (std::abs(value) < axis.step / 2) return "0";
  const int digits = static_cast<int>(std::ceil(-std::log10(axis.step / unit) - 1e-9));
  return fmt::format("{:.{}f}{}", value / unit, std::clamp(digits, 0, 9), letter);
}

/// `visit(place, text)` for each tick.
template <class Visit>
void for_ticks(const Axis& axis, Visit visit) {
  const double first = std::ceil(axis.low / axis.step - 1e-9);
  for (int i = 0; (first + i) * axis.step <= axis.high + axis.step * 1e-6; ++i) {
    const double value = (first + i) * axis.step;
    visit(axis.at(value), tick_text(value, axis));
  }
}

/// Keeps of each run of points the lowest and the highest, so that no spike is lost.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& all) {
  if (all.size() <= kMostPoints) return all;
  std::vector<std::pair<double, double>> kept;
  const std::size_t runs = kMostPoints / 2;
  for (std::size_t run = 0; run < runs; ++run) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(all.size() * run / runs);
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(all.size() * (run + 1) / runs);
    auto low = end, high = end, gap = end;
    for (auto point = begin; point != end; ++point) {
      if (!shown(*point)) {
        gap = point;
        continue;
      }
      if (low == end || point->second < low->second) low = point;
      if (high == end || point->second > high->second) high = point;
    }
    std::vector<decltype(low)> of_run;
    for (auto point : {low, high, gap})
      if (point != end && std::find(of_run.begin(), of_run.end(), point) == of_run.end())
        of_run.push_back(point);
    std::sort(of_run.begin(), of_run.end());
    for (auto point : of_run) kept.push_back(*point);
  }
  return kept;
}

std::string draw_line(const Line& line, const Axis& x, const Axis& y, std::size_t colour) {
  std::string path, marks;
  std::size_t in_piece = 0;  // points since the last gap
  std::pair<double, double> at;
  const auto end_piece = [&] {
    // A point between two gaps has no line.
    if (in_piece == 1 && !line.marks)
      marks += fmt::format("<circle class='fill{}' cx='{:.1f}' cy='{:.1f}' r='2.5'/>\n", colour,
                           at.first, at.second);
    in_piece = 0;
  };
  for (const auto& point : thinned(line.points)) {
    if (!shown(point)) {
      end_piece();
      continue;
    }
    at = {x.at(point.first), y.at(point.second)};
    path += fmt::format("{}{:.1f} {:.1f}", in_piece == 0 ? "M" : "L", at.first, at.second);
    ++in_piece;
    if (line.marks)
      marks += fmt::format("<circle class='fill{}' cx='{:.1f}' cy='{:.1f}' r='3'/>\n", colour,
                           at.first, at.second);
  }
  end_piece();
  return (path.empty() ? "" : fmt::format("<path class='line{}' d='{}'/>\n", colour, path)) + marks;
}

}  // namespace

std::string svg_of(const LineChart& chart, bool embedded) {
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < chart.lines.size() && chart.lines.size() > 1; ++i)
    entries.push_back({chart.lines[i].name, i % kChartColours});
  const auto rows = legend_rows(entries);
  const double top = 70 + kLegendRow * static_cast<double>(rows.size());
  const double bottom = top + kPlotHeight;
  Axis x{0, 1, kChartLeft, kChartRight, 1}, y{0, 1, bottom, top, 1};
  const bool any = fit(chart, x, y);

  std::string out = open_svg(chart.title, bottom + 48, embedded) + draw_legend(rows, 42);
  out += fmt::format("<text class='faint' x='{}' y='{:.1f}'>{}</text>\n", kChartMargin, top - 16,
                     xml_escaped(chart.y_label));
  out += fmt::format("<text class='faint' x='{:.1f}' y='{:.1f}' text-anchor='end'>{}</text>\n",
                     kChartRight, bottom + 38, xml_escaped(chart.x_label));
  const double middle = (kChartLeft + kChartRight) / 2;
  if (!any) {
    return out + fmt::format(
                     "<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>no finite values to "
                     "draw</text>\n</svg>\n",
                     middle, (top + bottom) / 2);
  }
  for_ticks(y, [&](double at, const std::string& text) {
    out += fmt::format(
        "<line class='grid' x1='{0}' y1='{1:.1f}' x2='{2}' y2='{1:.1f}'/>"
        "<text x='{3}' y='{4:.1f}' text-anchor='end'>{5}</text>\n",
        kChartLeft, at, kChartRight, kChartLeft - 8, at + 4, text);
  });
  for_ticks(x, [&](double at, const std::string& text) {
    out += fmt::format(
        "<line class='grid' x1='{0:.1f}' y1='{1:.1f}' x2='{0:.1f}' y2='{2:.1f}'/>"
        "<text x='{0:.1f}' y='{3:.1f}' text-anchor='middle'>{4}</text>\n",
        at, bottom, bottom + 4, bottom + 19, text);
  });
  for (std::size_t i = 0; i < chart.lines.size(); ++i)
    out += draw_line(chart.lines[i], x, y, i % kChartColours);
  return out + "</svg>\n";
}

}  // namespace training
