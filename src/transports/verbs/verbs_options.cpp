// SPDX-License-Identifier: Apache-2.0
// The keys of COLL_VERBS.
#include "transports/verbs/verbs_options.hpp"

#include <string>

#include "sys/text_file.hpp"

namespace coll {
namespace {

/// Of `Number`, from `least` to `most`.
template <class Number>
Status take(std::string_view key, std::string_view text, Number least, Number most, Number& into) {
  Number value{};
  if (is_number(text, value) && value >= least && value <= most) {
    into = value;
    return {};
  }
  return failed(Code::invalid_argument,
                "COLL_VERBS: " + std::string(key) + " is \"" + std::string(text) + "\"",
                "it goes from " + std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace

Result<VerbsOptions> VerbsOptions::parse(std::string_view text) {
  VerbsOptions made;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    const std::size_t sign = word.find('=');
    const std::string_view key = word.substr(0, sign);
    const std::string_view value =
        sign == std::string_view::npos ? std::string_view() : word.substr(sign + 1);
    const auto byte = [&](std::uint8_t least, std::uint8_t most, std::uint8_t& into) {
      return take<std::uint8_t>(key, value, least, most, into);
    };
    if (key == "gid") {
      COLL_TRY(take(key, value, 0, 65535, made.gid));
    } else if (key == "sl") {
      COLL_TRY(byte(0, 15, made.service_level));
    } else if (key == "tc") {
      COLL_TRY(byte(0, 255, made.traffic_class));
    } else if (key == "pkey") {
      COLL_TRY(take<std::uint16_t>(key, value, 0, 65535, made.partition));
    } else if (key == "timeout") {
      COLL_TRY(byte(1, 31, made.timeout));
    } else if (key == "retries") {
      COLL_TRY(byte(0, 7, made.retries));
    } else if (key == "pairs") {
      COLL_TRY(byte(1, 4, made.pairs));
    } else if (key == "patience") {
      COLL_TRY(take<std::uint32_t>(key, value, 1, 86400, made.patience_s));
    } else {
      return failed(Code::invalid_argument,
                    "COLL_VERBS: there is no key \"" + std::string(key) + "\"",
                    "the keys are gid, sl, tc, pkey, timeout, retries, pairs, patience, as in "
                    "timeout=18,tc=106");
    }
  }
  return made;
}

}  // namespace coll
