// SPDX-License-Identifier: Apache-2.0
// The tuning table: measured times of algorithms and cuts, and what they say about a call.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "collectives/algorithms.hpp"
#include "planner/costs/cost_model.hpp"
#include "planner/recipe.hpp"

namespace coll {

/// Where measurements apply: everything that decides between algorithms besides machine, operation
/// and size. A member that is not given applies to every world.
struct TuningScope {
  Rank ranks = 0;             ///< 0: any number
  std::string hosts;          ///< "1x8", "3x8+1x6": hosts x ranks on each, in layout order; "": any
  std::string transport;      ///< "shm": all ranks share memory; "tcp": some do not; "": any
  double ranks_per_core = 0;  ///< on the most crowded host, at least 1, in hundredths; 0: any
  friend bool operator==(const TuningScope&, const TuningScope&) = default;

  /// Whether measurements of this scope apply in `world`, which has all members given.
  [[nodiscard]] bool holds_in(const TuningScope& world) const;
  /// The number of given members; the more specific measurement wins.
  [[nodiscard]] int specificity() const;
  [[nodiscard]] std::string text() const;
};

TuningScope scope_of(const Layout& layout, bool shared_memory, double ranks_per_core);

/// The time of one recipe in one point.
struct Timing {
  Recipe recipe;
  double us = 0;        ///< median over rounds
  double noise_us = 0;  ///< half the interquartile range of the rounds
  friend bool operator==(const Timing&, const Timing&) = default;
};

/// Recipes that were measured in turns, so that their times can be compared.
struct TuningPoint {
  Collective collective = Collective::barrier;
  std::uint64_t bytes = 0;  ///< size of a rank's larger buffer
  TuningScope scope;
  std::string date;  ///< "2026-11-21T22:10:00Z"; sorts by time
  std::vector<Timing> timings;
  friend bool operator==(const TuningPoint&, const TuningPoint&) = default;
};

struct TuningTable {
  std::string topology;  ///< hash of the machine's topology, 16 hexadecimal digits
  std::string machine;   ///< machine_signature() of the measured machine; "": any
  std::string library;   ///< version of the measured library
  std::vector<TuningPoint> points;
  /// Fitted to times of this machine, if that was any better than the default one.
  std::optional<CostModel> model = {};
  friend bool operator==(const TuningTable&, const TuningTable&) = default;

  /// Adds the points of `other`. Of two points with equal operation, size and scope the later wins,
  /// and so of two models.
  void merge(const TuningTable& other);
  /// The points that may apply to a world of `ranks` ranks, and the model.
  [[nodiscard]] TuningTable of_ranks(Rank ranks) const;
  /// The points for one world: for each operation and size the most specific, then the latest.
  [[nodiscard]] std::vector<TuningPoint> points_for(const TuningScope& world) const;
};

/// As JSON, one line per point.
std::string to_json(const TuningTable& table);
/// Reads a table; `name` names the text in failures. A model that cannot be read is warned of and
/// left out.
Result<TuningTable> read_tuning_json(std::string_view text, std::string_view name);

/// Whether two measured values differ by more than the noise of their difference.
bool are_apart(double value, double noise, double other, double other_noise);

/// The measured time of a recipe for one size class.
struct Measured {
  Recipe recipe;  ///< its algorithm is one that the planner weighs for the call
  double us = 0;
  double slowness = 1;  ///< time divided by the fastest recipe's time
  double noise = 0;     ///< in the unit of `slowness`
};

/// What `points`, all for one world, say about a size class; fastest first, empty where nothing was
/// measured. A point applies to sizes up to four times smaller or larger. Between two points the
/// result interpolates both. Of a demanded order of sums tables say nothing.
std::vector<Measured> measured(const std::vector<TuningPoint>& points, const CollectiveSpec& spec,
                               const Layout& layout, std::uint32_t size_class);

/// The entry of `list` to use instead of the model's choice, which is `model` with the planner's
/// cut. It is the fastest entry, with an exception: if the model's choice, or else the fastest
/// entry's algorithm with the planner's cut, is slower by no more than the noise and by at most a
/// tenth, it is that one. Null if `list` is empty.
const Measured* better_than_model(const std::vector<Measured>& list, const Algorithm& model);

}  // namespace coll
