// SPDX-License-Identifier: Apache-2.0
// An algorithm and how its calls are cut, as text.
#include "planner/recipe.hpp"

#include <algorithm>

#include "base/knobs.hpp"

namespace coll {
namespace {

/// As COLL_LANES and COLL_SLICE_BYTES take them; a plan keeps to what connections can carry.
constexpr std::int64_t kMostLanes = 1024, kMostSliceBytes = 0xffffffc0;

/// From 1 to `most`; 0 for any other text.
std::uint32_t positive(std::string_view text, std::int64_t most) {
  const std::int64_t value = parse_whole(text).value_or(0);
  return value >= 1 && value <= most ? static_cast<std::uint32_t>(value) : 0;
}

}  // namespace

std::string Recipe::text() const {
  if (cut == Cut{}) return algorithm;
  return algorithm + "/" + std::to_string(cut.lanes) + "x" + std::to_string(cut.slice_bytes);
}

Result<Recipe> read_recipe(std::string_view text) {
  const std::size_t slash = text.find('/');
  Recipe recipe{std::string(text.substr(0, slash))};
  if (slash == std::string_view::npos) return recipe;
  const std::string_view cut = text.substr(slash + 1);
  const std::size_t times = std::min(cut.find('x'), cut.size());
  recipe.cut.lanes = positive(cut.substr(0, times), kMostLanes);
  recipe.cut.slice_bytes = positive(cut.substr(std::min(times + 1, cut.size())), kMostSliceBytes);
  if (recipe.cut.lanes == 0 || recipe.cut.slice_bytes == 0) {
    return failed(Code::invalid_argument,
                  "\"" + std::string(cut) + "\" is no cut for " + recipe.algorithm,
                  "say LANESxSLICE, as in " + recipe.algorithm +
                      "/2x64K: 1 to 1024 lanes, slices of 1 byte to below 4G");
  }
  return recipe;
}

}  // namespace coll
