// SPDX-License-Identifier: Apache-2.0
// How coll-plan reads names of operations, sizes and machines.
#pragma once
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "coll_perf/coll_perf_operation.hpp"
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

/// The operation of this name, unless it is a send or recv, which two ranks call.
inline coll::Result<coll::Collective> collective_of(const std::string& name) {
  using namespace coll;
  const auto by_all = [](Collective one) {
    return one != Collective::send && one != Collective::recv;
  };
  if (const auto found = find_collective(name); found && by_all(*found)) return *found;
  std::string known;
  for (int i = 0; i < kCollectives; ++i) {
    const auto one = static_cast<Collective>(i);
    if (by_all(one)) known.append(" ").append(name_of(one));
  }
  return failed(Code::invalid_argument, "there is no operation \"" + name + "\" to plan",
                "the known ones are:" + known);
}

/// busbw, as coll-perf defines it, of a call that takes `us` microseconds.
inline double busbw(coll::Collective collective, int ranks, double bytes, double us) {
  const double algbw = us > 0 ? bytes / us / 1e3 : 0;
  return algbw * bus_factor(*parse_operation(name_of(collective)), ranks);
}

}  // namespace perf
