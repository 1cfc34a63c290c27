// SPDX-License-Identifier: Apache-2.0
// Numbers, words and messages for the readers of text.
#include "topology/reader_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace coll {

Status unreadable(std::string_view name, int line, std::string_view what, std::string hint) {
  std::string text(name);
  if (line > 0) text += ":" + std::to_string(line);
  return failed(Code::invalid_argument, text + ": " + std::string(what), std::move(hint));
}

int line_of(std::string_view text, std::size_t offset) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
  return 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
}

std::uint16_t hex16(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  return number<std::uint16_t>(text, 16).value_or(0);
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t begin = text.find_first_not_of(separators);
    if (begin == text.npos) return parts;
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& each : result)
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  return result;
}

std::optional<std::string> bus_number(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ":.");
  if (parts.size() != 4) return std::nullopt;
  std::array<std::uint32_t, 4> values{};
  for (std::size_t at = 0; at < 4; ++at) {
    const auto value = number<std::uint32_t>(parts[at], 16);
    if (!value || (at > 0 && *value > 0xff)) return std::nullopt;
    values[at] = *value;
  }
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "%04x:%02x:%02x.%x", values[0], values[1], values[2],
                values[3]);
  return std::string(name.data());
}

double pci_gbytes_per_s(double transfers_per_s, int lanes) {
  if (!(transfers_per_s > 0) || lanes <= 0) return 0;
  const double code = transfers_per_s < 8 ? 8.0 / 10 : 128.0 / 130;
  return transfers_per_s * lanes * code / 8;
}

bool computes(const PciFunction& pci, bool has_runtime_name) {
  constexpr double kFeedsAGpu = 1.5;  // GB/s: four lanes of 5 GT/s make 2
  constexpr std::uint16_t kVga = 0x0300;
  switch (pci.class_code >> 8) {
    case 0x12:
      return true;  // processing accelerators
    case 0x03:
      if (pci.class_code != kVga || has_runtime_name || pci.gbytes_per_s >= kFeedsAGpu) return true;
      if (pci.gbytes_per_s > 0) return false;
      // AMD's numbers since 2012; older ones sit on server boards as displays (ES1000, Rage).
      return pci.vendor == kNvidiaVendor ||
             (pci.vendor == kAmdVendor && pci.device >= 0x6600 && pci.device < 0x8000);
    default:
      return false;
  }
}

}  // namespace coll
