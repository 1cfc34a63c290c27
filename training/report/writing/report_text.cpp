// SPDX-License-Identifier: Apache-2.0
// Writes numbers with units, and names in UTF-8.
#include "report_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace training {
namespace {

/// `digits` significant ones, and no exponent for what is not below 0.001.
std::string significant(double value, int digits) {
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size < 1e-3) return fmt::format("{:.{}e}", value, digits - 1);
  const double rounded = size * (1 + 0.5 * std::pow(10, -digits));  // 9.996 becomes "10.0"
  const int before = static_cast<int>(std::floor(std::log10(rounded))) + 1;
  return fmt::format("{:.{}f}", value, std::max(0, digits - before));
}

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

std::string short_number(double value) {
  if (!std::isfinite(value)) return "-";
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t unit = 0;
  double scaled = value;
  while (std::abs(scaled) >= (unit == 0 ? 9999.5 : 999.5) && unit + 1 < std::size(kUnits)) {
    scaled /= 1000;
    ++unit;
  }
  const bool whole = unit == 0 && scaled == std::floor(scaled);
  return whole ? fmt::format("{:.0f}", scaled) : significant(scaled, 3) + kUnits[unit];
}

std::string bytes_text(double bytes) {
  if (!std::isfinite(bytes)) return "-";
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes >= 1023.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{} {}", significant(bytes, 3), kUnits[unit]);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return significant(seconds * 1e3, 3) + " ms";
  if (seconds < 60) return significant(seconds, 3) + " s";
  if (seconds > 1e12) return "-";
  const auto whole = static_cast<std::int64_t>(seconds);
  if (seconds < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (seconds < 86400) return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {} h", whole / 86400, whole / 3600 % 24);
}

std::string percent_text(double share) {
  return std::isfinite(share) ? fmt::format("{:.1f} %", share * 100) : "-";
}

std::string clean(std::string_view text) {
  using nlohmann::json;
  // The library's own repair of UTF-8, there and back.
  const std::string json_text =
      json(std::string(text)).dump(-1, ' ', false, json::error_handler_t::replace);
  auto repaired = json::parse(json_text).get<std::string>();
  std::erase_if(repaired, [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return (code < 0x20 && c != '\n' && c != '\t') || code == 0x7F;
  });
  return repaired;
}

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : clean(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t characters) {
  const std::string whole = clean(text);
  std::size_t seen = 0, last = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (continues(whole[i])) continue;
    if (++seen == characters) last = i;
    if (seen > characters) return whole.substr(0, last) + "…";
  }
  return whole;
}

}  // namespace training
