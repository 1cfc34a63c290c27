// SPDX-License-Identifier: Apache-2.0
// Draws a chart of curves as SVG.
#include "coll_plot/plot_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace perf {
namespace {

constexpr double kWidth = 960, kHeight = 540;
constexpr double kLeft = 76, kTop = 48, kRight = 690, kBottom = 476;  // of the plot area
// Okabe and Ito's colours, told apart also without red and green.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                    "#56b4e9", "#000000", "#8c564b", "#9a9a00", "#7f7f7f"};

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

std::string size_label(int power) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return fmt::format("{} {}", 1 << (power % 10), kUnits[std::min(power / 10, 6)]);
}

/// One axis: from the logarithm of a value to a place on the paper.
struct Axis {
  double low, high;  ///< logarithms
  double start, end;
  [[nodiscard]] double at(double logarithm) const {
    return start + (logarithm - low) / (high - low) * (end - start);
  }
};

bool shown(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second) && point.first > 0 &&
         point.second > 0;
}

void draw_x_ticks(const Axis& x, bool bytes, std::string& out) {
  const int first = static_cast<int>(std::ceil(x.low - 1e-9));
  const int last = static_cast<int>(std::floor(x.high + 1e-9));
  const int step = std::max(1, static_cast<int>(std::ceil((last - first) / 9.0)));
  for (int power = first; power <= last; power += step) {
    const double at = x.at(power);
    out += fmt::format("<line x1='{0:.1f}' y1='{1}' x2='{0:.1f}' y2='{2}' stroke='#e4e4e4'/>\n", at,
                       kTop, kBottom);
    out += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", at, kBottom + 20,
                       bytes ? size_label(power) : std::to_string(std::int64_t{1} << power));
  }
}

void draw_y_ticks(const Axis& y, std::string& out) {
  const bool sparse = y.high - y.low > 2.5;  // decades
  for (int decade = static_cast<int>(std::floor(y.low)); decade <= std::ceil(y.high); ++decade)
    for (int digit = 1; digit <= 9; ++digit) {
      const double logarithm = decade + std::log10(digit);
      if (logarithm < y.low - 1e-9 || logarithm > y.high + 1e-9) continue;
      const bool label = digit == 1 || (!sparse && (digit == 2 || digit == 5));
      if (sparse && !label) continue;
      const double at = y.at(logarithm);
      out += fmt::format("<line x1='{1}' y1='{0:.1f}' x2='{2}' y2='{0:.1f}' stroke='{3}'/>\n", at,
                         kLeft, kRight, digit == 1 ? "#cfcfcf" : "#ececec");
      if (label)
        out += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{:.6g}</text>\n", kLeft - 8,
                           at + 4, std::pow(10.0, logarithm));
    }
}

void draw_series(const Series& series, const Axis& x, const Axis& y, const char* colour,
                 double legend_y, std::string& out) {
  const char* dash = series.dashed ? " stroke-dasharray='6 4'" : "";
  std::string path, marks;
  for (const auto& point : series.points) {
    if (!shown(point)) continue;
    const double px = x.at(std::log2(point.first));
    const double py = y.at(std::log10(point.second));
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", px, py);
    marks += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}' stroke='{}'/>\n", px, py,
                         series.dashed ? "white" : colour, colour);
  }
  out += fmt::format("<polyline points='{}' fill='none' stroke='{}' stroke-width='2'{}/>\n{}", path,
                     colour, dash, marks);
  out += fmt::format(
      "<line x1='{}' y1='{:.1f}' x2='{}' y2='{:.1f}' stroke='{}' stroke-width='2'"
      "{}/>\n",
      kRight + 16, legend_y - 4, kRight + 44, legend_y - 4, colour, dash);
  out += fmt::format("<text x='{}' y='{:.1f}'>{}</text>\n", kRight + 52, legend_y,
                     escaped(series.name));
}

}  // namespace

std::string draw_svg(const Chart& chart) {
  Axis x{1e9, -1e9, kLeft, kRight};
  Axis y{1e9, -1e9, kBottom, kTop};
  for (const Series& series : chart.series)
    for (const auto& point : series.points)
      if (shown(point)) {
        x.low = std::min(x.low, std::log2(point.first));
        x.high = std::max(x.high, std::log2(point.first));
        y.low = std::min(y.low, std::log10(point.second));
        y.high = std::max(y.high, std::log10(point.second));
      }
  const bool empty = x.low > x.high;
  if (empty) {
    x.low = y.low = 0;
    x.high = y.high = 1;
  }
  x.high = std::max(x.high, x.low + 1);
  y.low = std::floor(y.low * 5 - 0.2) / 5;  // a little air, at fifths of a decade
  y.high = std::max(std::ceil(y.high * 5 + 0.2) / 5, y.low + 0.4);

  std::string out = fmt::format(
      "<?xml version='1.0' encoding='UTF-8'?>\n"
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
      "font-family='sans-serif' font-size='12' fill='#222'>\n"
      "<rect width='{0}' height='{1}' fill='white'/>\n"
      "<text x='{2}' y='28' font-size='16'>{3}</text>\n",
      kWidth, kHeight, kLeft, escaped(chart.title));
  draw_x_ticks(x, chart.x_is_bytes, out);
  draw_y_ticks(y, out);
  out += fmt::format("<rect x='{}' y='{}' width='{}' height='{}' fill='none' stroke='#888'/>\n",
                     kLeft, kTop, kRight - kLeft, kBottom - kTop);
  out += fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>\n", (kLeft + kRight) / 2,
                     kHeight - 20, escaped(chart.x_label));
  out +=
      fmt::format("<text transform='translate(20 {}) rotate(-90)' text-anchor='middle'>{}</text>\n",
                  (kTop + kBottom) / 2, escaped(chart.y_label));
  if (empty)
    out += fmt::format("<text x='{}' y='{}' text-anchor='middle'>nothing above 0 to draw</text>\n",
                       (kLeft + kRight) / 2, (kTop + kBottom) / 2);

  const double spacing = std::min(
      20.0, (kBottom - kTop) / std::max<double>(1, static_cast<double>(chart.series.size())));
  // A dashed line has the colour of the solid one before it: the same operation in place.
  std::size_t colour = 0;
  bool any = false;
  double legend_y = kTop + 12;
  for (const Series& series : chart.series) {
    if (any && !series.dashed) colour = (colour + 1) % std::size(kColours);
    any = true;
    draw_series(series, x, y, kColours[colour], legend_y, out);
    legend_y += spacing;
  }
  return out + "</svg>\n";
}

}  // namespace perf
