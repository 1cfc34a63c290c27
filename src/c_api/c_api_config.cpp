// SPDX-License-Identifier: Apache-2.0
// What a program asks for in a config, over the knobs.
#include "c_api/c_api_config.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/knobs.hpp"
#include "planner/algorithm_choice.hpp"

namespace coll {
namespace {

/// Names stand in lines for a person.
Status check_name(const std::string& name) {
  const bool fits = name.size() <= COLL_NAME_BYTES_MAX;
  const auto is_control = [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; };
  if (fits && std::ranges::none_of(name, is_control)) return {};
  return failed(Code::invalid_argument,
                fits ? "the name of the config has a control character"
                     : "the name of the config has " + std::to_string(name.size()) + " bytes",
                "give printable text of at most " + std::to_string(COLL_NAME_BYTES_MAX) + " bytes");
}

Result<SumOrder> order_of(const coll_config_t& config, const std::string& knob) {
  int chosen = 0;  // C may pass any; to read it as one of the names would be undefined
  std::memcpy(&chosen, &config.order, sizeof chosen);
  switch (chosen) {
    case COLL_ORDER_DEFAULT:
      return knob == "tree" ? SumOrder::tree : SumOrder::any;
    case COLL_ORDER_ANY:
      return SumOrder::any;
    case COLL_ORDER_TREE:
      return SumOrder::tree;
    default:
      return failed(Code::invalid_argument,
                    "the config has the unknown order " + std::to_string(chosen),
                    "give COLL_ORDER_DEFAULT, COLL_ORDER_ANY or COLL_ORDER_TREE");
  }
}

}  // namespace

Result<coll_config_t> read_config(const coll_config_t* given) {
  coll_config_t config = COLL_CONFIG_INIT;
  if (given != nullptr) {
    if (given->size < offsetof(coll_config_t, deadline_s) || given->version == 0) {
      return failed(Code::invalid_argument, "the config is not initialised",
                    "begin with coll_config_t config = COLL_CONFIG_INIT");
    }
    std::memcpy(&config, given, std::min(given->size, sizeof config));
  }
  return config;
}

Result<Joining> joining_of(const coll_config_t& config) {
  COLL_TRY(knobs_status());
  if (std::isnan(config.deadline_s) || std::isnan(config.connect_s)) {
    return failed(Code::invalid_argument, "deadline_s or connect_s of the config is not a number",
                  "give seconds, or a negative number for what the knob says");
  }
  const Knobs& knobs = coll::knobs();
  Joining joining;
  joining.name = chosen_text(config.name, "");
  COLL_TRY(check_name(joining.name));
  joining.deadline_s = config.deadline_s >= 0 ? config.deadline_s : knobs.deadline_s;
  joining.connect_s = config.connect_s >= 0 ? config.connect_s : knobs.connect_s;
  joining.spin_us = knobs.spin_us;
  joining.interface = chosen_text(config.interface, knobs.interface);
  COLL_ASSIGN(joining.transports,
              transport_choices(chosen_text(config.transports, knobs.transports)));
  joining.settings.algorithm = chosen_text(config.algorithm, knobs.algorithm);
  COLL_TRY(check_algorithm_knob(joining.settings.algorithm));
  COLL_ASSIGN(joining.settings.order, order_of(config, knobs.order));
  joining.settings.lanes = static_cast<std::uint32_t>(knobs.lanes);
  joining.settings.slice_bytes = static_cast<std::uint32_t>(knobs.slice_bytes);
  joining.settings.credits = static_cast<std::uint32_t>(knobs.credits);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe)
  joining.device.name = chosen_text(config.device, "");
  if (visible != nullptr) joining.device.visible = visible;
  return joining;
}

coll_joining_t* joining_handle(const coll_config_t* config) {
  const Result<coll_config_t> chosen = read_config(config);
  return chosen.ok() ? chosen->joining : nullptr;
}

}  // namespace coll
