// SPDX-License-Identifier: Apache-2.0
// Cost models as JSON.
#include <nlohmann/json.hpp>
#include <set>

#include "planner/costs/cost_model.hpp"

namespace coll {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kModelVersion = 1;
constexpr std::string_view kVersionKey = "cost_model_version", kMeasured = "measured";

struct Heading {
  std::string_view key;
  std::string CostModel::*text;
};
constexpr Heading kHeadings[] = {
    {"name", &CostModel::name}, {"machine", &CostModel::machine}, {"date", &CostModel::date}};

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A number as a file would have it.
std::string number(double value) {
  return dumped(Json(value));
}

std::string range_of(const CostConstant& constant) {
  const std::string unit(constant.unit());
  return "give a number from " + number(constant.least) + " to " + number(constant.most) +
         (unit.empty() ? "" : " " + unit);
}

/// Reads one text, and fails with the name of the text and the key.
class CostModelReader {
 public:
  explicit CostModelReader(std::string_view name) : name_(name) {}

  Result<CostModel> read(std::string_view text) {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_object())
      return wrong("is no JSON object", "see docs/planning.md for what a cost model has");
    if (!json.contains(kVersionKey) || json.at(kVersionKey) != kModelVersion)
      return wrong("has no " + std::string(kVersionKey) + " that this library reads",
                   "set it to " + std::to_string(kModelVersion) + " if it is a cost model");
    CostModel model;
    std::set<std::string_view> known{kVersionKey};
    for (const Heading& each : kHeadings) {
      const std::string key(each.key);
      known.insert(each.key);
      COLL_TRY(read_text(json, key, key, model.*each.text));
    }
    for (std::size_t i = 0; i < kCostGroups; ++i) {
      const CostGroup& group = cost_groups()[i];
      const std::string key(group.name);
      known.insert(group.name);
      if (!json.contains(key) || !json.at(key).is_object())
        return wrong("has no object " + key, "add it; cost_model_json writes every key of a model");
      COLL_TRY(read_group(json.at(key), group, model.measured[i], model.constants));
    }
    COLL_TRY(refuse_unknown(json, known, ""));
    return model;
  }

 private:
  [[nodiscard]] Status wrong(const std::string& what, const std::string& hint) const {
    return failed(Code::invalid_argument, name_ + " " + what, hint);
  }

  [[nodiscard]] Status read_text(const Json& json, const std::string& key, const std::string& path,
                                 std::string& into) const {
    if (!json.contains(key)) return wrong("has no " + path, "add it, a text");
    if (!json.at(key).is_string())
      return wrong("has " + path + " " + dumped(json.at(key)), "give a text in quotes");
    into = json.at(key).get<std::string>();
    return {};
  }

  [[nodiscard]] Status read_group(const Json& json, const CostGroup& group, std::string& measured,
                                  CostConstants& into) const {
    const std::string before = std::string(group.name) + ".";
    std::set<std::string_view> known{kMeasured};
    COLL_TRY(read_text(json, std::string(kMeasured), before + std::string(kMeasured), measured));
    for (const CostConstant& constant : group.constants) {
      const std::string key(constant.name);
      const std::string name = before + key;
      known.insert(constant.name);
      if (!json.contains(key)) return wrong("has no " + name, range_of(constant));
      const Json& value = json.at(key);
      if (!value.is_number() || !(value.get<double>() >= constant.least) ||
          !(value.get<double>() <= constant.most)) {
        return wrong("has " + name + " " + dumped(value), range_of(constant));
      }
      constant.of(into) = value.get<double>();
    }
    return refuse_unknown(json, known, before);
  }

  [[nodiscard]] Status refuse_unknown(const Json& json, const std::set<std::string_view>& known,
                                      const std::string& before) const {
    for (const auto& [key, value] : json.items()) {
      if (known.contains(key)) continue;
      std::string what = "has the unknown key ";
      what.append(before).append(key);
      return wrong(what, "remove it, or correct its spelling");
    }
    return {};
  }

  std::string name_;
};

}  // namespace

std::string cost_model_json(const CostModel& model) {
  std::string text = "{\"" + std::string(kVersionKey) + "\": " + std::to_string(kModelVersion);
  for (const Heading& each : kHeadings)
    text += ",\n \"" + std::string(each.key) + "\": " + dumped(model.*each.text);
  CostConstants constants = model.constants;
  for (std::size_t i = 0; i < kCostGroups; ++i) {
    const CostGroup& group = cost_groups()[i];
    Json json{{std::string(kMeasured), model.measured[i]}};
    for (const CostConstant& constant : group.constants)
      json[std::string(constant.name)] = constant.of(constants);
    text += ",\n \"" + std::string(group.name) + "\": " + dumped(json);
  }
  return text + "}\n";
}

Result<CostModel> read_cost_model_json(std::string_view text, std::string_view name) {
  return CostModelReader(name).read(text);
}

}  // namespace coll
