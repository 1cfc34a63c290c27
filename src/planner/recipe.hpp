// SPDX-License-Identifier: Apache-2.0
// An algorithm and how its calls are cut, a value, as knobs, tables and tools write it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace coll {

/// How calls are to be cut; 0: as the planner does.
struct Cut {
  std::uint32_t lanes = 0;
  std::uint32_t slice_bytes = 0;
  friend bool operator==(const Cut&, const Cut&) = default;

  /// What is not given here is as in `other`.
  [[nodiscard]] Cut or_else(Cut other) const {
    return {lanes != 0 ? lanes : other.lanes, slice_bytes != 0 ? slice_bytes : other.slice_bytes};
  }
};

/// An algorithm, "two_shot", cut as the planner does, or so: "two_shot/2x65536".
struct Recipe {
  std::string algorithm;  ///< by name: a table may know some that this library does not
  Cut cut = {};           ///< both members or none
  friend bool operator==(const Recipe&, const Recipe&) = default;

  [[nodiscard]] std::string text() const;
};

/// Reads NAME or NAME/LANESxSLICE, where SLICE may have a suffix: two_shot/2x64K. Whether there is
/// such an algorithm is not asked.
Result<Recipe> read_recipe(std::string_view text);

}  // namespace coll
