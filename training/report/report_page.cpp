// SPDX-License-Identifier: Apache-2.0
// Writes the page of a run, and its charts.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "charts/chart.hpp"
#include "final_report.hpp"
#include "report_rows.hpp"
#include "writing/report_text.hpp"

namespace training {
namespace {

constexpr std::size_t kMostNotes = 100;

constexpr const char* kPageStyle = R"(
:root{color-scheme:light dark}
body{margin:0 auto;padding:24px;max-width:1480px;font:15px/1.45 sans-serif;background:#f5f5f3;color:#222}
h1{font-size:22px;margin:0 0 12px;overflow-wrap:anywhere}
h2{font-size:16px;margin:24px 0 8px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,560px),1fr));gap:16px;align-items:start}
.chart{width:100%;height:auto;border-radius:6px}
table{border-collapse:collapse;margin:12px 0 20px;width:100%}
th,td{text-align:left;font-weight:400;padding:3px 18px 3px 0;vertical-align:top;overflow-wrap:anywhere;border-bottom:1px solid #d9d9d6}
th{color:#666;width:230px}
@media (prefers-color-scheme: dark){body{background:#0d1013;color:#e6e6e6}th{color:#a2a8b0}th,td{border-color:#2a3037}}
)";

/// A line of a figure of each step, over the step or over the seconds since the begin.
template <class Figure>
Line line_of(const RunReport& report, const char* name, bool over_seconds, Figure figure) {
  Line line{name, {}};
  double seconds = 0;
  for (const StepRecord& step : report.steps) {
    seconds += step.seconds;
    line.points.emplace_back(over_seconds ? seconds : static_cast<double>(step.step), figure(step));
  }
  return line;
}

LineChart loss_chart(const RunReport& report, const std::string& title, bool over_seconds) {
  LineChart chart{title, over_seconds ? "seconds of steps" : "step", "loss", {}};
  chart.lines.push_back(
      line_of(report, "training", over_seconds, [](const StepRecord& s) { return s.loss; }));
  Line validation = line_of(report, "validation", over_seconds, [](const StepRecord& s) {
    return s.validation_loss.value_or(std::numeric_limits<double>::quiet_NaN());
  });
  // Steps that measured none are no gap.
  std::erase_if(validation.points, [](const auto& point) { return point.second != point.second; });
  validation.marks = validation.points.size() <= 100;
  if (!validation.points.empty()) chart.lines.push_back(std::move(validation));
  return chart;
}

LineChart speed_chart(const RunReport& report) {
  LineChart chart{"Speed", "step", "tokens per second, all ranks", {}, true};
  chart.lines.push_back(line_of(report, "tokens/s", false,
                                [](const StepRecord& s) { return s.tokens_per_second(); }));
  return chart;
}

LineChart communication_chart(const RunReport& report) {
  LineChart chart{"Communication", "step", "milliseconds of a step", {}, true};
  chart.lines.push_back(line_of(report, "exposed: training waited", false,
                                [](const StepRecord& s) { return s.exposed * 1e3; }));
  chart.lines.push_back(line_of(report, "all operations, issue to end", false,
                                [](const StepRecord& s) { return s.communication * 1e3; }));
  return chart;
}

BarChart memory_chart(const Summary& all) {
  BarChart chart{
      "Memory by use", {}, {{"in use at the end", {}}, {"peaks of each use", {}}}, bytes_text};
  for (std::size_t i = 0; i < kUses; ++i) {
    chart.parts.emplace_back(name_of(static_cast<Use>(i)));
    chart.bars[0].parts.push_back(static_cast<double>(all.last.memory[i]));
    chart.bars[1].parts.push_back(static_cast<double>(all.last.peak[i]));
  }
  return chart;
}

BarChart time_chart(const RunReport& report, const Summary& all) {
  const auto parts = [](const StepRecord& step, double steps) {
    return std::vector<double>{step.forward / steps, step.backward / steps, step.optimizer / steps,
                               step.exposed / steps, step.other() / steps};
  };
  BarChart chart{"Where a step's time goes",
                 {"forward", "backward", "optimizer", "exposed communication", "other"},
                 {},
                 duration_text};
  const auto steps = static_cast<double>(std::max<std::size_t>(report.steps.size(), 1));
  chart.bars.push_back({"mean step", parts(all.sum, steps)});
  chart.bars.push_back({fmt::format("median step ({})", all.median.step), parts(all.median, 1)});
  chart.bars.push_back({fmt::format("slowest step ({})", all.slowest.step), parts(all.slowest, 1)});
  return chart;
}

std::string row(const std::string& name, const std::string& value) {
  return fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", xml_escaped(name), xml_escaped(value));
}

/// The last notes of the steps.
std::string notes(const std::vector<StepRecord>& steps) {
  std::vector<const StepRecord*> with_note;
  for (const StepRecord& step : steps)
    if (!step.note.empty()) with_note.push_back(&step);
  if (with_note.empty()) return "";
  std::string out = "<h2>Notes</h2>\n";
  std::size_t first = 0;
  if (with_note.size() > kMostNotes) {
    first = with_note.size() - kMostNotes;
    out += fmt::format("<p>The last {} of {}.</p>\n", kMostNotes, with_note.size());
  }
  out += "<table>\n";
  for (std::size_t i = first; i < with_note.size(); ++i)
    out += row(fmt::format("step {}", with_note[i]->step), with_note[i]->note);
  return out + "</table>\n";
}

}  // namespace

std::string loss_svg(const RunReport& report) {
  const std::string title = report.run.name.empty() ? "Loss" : "Loss of " + report.run.name;
  return svg_of(loss_chart(report, title, false), false);
}

std::string report_html(const RunReport& report) {
  const Summary all = summary_of(report.steps);
  const std::string name = xml_escaped(report.run.name);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{0}</title>\n<style>{1}{2}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      name, kPageStyle, chart_style());
  for (const std::string& text : {scope_text(report.run), report.stragglers})
    if (!text.empty()) out += "<p>" + xml_escaped(text) + "</p>\n";
  out += "<div class=\"charts\">\n";
  if (!report.steps.empty()) {
    out += svg_of(loss_chart(report, "Loss over steps", false), true);
    out += svg_of(loss_chart(report, "Loss over time", true), true);
    out += svg_of(speed_chart(report), true);
    out += svg_of(communication_chart(report), true);
    out += svg_of(time_chart(report, all), true);
    out += svg_of(memory_chart(all), true);
  }
  out += "</div>\n<h2>The run</h2>\n<table>\n";
  for (const ReportRow& line : report_rows(report)) out += row(line.name, line.value);
  return out + "</table>\n" + notes(report.steps) + "</body>\n</html>\n";
}

}  // namespace training
