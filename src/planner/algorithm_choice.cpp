// SPDX-License-Identifier: Apache-2.0
// What a user demands with COLL_ALGORITHM.
#include "planner/algorithm_choice.hpp"

#include <limits>
#include <string>

#include "base/knobs.hpp"

namespace coll {
namespace {

/// One item of the list, as written.
struct Demand {
  std::string_view operation;  ///< empty: every one that the algorithm has
  std::string_view recipe;
  std::string_view sizes;  ///< empty: any

  [[nodiscard]] std::string_view algorithm() const { return recipe.substr(0, recipe.find('/')); }
};

/// Takes the next item off the list; the empty ones between two commas are skipped.
bool next_demand(std::string_view& text, Demand& demand) {
  std::string_view item;
  while (item.empty()) {
    if (text.empty()) return false;
    item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
  }
  demand = {};
  if (const std::size_t at = item.find('@'); at != std::string_view::npos) {
    demand.sizes = item.substr(at + 1);
    if (demand.sizes.empty()) demand.sizes = "@";  // no range: an error, not "any"
    item = item.substr(0, at);
  }
  if (const std::size_t equals = item.find('='); equals != std::string_view::npos) {
    demand.operation = item.substr(0, equals);
    item = item.substr(equals + 1);
  }
  demand.recipe = item;
  return true;
}

struct Sizes {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

std::optional<Sizes> read_sizes(std::string_view text) {
  Sizes sizes;
  if (text.empty()) return sizes;
  const std::size_t dash = std::min(text.find('-'), text.size());
  const std::string_view first = text.substr(0, dash);
  const std::string_view last = dash == text.size() ? first : text.substr(dash + 1);
  if (first.empty() && last.empty()) return std::nullopt;
  for (const auto& [end, value] : {std::pair(first, &sizes.least), std::pair(last, &sizes.most)}) {
    if (end.empty()) continue;
    const std::optional<std::int64_t> read = parse_whole(end);
    if (!read || *read < 0) return std::nullopt;
    *value = *read;
  }
  if (sizes.least > sizes.most) return std::nullopt;
  return sizes;
}

bool includes(const Sizes& sizes, std::uint32_t size_class) {
  if (size_class >= 63) return sizes.most == std::numeric_limits<std::int64_t>::max();
  const std::int64_t bytes = std::int64_t{1} << size_class;
  return sizes.least <= bytes && bytes <= sizes.most;
}

std::string quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

Status check(const Demand& demand) {
  if (find_algorithm(demand.algorithm()) == nullptr) {
    return failed(Code::invalid_argument,
                  "COLL_ALGORITHM names the unknown algorithm " + quoted(demand.algorithm()),
                  "the known ones are:" + algorithm_names());
  }
  if (!demand.operation.empty() && !find_collective(demand.operation)) {
    std::string operations;
    for (int i = 0; i < kCollectives; ++i) {
      operations.append(" ").append(name_of(static_cast<Collective>(i)));
    }
    return failed(Code::invalid_argument,
                  "COLL_ALGORITHM names the unknown operation " + quoted(demand.operation),
                  "the known ones are:" + operations);
  }
  if (const auto recipe = read_recipe(demand.recipe); !recipe.ok())
    return recipe.status().with_context("COLL_ALGORITHM");
  if (!read_sizes(demand.sizes)) {
    return failed(Code::invalid_argument,
                  "COLL_ALGORITHM has the sizes " + quoted(demand.sizes) + " for " +
                      std::string(demand.recipe) + ", which are no range",
                  "say @64K-1M, @-64K, @1M- or @64K, the smaller size first");
  }
  return {};
}

}  // namespace

std::string algorithm_names() {
  std::string names;
  for (const Algorithm& algorithm : algorithms()) names.append(" ").append(algorithm.name);
  return names;
}

Status check_algorithm_knob(std::string_view text) {
  for (Demand demand; next_demand(text, demand);) COLL_TRY(check(demand));
  return {};
}

std::optional<Recipe> forced_recipe(std::string_view text, const CollectiveSpec& spec,
                                    const Layout& layout, std::uint32_t size_class) {
  std::optional<Recipe> forced;
  int best = 0;
  for (Demand demand; next_demand(text, demand);) {
    const Algorithm* algorithm = find_algorithm(demand.algorithm());
    const Result<Recipe> recipe = read_recipe(demand.recipe);
    const std::optional<Sizes> sizes = read_sizes(demand.sizes);
    if (algorithm == nullptr || !recipe.ok() || !sizes || !includes(*sizes, size_class)) continue;
    // A demand for an algorithm that needs equal blocks does not count for unequal blocks.
    const bool for_this =
        demand.operation == name_of(spec.collective) && (algorithm->any_lengths || !spec.unequal);
    if (!for_this && !(demand.operation.empty() && algorithm->serves(spec, layout))) continue;
    const int score = (for_this ? 2 : 0) + (demand.sizes.empty() ? 0 : 1);
    if (forced && score < best) continue;
    forced = *recipe;
    best = score;
  }
  return forced;
}

}  // namespace coll
