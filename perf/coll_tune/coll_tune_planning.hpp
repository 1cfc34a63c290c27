// SPDX-License-Identifier: Apache-2.0
// The planner as coll-tune asks it: with and without tables, and by force.
#pragma once
#include <string>

#include "planner/planner.hpp"

namespace perf {

/// What the planner makes of calls of one operation and size, whatever COLL_ALGORITHM says.
class Planning {
 public:
  Planning(const coll::World& world, coll::Collective collective, std::uint64_t bytes)
      : world_(world),
        spec_{collective, world.layout.ranks(), 0},
        bytes_(static_cast<double>(bytes)),
        size_class_(coll::size_class(bytes)) {}

  [[nodiscard]] coll::Plan tuned() const { return plan({}, true); }
  [[nodiscard]] coll::Plan untuned() const { return plan({}, false); }
  [[nodiscard]] coll::Plan forced(const coll::Recipe& recipe) const {
    return plan(recipe.text(), false);
  }
  /// The recipe that gives this plan by force: its algorithm, with its cut if that is not the
  /// planner's.
  [[nodiscard]] coll::Recipe recipe_of(const coll::Plan& plan) const;
  /// Do two plans run the same, whatever their algorithms are called? Of many ranks, some are
  /// asked.
  [[nodiscard]] bool alike(const coll::Plan& a, const coll::Plan& b) const;
  /// The time of a call among many in a row, as they are measured.
  [[nodiscard]] double expected_us(const coll::Plan& plan) const {
    return expect(world_, plan, bytes_).each_us;
  }
  [[nodiscard]] const coll::CollectiveSpec& spec() const { return spec_; }
  [[nodiscard]] std::uint32_t size_class() const { return size_class_; }

 private:
  [[nodiscard]] coll::Plan plan(std::string algorithm, bool tuned) const;

  const coll::World& world_;
  coll::CollectiveSpec spec_;
  double bytes_;
  std::uint32_t size_class_;
};

}  // namespace perf
