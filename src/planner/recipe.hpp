// SPDX-License-Identifier: Apache-2.0
// A recipe: an algorithm with an optional cut, as knobs, tables and tools write it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace coll {

/// How to cut calls; 0 leaves a member to the planner.
struct Cut {
  std::uint32_t lanes = 0;
  std::uint32_t slice_bytes = 0;
  friend bool operator==(const Cut&, const Cut&) = default;

  /// This cut, with members that are 0 taken from `other`.
  [[nodiscard]] Cut or_else(Cut other) const {
    return {lanes != 0 ? lanes : other.lanes, slice_bytes != 0 ? slice_bytes : other.slice_bytes};
  }
};

/// An algorithm with the planner's cut, "two_shot", or with a given cut, "two_shot/2x65536".
struct Recipe {
  std::string algorithm;  ///< a name; a table may have names that this library does not know
  Cut cut = {};           ///< both members are given, or neither
  friend bool operator==(const Recipe&, const Recipe&) = default;

  [[nodiscard]] std::string text() const;
};

/// Reads NAME or NAME/LANESxSLICE, where SLICE may have a suffix: two_shot/2x64K. Does not check
/// whether the algorithm exists.
Result<Recipe> read_recipe(std::string_view text);

}  // namespace coll
