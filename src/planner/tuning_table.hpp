// SPDX-License-Identifier: Apache-2.0
// What was measured of algorithms and cuts, a value, and what it says of a call.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "collectives/algorithms.hpp"
#include "planner/recipe.hpp"

namespace coll {

/// Where measurements hold: all that decides between algorithms beside machine, operation and size.
/// What is not given holds for every world.
struct TuningScope {
  Rank ranks = 0;             ///< 0: any number
  std::string hosts;          ///< "1x8", "3x8+1x6": hosts x ranks on each, in the layout's order
  std::string transport;      ///< "shm": all ranks share memory; "tcp": some do not
  double ranks_per_core = 0;  ///< on the most crowded host, at least 1, in hundredths; 0: any
  friend bool operator==(const TuningScope&, const TuningScope&) = default;

  /// Does what was measured there hold in `world`, all of whose members are given?
  [[nodiscard]] bool holds_in(const TuningScope& world) const;
  /// How much is given; the more specific measurement wins.
  [[nodiscard]] int specificity() const;
  [[nodiscard]] std::string text() const;
};

TuningScope scope_of(const Layout& layout, bool shared_memory, double ranks_per_core);

/// One recipe in one place.
struct Timing {
  Recipe recipe;
  double us = 0;        ///< median over rounds
  double noise_us = 0;  ///< half the range that the middle half of the rounds lies in
  friend bool operator==(const Timing&, const Timing&) = default;
};

/// Recipes measured in turns: these times may be compared with each other.
struct TuningPoint {
  Collective collective = Collective::barrier;
  std::uint64_t bytes = 0;  ///< the larger buffer of a rank
  TuningScope scope;
  std::string date;  ///< "2026-11-21T22:10:00Z"; later ones sort behind
  std::vector<Timing> timings;
  friend bool operator==(const TuningPoint&, const TuningPoint&) = default;
};

struct TuningTable {
  std::string topology;  ///< hash of the machine's topology, 16 hexadecimal digits
  std::string machine;   ///< machine_signature() of where it was measured; "": any
  std::string library;   ///< version that was measured
  std::vector<TuningPoint> points;
  friend bool operator==(const TuningTable&, const TuningTable&) = default;

  /// Takes over the points of `other`; of two for the same place the later one stays.
  void merge(const TuningTable& other);
  /// The points that may matter to a world of so many ranks.
  [[nodiscard]] TuningTable of_ranks(Rank ranks) const;
  /// The points for one world: for each operation and size the most specific one, then the latest.
  [[nodiscard]] std::vector<TuningPoint> points_for(const TuningScope& world) const;
};

/// As JSON, one line per point.
std::string to_json(const TuningTable& table);
/// `name` says in failures what could not be read.
Result<TuningTable> read_tuning_json(std::string_view text, std::string_view name);

/// Are two measured values apart by more than the noise of their difference?
bool are_apart(double value, double noise, double other, double other_noise);

/// What is known of a recipe for one size class.
struct Measured {
  Recipe recipe;  ///< of an algorithm that can do it
  double us = 0;
  double slowness = 1;  ///< time over that of the fastest
  double noise = 0;     ///< in the unit of `slowness`
};

/// A point speaks for sizes up to four times smaller or larger; between two points both count.
/// Fastest first; empty where nothing was measured. `points`: for one world.
std::vector<Measured> measured(const std::vector<TuningPoint>& points, const CollectiveSpec& spec,
                               const Layout& layout, std::uint32_t size_class);

/// Which of `list` to take where the model would take `model`, cut its own way: the fastest; but
/// the model's, or else the fastest's algorithm cut as the planner does, where the difference is no
/// larger than the noise, and a tenth at most. Null where `list` is empty.
const Measured* better_than_model(const std::vector<Measured>& list, const Algorithm& model);

}  // namespace coll
