// SPDX-License-Identifier: Apache-2.0
// What all charts have: the paper, a title, a legend, and how wide a text is.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace training {

inline constexpr double kChartWidth = 720;
inline constexpr double kChartLeft = 72, kChartRight = 696;
inline constexpr double kChartMargin = 16;
inline constexpr std::size_t kChartColours = 6;

/// An upper bound of a text's width at the charts' font size of 12.
double text_width(const std::string& text);

struct LegendEntry {
  std::string text;
  std::size_t colour;
};
/// The rows of a legend's entries, none wider than the paper.
std::vector<std::vector<LegendEntry>> legend_rows(const std::vector<LegendEntry>& entries);
std::string draw_legend(const std::vector<std::vector<LegendEntry>>& rows, double top);
inline constexpr double kLegendRow = 18;

/// Opens the SVG and writes the title, cut where it is too long.
std::string open_svg(const std::string& title, double height, bool embedded);

}  // namespace training
