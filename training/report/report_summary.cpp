// SPDX-License-Identifier: Apache-2.0
// Sums up the steps of a run, as figures, a table and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "final_report.hpp"
#include "report_rows.hpp"
#include "step_log.hpp"
#include "writing/replace_file.hpp"
#include "writing/report_text.hpp"

namespace training {
namespace {

using nlohmann::ordered_json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::string loss_text(double loss) {
  return std::isfinite(loss) ? fmt::format("{:.4f}", loss) : "-";
}

std::string share_text(double part, double whole) {
  return fmt::format("{} ({})", duration_text(part), percent_text(whole > 0 ? part / whole : 0));
}

void add(const StepRecord& step, StepRecord& sum) {
  sum.tokens += step.tokens;
  sum.seconds += step.seconds;
  sum.forward += step.forward;
  sum.backward += step.backward;
  sum.optimizer += step.optimizer;
  sum.exposed += step.exposed;
  sum.communication += step.communication;
  sum.bytes_sent += step.bytes_sent;
  sum.flops += step.flops;
}

}  // namespace

Summary summary_of(const std::vector<StepRecord>& steps) {
  Summary out{};
  out.lowest_loss = out.first_loss = out.validation_loss = out.best_validation_loss =
      out.validation_accuracy = kNone;
  if (steps.empty()) return out;
  out.last = steps.back();
  out.first_loss = steps.front().loss;
  for (const StepRecord& step : steps) {
    add(step, out.sum);
    if (std::isfinite(step.loss)) {
      out.lowest_loss = std::fmin(out.lowest_loss, step.loss);
    } else {
      ++out.not_finite;
    }
    if (step.validation_loss) {
      out.validation_loss = *step.validation_loss;
      out.best_validation_loss = std::fmin(out.best_validation_loss, *step.validation_loss);
    }
    if (step.validation_accuracy) out.validation_accuracy = *step.validation_accuracy;
    for (std::size_t i = 0; i < kUses; ++i)
      out.last.peak[i] = std::max(out.last.peak[i], step.peak[i]);
    out.last.peak_of_all = std::max(out.last.peak_of_all, step.peak_of_all);
  }
  std::vector<const StepRecord*> by_time;
  for (const StepRecord& step : steps) by_time.push_back(&step);
  std::sort(by_time.begin(), by_time.end(),
            [](const auto* a, const auto* b) { return a->seconds < b->seconds; });
  out.median = *by_time[(by_time.size() - 1) / 2];
  out.slowest = *by_time.back();
  return out;
}

std::vector<ReportRow> report_rows(const RunReport& report) {
  const Summary all = summary_of(report.steps);
  const StepRecord& sum = all.sum;
  std::vector<ReportRow> rows;
  for (const auto& [name, value] : report.run.facts) rows.push_back({clean(name), clean(value)});
  rows.push_back({"ranks", fmt::format("{}", report.run.ranks)});
  rows.push_back({"steps", fmt::format("{} (the last is {} of {})", report.steps.size(),
                                       all.last.step, report.run.total_steps)});
  rows.push_back({"loss", fmt::format("{} at the first step, {} at the last, {} at the lowest",
                                      loss_text(all.first_loss), loss_text(all.last.loss),
                                      loss_text(all.lowest_loss))});
  if (all.not_finite > 0)
    rows.push_back({"steps without a finite loss", fmt::format("{}", all.not_finite)});
  if (std::isfinite(all.validation_loss))
    rows.push_back({"validation loss", fmt::format("{}, lowest {}", loss_text(all.validation_loss),
                                                   loss_text(all.best_validation_loss))});
  if (std::isfinite(all.validation_accuracy))
    rows.push_back({"validation accuracy", percent_text(all.validation_accuracy)});
  rows.push_back({"time", fmt::format("{}, median step {}, slowest {} (step {})",
                                      duration_text(sum.seconds), duration_text(all.median.seconds),
                                      duration_text(all.slowest.seconds), all.slowest.step)});
  rows.push_back(
      {"tokens", fmt::format("{}, {} per second", short_number(static_cast<double>(sum.tokens)),
                             short_number(sum.tokens_per_second()))});
  if (report.run.peak_flops > 0)
    rows.push_back(
        {"MFU", fmt::format("{} of {} GFLOP/s", percent_text(sum.mfu(report.run.peak_flops)),
                            short_number(report.run.peak_flops / 1e9))});
  rows.push_back({"forward", share_text(sum.forward, sum.seconds)});
  rows.push_back({"backward", share_text(sum.backward, sum.seconds)});
  rows.push_back({"optimizer", share_text(sum.optimizer, sum.seconds)});
  rows.push_back({"exposed communication", share_text(sum.exposed, sum.seconds)});
  rows.push_back({"communication, issue to end", duration_text(sum.communication)});
  rows.push_back({"sent", bytes_text(static_cast<double>(sum.bytes_sent))});
  for (const auto& [name, bytes] : report.bytes_by_operation)
    rows.push_back({"sent by " + clean(name), bytes_text(static_cast<double>(bytes))});
  rows.push_back({"peak memory", bytes_text(static_cast<double>(all.last.peak_of_all))});
  for (std::size_t i = 0; i < kUses; ++i)
    rows.push_back({fmt::format("peak of {}", name_of(static_cast<Use>(i))),
                    bytes_text(static_cast<double>(all.last.peak[i]))});
  return rows;
}

std::string scope_text(const RunFacts& run) {
  return run.ranks == 1 ? ""
                        : fmt::format(
                              "Loss, tokens and MFU are those of all ranks; times, bytes "
                              "and memory those of rank {}.",
                              run.rank);
}

std::string report_table(const RunReport& report) {
  const auto rows = report_rows(report);
  std::size_t widest = 0;
  for (const ReportRow& row : rows) widest = std::max(widest, row.name.size());
  std::string out = clean(report.run.name) + "\n";
  for (const ReportRow& row : rows)
    out += fmt::format("  {:<{}}  {}\n", row.name, widest, row.value);
  for (const std::string& text : {scope_text(report.run), report.stragglers})
    if (!text.empty()) out += text + "\n";
  return out;
}

nlohmann::ordered_json report_json(const RunReport& report) {
  const Summary all = summary_of(report.steps);
  ordered_json out;
  out["schema"] = 1;
  out["name"] = report.run.name;
  out["facts"] = ordered_json::object();
  for (const auto& [name, value] : report.run.facts) out["facts"][name] = value;
  out["rank"] = report.run.rank;
  out["ranks"] = report.run.ranks;
  out["total_steps"] = report.run.total_steps;
  out["peak_flops"] = report.run.peak_flops > 0 ? report.run.peak_flops : kNone;
  ordered_json& summary = out["summary"];
  summary["steps"] = report.steps.size();
  summary["seconds"] = all.sum.seconds;
  summary["median_step_seconds"] = all.median.seconds;
  summary["slowest_step_seconds"] = all.slowest.seconds;
  summary["forward_seconds"] = all.sum.forward;
  summary["backward_seconds"] = all.sum.backward;
  summary["optimizer_seconds"] = all.sum.optimizer;
  summary["exposed_seconds"] = all.sum.exposed;
  summary["communication_seconds"] = all.sum.communication;
  summary["tokens"] = all.sum.tokens;
  summary["tokens_per_second"] = all.sum.tokens_per_second();
  summary["mfu"] = all.sum.mfu(report.run.peak_flops);
  summary["first_loss"] = all.first_loss;
  summary["last_loss"] = all.last.loss;
  summary["lowest_loss"] = all.lowest_loss;
  summary["steps_without_finite_loss"] = all.not_finite;
  summary["validation_loss"] = all.validation_loss;
  summary["lowest_validation_loss"] = all.best_validation_loss;
  summary["validation_accuracy"] = all.validation_accuracy;
  summary["bytes_sent"] = all.sum.bytes_sent;
  summary["bytes_by_operation"] = ordered_json::object();
  for (const auto& [name, bytes] : report.bytes_by_operation)
    summary["bytes_by_operation"][name] = bytes;
  summary["memory_peak_of_all_bytes"] = all.last.peak_of_all;
  for (std::size_t i = 0; i < kUses; ++i)
    summary["memory_peak_bytes"][name_of(static_cast<Use>(i))] = all.last.peak[i];
  out["stragglers"] = report.stragglers;
  out["steps"] = ordered_json::array();
  for (const StepRecord& step : report.steps) out["steps"].push_back(to_json(step, report.run));
  return out;
}

void write_report(const RunReport& report, const std::string& folder) {
  replace_file(folder + "/report.json", json_text(report_json(report)) + "\n");
  replace_file(folder + "/report.html", report_html(report));
  replace_file(folder + "/loss.svg", loss_svg(report));
}

}  // namespace training
