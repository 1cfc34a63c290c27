// SPDX-License-Identifier: Apache-2.0
// perf/: tools around the library. This file: the words of coll-plan.
#pragma once
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "planner/algorithm_choice.hpp"

namespace perf {

inline int fail(const coll::Status& status) {
  fmt::print(stderr, "coll-plan: {}\n", status.text());
  return 1;
}

inline bool write_picture(const std::string& path, const std::string& svg) {
  std::ofstream file(path);
  file << svg;
  file.close();
  if (!file) fmt::print(stderr, "coll-plan: cannot write {}: {}\n", path, std::strerror(errno));
  return static_cast<bool>(file);
}

inline coll::Status check_bytes(const std::vector<std::uint64_t>& sizes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  for (const std::uint64_t bytes : sizes) {
    if (bytes <= kMost) continue;
    return coll::failed(coll::Code::invalid_argument,
                        std::to_string(bytes) + " bytes are more than any buffer has",
                        "give --bytes up to 4E");
  }
  return {};
}

/// Of those that all ranks call.
inline coll::Result<coll::Collective> collective_of(const std::string& name) {
  using namespace coll;
  std::string known;
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    const bool pair = collective == Collective::send || collective == Collective::recv;
    if (pair) continue;
    if (name_of(collective) == name) return collective;
    known.append(" ").append(name_of(collective));
  }
  return failed(Code::invalid_argument, "there is no operation \"" + name + "\" to plan",
                "the known ones are:" + known);
}

/// What one link carries, whatever the number of ranks: as nccl-tests' PERFORMANCE.md.
inline double busbw(coll::Collective collective, double ranks, double bytes, double us) {
  using coll::Collective;
  const double algbw = us > 0 ? bytes / us / 1e3 : 0;
  switch (collective) {
    case Collective::all_reduce:
      return algbw * 2 * (ranks - 1) / ranks;
    case Collective::broadcast:
    case Collective::reduce:
      return algbw;
    default:
      return algbw * (ranks - 1) / ranks;
  }
}

inline std::string text_of_bytes(std::uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, units[unit]);
}

}  // namespace perf
