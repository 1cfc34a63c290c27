// SPDX-License-Identifier: Apache-2.0
// The lines of the printed table.
#include "coll_perf/coll_perf_table.hpp"

#include <fmt/format.h>

namespace perf {
namespace {

/// A number in `width` columns with as many decimals (at most 3) as fit.
std::string number(double value, int width) {
  double power = 10;
  int decimals = 3;
  for (; decimals > 0 && value >= power; power *= 10) --decimals;
  return fmt::format("{:>{}.{}f}", value, width, decimals);
}

/// A column of ours.
struct Column {
  const char* name;
  const char* unit;
  int width;
  double (*value)(const Sample& sample);
};

std::vector<Column> columns_of(const Extras& extras) {
  std::vector<Column> columns;
  const auto add = [&](std::initializer_list<Column> list) { columns.insert(columns.end(), list); };
  if (extras.percentiles)
    add({{"min", "(us)", 9, [](const Sample& s) { return s.percentiles->min * 1e6; }},
         {"median", "(us)", 9, [](const Sample& s) { return s.percentiles->median * 1e6; }},
         {"p99", "(us)", 9, [](const Sample& s) { return s.percentiles->p99 * 1e6; }}});
  if (extras.cpu)
    add({{"cpu", "(us)", 9, [](const Sample& s) { return s.cpu_s * 1e6; }},
         {"cores", "", 6, [](const Sample& s) { return s.cores; }}});
  if (extras.overlap)
    add({{"comm", "(us)", 9, [](const Sample& s) { return s.overlap->comm_s * 1e6; }},
         {"compute", "(us)", 9, [](const Sample& s) { return s.overlap->compute_s * 1e6; }},
         {"total", "(us)", 9, [](const Sample& s) { return s.overlap->total_s * 1e6; }},
         {"overlap", "(%)", 7, [](const Sample& s) { return s.overlap->percent(); }}});
  if (extras.gpu) add({{"limit", "(%)", 6, [](const Sample& s) { return s.gpu->fraction * 100; }}});
  return columns;
}

std::string half_line(const std::optional<Sample>& sample, const Extras& extras) {
  std::string text = !sample
                         ? fmt::format(" {:>9} {:>7} {:>7} {:>6}", "-", "-", "-", "-")
                         : fmt::format(" {} {} {} {:>6}", number(sample->time_s * 1e6, 9),
                                       number(sample->algbw, 7), number(sample->busbw, 7),
                                       sample->wrong ? fmt::format("{}", *sample->wrong) : "N/A");
  for (const Column& column : columns_of(extras))
    text += sample ? " " + number(column.value(*sample), column.width)
                   : fmt::format(" {:>{}}", "-", column.width);
  return text;
}

}  // namespace

const char* redop_text(const Point& point) {
  return traits(point.operation).reduces ? redop_name(point.redop) : "none";
}

int root_number(const Point& point) {
  return traits(point.operation).rooted ? point.root : -1;
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

std::string table_head(Operation operation, const Extras& extras) {
  std::string columns = fmt::format(" {:>9} {:>7} {:>7} {:>6}", "time", "algbw", "busbw", "#wrong");
  std::string units = fmt::format(" {:>9} {:>7} {:>7} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  for (const Column& column : columns_of(extras)) {
    columns += fmt::format(" {:>{}}", column.name, column.width);
    units += fmt::format(" {:>{}}", column.unit, column.width);
  }
  const std::size_t width = columns.size();
  std::string text = fmt::format("#\n# {}\n", traits(operation).name);
  text += fmt::format("# {:>10} {:>12} {:>9} {:>6} {:>5}{:^{}} {:^{}}\n", "", "", "", "", "",
                      "out-of-place", width, "in-place", width);
  text += fmt::format("# {:>10} {:>12} {:>9} {:>6} {:>5}{} {}\n", "size", "count", "type", "redop",
                      "root", columns, columns);
  text += fmt::format("# {:>10} {:>12} {:>9} {:>6} {:>5}{} {}\n", "(B)", "(elements)", "", "", "",
                      units, units);
  return text;
}

std::string table_line(const Row& row, const Extras& extras) {
  const Point& point = row.point;
  return fmt::format("{:>12} {:>12} {:>9} {:>6} {:>5}{} {}\n", point.shape.bytes, point.shape.count,
                     dtype_name(point.type), redop_text(point), root_number(point),
                     half_line(row.out_of_place, extras), half_line(row.in_place, extras));
}

Summary summarize(const std::vector<Row>& rows) {
  Summary summary;
  int samples = 0;
  for (const Row& row : rows)
    for (const auto* sample : {&row.out_of_place, &row.in_place})
      if (*sample) {
        summary.busbw += (*sample)->busbw;
        summary.wrong += (*sample)->wrong.value_or(0);
        ++samples;
      }
  if (samples > 0) summary.busbw /= samples;
  return summary;
}

std::string table_foot(const Summary& summary, bool checked) {
  return fmt::format("#\n# Out of bounds values : {}\n# Avg bus bandwidth    : {:.4f} GB/s\n#\n",
                     !checked             ? std::string("not checked (-c 0)")
                     : summary.wrong == 0 ? std::string("0 OK")
                                          : fmt::format("{} FAILED", summary.wrong),
                     summary.busbw);
}

}  // namespace perf
