// SPDX-License-Identifier: Apache-2.0
// What coll-tune prints and writes.
#include "coll_tune/coll_tune_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "coll_perf/coll_perf_table.hpp"
#include "coll_plot/plot_svg.hpp"

namespace perf {
namespace {

using Json = nlohmann::ordered_json;

/// A good prediction is no more than this times the measured time, nor less than its part.
constexpr double kGoodRatio = 1.25;

std::string size_text(std::uint64_t bytes) {
  return bytes == 0 ? "-" : bytes_text(static_cast<double>(bytes));
}

/// Three digits, no exponent.
std::string microseconds(double us) {
  return fmt::format("{:.{}f}", us, us >= 100 ? 0 : us >= 10 ? 1 : us >= 1 ? 2 : 3);
}

/// Predicted over measured time of what the model chose.
double error_of(const Race& race) {
  const Contender& chosen = race.of(race.by_model);
  return chosen.predicted_us / chosen.us();
}

std::string regret_line(const char* name, const Regret& model, const Regret* table) {
  std::string line = fmt::format(
      "# {:<15} {:>4} points, regret median {:>5.1f} %, worst {:>6.1f} %; predicted/measured off "
      "by {:.2f}x in the median, {:.1f}x at worst, {:.0f} % within 25 %",
      name, model.races, 100 * model.median, 100 * model.worst, model.error_median,
      model.error_worst, 100 * model.within);
  if (table != nullptr)
    line += fmt::format("; with the table: regret median {:.1f} %, worst {:.1f} %",
                        100 * table->median, 100 * table->worst);
  return line + "\n";
}

/// Calls `use(name, races)` for each operation, then for all.
template <class Use>
void each_operation(const std::vector<Race>& races, Use use) {
  for (int i = 0; i < coll::kCollectives; ++i) {
    const auto collective = static_cast<coll::Collective>(i);
    std::vector<Race> part;
    std::copy_if(races.begin(), races.end(), std::back_inserter(part),
                 [&](const Race& race) { return race.collective == collective; });
    if (!part.empty()) use(std::string(name_of(collective)), part);
  }
  use("all", races);
}

bool has_table(const std::vector<Race>& races) {
  return std::any_of(races.begin(), races.end(),
                     [](const Race& race) { return race.by_table.has_value(); });
}

Json to_json(const Regret& regret) {
  return {{"median", regret.median}, {"worst", regret.worst}};
}

}  // namespace

std::string to_text(const coll::TuningTable& table) {
  std::string text = fmt::format("# machine: {}\n# topology {}, library {}, {} points\n",
                                 table.machine, table.topology, table.library, table.points.size());
  const coll::TuningScope* scope = nullptr;
  std::string date;
  for (const coll::TuningPoint& point : table.points) {
    if (scope == nullptr || *scope != point.scope || date != point.date) {
      text += fmt::format("#\n# {}, {}\n# {:<13} {:>8}  us (+- noise), fastest first\n",
                          point.scope.text(), point.date, "operation", "size");
      scope = &point.scope;
      date = point.date;
    }
    text += fmt::format("{:<15} {:>8} ", name_of(point.collective), size_text(point.bytes));
    std::vector<coll::Timing> timings = point.timings;
    std::stable_sort(timings.begin(), timings.end(),
                     [](const auto& a, const auto& b) { return a.us < b.us; });
    for (std::size_t i = 0; i < timings.size(); ++i) {
      const coll::Timing& timing = timings[i];
      text += " " + timing.recipe.text();
      // Equal schedules are measured once.
      const bool twin = i + 1 < timings.size() && timings[i + 1].us == timing.us &&
                        timings[i + 1].noise_us == timing.noise_us;
      text += twin ? " ="
                   : fmt::format(" {} (+- {});", microseconds(timing.us),
                                 microseconds(timing.noise_us));
    }
    text.back() = text.back() == ';' ? ' ' : text.back();
    text += "\n";
  }
  return text;
}

Regret regret_of(const std::vector<Race>& races, bool with_table) {
  Regret regret;
  regret.races = races.size();
  std::vector<double> regrets, errors;
  for (const Race& race : races) {
    regrets.push_back(
        race.regret(with_table ? race.by_table.value_or(race.by_model) : race.by_model));
    const double error = error_of(race);
    errors.push_back(std::max(error, 1 / error));
  }
  if (races.empty()) return regret;
  regret.median = median(regrets);
  regret.worst = *std::max_element(regrets.begin(), regrets.end());
  regret.error_median = median(errors);
  const auto near =
      std::count_if(errors.begin(), errors.end(), [](double error) { return error <= kGoodRatio; });
  regret.within = static_cast<double>(near) / static_cast<double>(errors.size());
  regret.error_worst = *std::max_element(errors.begin(), errors.end());
  return regret;
}

std::string regret_text(const std::vector<Race>& races, const std::string& world,
                        const std::string& table) {
  const bool tabled = has_table(races);
  std::string text = fmt::format(
      "# regret of the planner, {}\n# tuning table: {}\n#\n# {:<13} {:>8}  {:<34} "
      "{:>9} {:>7}  {:<34} {:>9} {:>8} {:>9}",
      world, table.empty() ? "none" : table, "operation", "size", "fastest", "us", "noise",
      "the model's choice", "us", "regret", "pred/meas");
  text += tabled ? fmt::format("  {:<34} {:>8}\n", "the table's choice", "regret") : "\n";
  for (const Race& race : races) {
    const Contender &best = race.fastest(), &model = race.of(race.by_model);
    text +=
        fmt::format("{:<15} {:>8}  {:<34} {:>9} {:>7}  {:<34} {:>9} {:>6.1f} % {:>9.2f}",
                    name_of(race.collective), size_text(race.bytes), best.recipe.text(),
                    microseconds(best.us()), microseconds(best.noise_us()), race.by_model.text(),
                    microseconds(model.us()), 100 * race.regret(race.by_model), error_of(race));
    if (race.by_table)
      text += fmt::format("  {:<34} {:>6.1f} %", race.by_table->text(),
                          100 * race.regret(*race.by_table));
    text += "\n";
  }
  text += "#\n";
  each_operation(races, [&](const std::string& name, const std::vector<Race>& part) {
    const Regret with = regret_of(part, true);
    text += regret_line(name.c_str(), regret_of(part, false), tabled ? &with : nullptr);
  });
  return text;
}

std::string regret_json(const std::vector<Race>& races, const coll::TuningScope& world,
                        const std::string& table) {
  Json json{{"tool", "coll-tune"},
            {"ranks", world.ranks},
            {"hosts", world.hosts},
            {"transport", world.transport},
            {"ranks_per_core", world.ranks_per_core},
            {"table", table}};
  for (const Race& race : races) {
    Json one{{"operation", name_of(race.collective)},
             {"bytes", race.bytes},
             {"fastest", race.fastest().recipe.text()},
             {"model", race.by_model.text()},
             {"regret", race.regret(race.by_model)}};
    if (race.by_table) {
      one["table"] = race.by_table->text();
      one["regret_with_table"] = race.regret(*race.by_table);
    }
    for (const Contender& each : race.contenders)
      one["times"][each.recipe.text()] = {{"us", each.us()},
                                          {"noise_us", each.noise_us()},
                                          {"rounds", each.rounds.size()},
                                          {"predicted_us", each.predicted_us}};
    json["points"].push_back(one);
  }
  each_operation(races, [&](const std::string& name, const std::vector<Race>& part) {
    const Regret model = regret_of(part, false);
    Json& one = json["summary"][name];
    one = {{"points", model.races},
           {"regret", to_json(model)},
           {"model_error",
            {{"median", model.error_median},
             {"worst", model.error_worst},
             {"within_25_percent", model.within}}}};
    if (has_table(races)) one["regret_with_table"] = to_json(regret_of(part, true));
  });
  return json.dump(1) + "\n";
}

std::string regret_svg(const std::vector<Race>& races, const std::string& world) {
  Chart chart{"Time of the model's choice over the fastest, " + world, "size", "ratio", {}};
  each_operation(races, [&](const std::string& name, const std::vector<Race>& part) {
    if (name == "all" || name == "barrier") return;
    Series series{name, {}, false};
    for (const Race& race : part)
      series.points.emplace_back(static_cast<double>(race.bytes), 1 + race.regret(race.by_model));
    chart.series.push_back(series);
  });
  return draw_svg(chart);
}

}  // namespace perf
