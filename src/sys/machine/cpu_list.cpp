// SPDX-License-Identifier: Apache-2.0
// Lists of processors as Linux writes them ("0-3,8").
#include "sys/machine/cpu_list.hpp"

#include <algorithm>
#include <charconv>

namespace coll {
namespace {

/// Reads up to where the list makes sense. True if that is its end.
bool read_into(cpu_set_t& cpus, std::string_view list) {
  CPU_ZERO(&cpus);
  const char* at = list.data();
  const char* const end = at + list.size();
  int first = 0;
  const auto number = [&](int& into) {
    const auto [after, error] = std::from_chars(at, end, into);
    at = after;
    return error == std::errc();
  };
  bool sensible = true;
  while (number(first)) {
    int last = first;
    if (at != end && *at == '-') {
      ++at;
      if (!number(last)) return false;
    }
    sensible = sensible && 0 <= first && first <= last;
    for (int cpu = std::max(first, 0); cpu <= last && cpu < CPU_SETSIZE; ++cpu) {
      CPU_SET(static_cast<std::size_t>(cpu), &cpus);
    }
    if (at == end) return sensible;
    if (*at != ',') return false;
    ++at;
  }
  return false;
}

}  // namespace

cpu_set_t read_cpu_list(std::string_view list) {
  cpu_set_t cpus;
  read_into(cpus, list);
  return cpus;
}

std::optional<cpu_set_t> read_whole_cpu_list(std::string_view list) {
  cpu_set_t cpus;
  if (!read_into(cpus, list)) return std::nullopt;
  return cpus;
}

}  // namespace coll
