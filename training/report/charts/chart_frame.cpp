// SPDX-License-Identifier: Apache-2.0
// Draws the paper and the legend of charts, and has their colours.
#include "chart_frame.hpp"

#include <fmt/format.h>

#include "../writing/report_text.hpp"
#include "chart.hpp"

namespace training {
namespace {

struct Theme {
  const char *paper, *ink, *faint, *grid, *on_colour;
  const char* colours[kChartColours];
};
// Okabe and Ito's colours, told apart also without red and green; lighter on dark paper.
constexpr Theme kLight{
    "#ffffff", "#222222", "#666666",
    "#e2e2e2", "#ffffff", {"#0072b2", "#d55e00", "#00805c", "#a8528a", "#946200", "#3a7ca5"}};
constexpr Theme kDark{
    "#161a1f", "#e6e6e6", "#a2a8b0",
    "#333a42", "#101010", {"#56b4e9", "#ff9248", "#3fd0a4", "#e39ac6", "#f0b93a", "#a5d4f2"}};

std::string rules(const Theme& theme) {
  std::string out = fmt::format(
      ".chart .paper{{fill:{}}}.chart text{{fill:{};font:12px sans-serif}}"
      ".chart .title{{font-size:15px;font-weight:600}}.chart .faint{{fill:{}}}"
      ".chart .grid{{stroke:{};stroke-width:1}}.chart .inside{{fill:{}}}\n",
      theme.paper, theme.ink, theme.faint, theme.grid, theme.on_colour);
  for (std::size_t i = 0; i < kChartColours; ++i) {
    out += fmt::format(
        ".chart .line{0}{{fill:none;stroke:{1};stroke-width:1.8;stroke-linejoin:round}}"
        ".chart .fill{0}{{fill:{1}}}\n",
        i, theme.colours[i]);
  }
  return out;
}

}  // namespace

std::string chart_style() {
  return rules(kLight) + "@media (prefers-color-scheme: dark){\n" + rules(kDark) + "}\n";
}

double text_width(const std::string& text) {
  double width = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) width += 7.6;
  }
  return width;
}

std::vector<std::vector<LegendEntry>> legend_rows(const std::vector<LegendEntry>& entries) {
  std::vector<std::vector<LegendEntry>> rows;
  double used = 0;
  for (const LegendEntry& entry : entries) {
    const double width = text_width(entry.text) + 34;
    if (rows.empty() || used + width > kChartRight - kChartMargin) {
      rows.emplace_back();
      used = 0;
    }
    rows.back().push_back(entry);
    used += width;
  }
  return rows;
}

std::string draw_legend(const std::vector<std::vector<LegendEntry>>& rows, double top) {
  std::string out;
  for (const auto& row : rows) {
    double x = kChartMargin;
    for (const LegendEntry& entry : row) {
      out += fmt::format(
          "<rect class='fill{}' x='{:.1f}' y='{:.1f}' width='12' height='10' rx='2'/>"
          "<text x='{:.1f}' y='{:.1f}'>{}</text>\n",
          entry.colour % kChartColours, x, top, x + 17, top + 9.5, xml_escaped(entry.text));
      x += text_width(entry.text) + 34;
    }
    top += kLegendRow;
  }
  return out;
}

std::string open_svg(const std::string& title, double height, bool embedded) {
  const std::string name = xml_escaped(shortened(title, 64));
  return fmt::format(
      "{0}<svg class='chart' xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {1} {2}'{3} "
      "role='img' "
      "aria-label='{4}'>\n{5}<rect class='paper' width='{1}' height='{2}'/>\n"
      "<text class='title' x='{6}' y='26'>{4}</text>\n",
      embedded ? "" : "<?xml version='1.0' encoding='UTF-8'?>\n", kChartWidth, height,
      embedded ? "" : fmt::format(" width='{}' height='{}'", kChartWidth, height), name,
      embedded ? "" : "<style>\n" + chart_style() + "</style>\n", kChartMargin);
}

}  // namespace training
