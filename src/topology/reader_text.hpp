// SPDX-License-Identifier: Apache-2.0
// What readers of text share: where a fault lies, numbers, bus numbers, and names of devices.
#pragma once
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.hpp"

namespace coll {

/// More parts than this are refused: a mistake, or more than memory can hold.
inline constexpr NodeId kMostNodes = 1 << 22;

/// A failed Status that says "NAME:LINE: what"; a line of 0 is left out.
Status unreadable(std::string_view name, int line, std::string_view what, std::string hint);

/// The line, from 1, of the character at `offset`.
int line_of(std::string_view text, std::size_t offset);

/// The whole text as a number, or nothing; floating point must be finite.
template <class T>
std::optional<T> number(std::string_view text, int base = 10) {
  T value{};
  const char* end = text.data() + text.size();
  std::from_chars_result result{};
  if constexpr (std::is_floating_point_v<T>)
    result = std::from_chars(text.data(), end, value);
  else
    result = std::from_chars(text.data(), end, value, base);
  if (result.ec != std::errc() || result.ptr != end || text.empty()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) return std::nullopt;
  return value;
}

/// "0x10de" or "10de" as 16 bits; 0 if it is neither.
std::uint16_t hex16(std::string_view text);

std::vector<std::string_view> split(std::string_view text, std::string_view separators);
std::string_view trimmed(std::string_view text);
std::string lower(std::string_view text);

/// "0000:0f:00.0" of "0:F:0.0", "00000000:0F:00.0" …: a domain of 4 to 8 digits; nothing if it is
/// no bus number.
std::optional<std::string> bus_number(std::string_view text);

/// What moves over PCI lanes of this speed in one direction, 1e9 bytes/s, after the line code
/// (8b/10b up to 5 GT/s, 128b/130b from 8; PCI Express base specification).
double pci_gbytes_per_s(double transfers_per_s, int lanes);

/// Is a function of class 0x03xx or 0x12xx one to compute with? A VGA adapter is if it has a name
/// of a compute runtime or a PCI Express link to feed it. Management controllers have neither.
/// Where the link's speed is unknown (0), the maker decides: NVIDIA's and AMD's cards are.
bool computes(const PciFunction& pci, bool has_runtime_name);
inline bool is_network(std::uint16_t class_code) {
  return class_code >> 8 == 0x02;
}

}  // namespace coll
