// SPDX-License-Identifier: Apache-2.0
// Tuning tables as JSON.
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/log.hpp"
#include "planner/tuning_table.hpp"

namespace coll {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTuningVersion = 1;
constexpr double kMostMicroseconds = 1e15;
constexpr std::uint64_t kLargestPoint = std::uint64_t{1} << 62;
constexpr std::int64_t kMostTunedRanks = 0x7fffffff;

Json written(const TuningPoint& point) {
  Json json{{"operation", name_of(point.collective)}, {"bytes", point.bytes}};
  if (point.scope.ranks != 0) json["ranks"] = point.scope.ranks;
  if (!point.scope.hosts.empty()) json["hosts"] = point.scope.hosts;
  if (!point.scope.transport.empty()) json["transport"] = point.scope.transport;
  if (point.scope.ranks_per_core != 0) json["ranks_per_core"] = point.scope.ranks_per_core;
  json["date"] = point.date;
  json["us"] = Json::object();
  for (const Timing& timing : point.timings)
    json["us"][timing.recipe.text()] = {timing.us, timing.noise_us};
  return json;
}

Collective collective_of(const std::string& name) {
  const std::optional<Collective> found = find_collective(name);
  if (!found) throw std::runtime_error("\"" + name + "\" is no operation");
  return *found;
}

double microseconds(const Json& json, double least) {
  const double value = json.get<double>();
  if (!(value >= least && value <= kMostMicroseconds))
    throw std::runtime_error(json.dump() + " are no microseconds");
  return value;
}

TuningPoint point_of(const Json& json) {
  TuningPoint point;
  point.collective = collective_of(json.at("operation").get<std::string>());
  point.bytes = json.at("bytes").get<std::uint64_t>();
  if (!json["bytes"].is_number_unsigned() || point.bytes > kLargestPoint)
    throw std::runtime_error(json["bytes"].dump() + " is no number of bytes");
  const auto ranks = json.value("ranks", std::int64_t{0});
  if (ranks < 0 || ranks > kMostTunedRanks)
    throw std::runtime_error("a number of ranks is out of range");
  point.scope.ranks = static_cast<Rank>(ranks);
  point.scope.hosts = json.value("hosts", "");
  point.scope.transport = json.value("transport", "");
  point.scope.ranks_per_core = json.value("ranks_per_core", 0.0);
  if (!(point.scope.ranks_per_core >= 0)) throw std::runtime_error("a number of ranks is below 0");
  point.date = json.value("date", "");
  for (const auto& [text, times] : json.at("us").items()) {
    if (!times.is_array() || times.size() != 2)
      throw std::runtime_error("the times of " + text + " are not [median, noise]");
    const Result<Recipe> recipe = read_recipe(text);
    if (!recipe.ok()) throw std::runtime_error(recipe.status().failure()->what);
    point.timings.push_back({*recipe, microseconds(times[0], 1e-6), microseconds(times[1], 0)});
  }
  return point;
}

}  // namespace

std::string to_json(const TuningTable& table) {
  const auto text = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string lines = "{\"tuning_version\": " + std::to_string(kTuningVersion) +
                      ",\n \"topology\": " + text(table.topology) +
                      ",\n \"machine\": " + text(table.machine) +
                      ",\n \"library\": " + text(table.library) + ",\n \"points\": [";
  const char* between = "\n  ";
  for (const TuningPoint& point : table.points) {
    lines += between + text(written(point));
    between = ",\n  ";
  }
  lines += "]";
  if (table.model) lines += ",\n \"model\": " + cost_model_json(*table.model);
  if (lines.back() == '\n') lines.pop_back();
  return lines + "}\n";
}

Result<TuningTable> read_tuning_json(std::string_view text, std::string_view name) {
  try {
    const Json json = Json::parse(text);
    if (const int version = json.at("tuning_version").get<int>(); version != kTuningVersion)
      throw std::runtime_error("tuning_version is " + std::to_string(version) +
                               ", this library reads " + std::to_string(kTuningVersion));
    TuningTable table;
    table.topology = json.value("topology", "");
    table.machine = json.value("machine", "");
    table.library = json.value("library", "");
    for (const Json& each : json.at("points")) table.points.push_back(point_of(each));
    if (json.contains("model")) {
      // Times say the same to all versions of the library, a model may not.
      Result<CostModel> model =
          read_cost_model_json(json["model"].dump(), std::string(name) + ": its model");
      if (model.ok())
        table.model = *std::move(model);
      else
        log(LogLevel::warn, "going on without a fitted model: " + model.status().text());
    }
    return table;
  } catch (const std::exception& error) {
    return failed(Code::invalid_argument,
                  std::string(name) + " is no tuning table: " + error.what(),
                  "write it anew with coll-tune");
  }
}

}  // namespace coll
