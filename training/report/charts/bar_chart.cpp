// SPDX-License-Identifier: Apache-2.0
// Draws bars of stacked parts, from left to right, one below the other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../writing/report_text.hpp"
#include "chart.hpp"
#include "chart_frame.hpp"

namespace training {
namespace {

constexpr double kBarStep = 56, kBarHeight = 26;

double length_of(double value) {
  return std::isfinite(value) && value > 0 ? value : 0;
}

double sum_of(const Bar& bar) {
  double sum = 0;
  for (const double part : bar.parts) sum += length_of(part);
  return sum;
}

/// One bar below its name and its sum; a part's value is in it where it has room.
std::string draw_bar(const BarChart& chart, const Bar& bar, double top, double longest) {
  const double sum = sum_of(bar);
  std::string out = fmt::format("<text x='{}' y='{:.1f}'>{}: {}</text>\n", kChartMargin, top + 12,
                                xml_escaped(shortened(bar.name, 60)), xml_escaped(chart.text(sum)));
  double x = kChartMargin;
  for (std::size_t i = 0; i < bar.parts.size() && longest > 0; ++i) {
    const double width = length_of(bar.parts[i]) / longest * (kChartRight - kChartMargin);
    if (width <= 0) continue;
    const std::string text = chart.text(bar.parts[i]);
    out += fmt::format(
        "<rect class='fill{}' x='{:.2f}' y='{:.1f}' width='{:.2f}' height='{}'><title>{}: "
        "{}</title></rect>\n",
        i % kChartColours, x, top + 18, width, kBarHeight, xml_escaped(chart.parts[i]),
        xml_escaped(text));
    if (width > text_width(text) + 6) {
      out +=
          fmt::format("<text class='inside' x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n",
                      x + width / 2, top + 18 + kBarHeight / 2 + 4, xml_escaped(text));
    }
    x += width;
  }
  return out;
}

}  // namespace

std::string svg_of(const BarChart& chart, bool embedded) {
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < chart.parts.size(); ++i)
    entries.push_back({chart.parts[i], i % kChartColours});
  const auto rows = legend_rows(entries);
  double longest = 0;
  for (const Bar& bar : chart.bars) longest = std::max(longest, sum_of(bar));
  double top = 48 + kLegendRow * static_cast<double>(rows.size());
  const double height = top + kBarStep * static_cast<double>(chart.bars.size()) + 12;
  std::string out = open_svg(chart.title, height, embedded) + draw_legend(rows, 42);
  for (const Bar& bar : chart.bars) {
    out += draw_bar(chart, bar, top, longest);
    top += kBarStep;
  }
  return out + "</svg>\n";
}

}  // namespace training
