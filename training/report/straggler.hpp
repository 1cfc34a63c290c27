// SPDX-License-Identifier: Apache-2.0
// Finds ranks that hold the others up, from the time of each rank's own work in each step.
//
// d = log(time / median of the other ranks' times), in each step of the window. Logarithms: noise of
// computing time is a factor. A rank is a straggler if
//   1. the window has at least 20 steps;
//   2. it matters: the median of d is at least log 1.1, a tenth slower than the others;
//   3. it is no noise: z = mean(d) / (deviation(d) / sqrt(steps)) is at least 5, Student's t of "it is
//      as fast as the others". With 19 degrees of freedom chance passes 5 once in 25 000.
// A z-score across the ranks of one step would not do: of N values it is at most (N-1)/sqrt(N), 1.5
// for four ranks, however late one is. With two ranks "the others" is the other.
#pragma once
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace training {

inline constexpr std::size_t kStragglerSteps = 20;
inline constexpr double kStragglerRatio = 1.1, kStragglerScore = 5;

struct RankPace {
  double ratio = 1;  ///< median over the steps of time / median of the others
  double score = 0;  ///< z of the rule
  bool straggler = false;
};

struct Paces {
  std::size_t steps = 0;
  std::vector<RankPace> ranks;
  /// Seconds that the first rank waited for the second: in each step all wait for who comes last.
  std::vector<std::vector<double>> waited;
  double seconds = 0;  ///< until the last rank came, in all
};

/// `times[step][rank]`: seconds of own work. Throws Failure if steps differ in their ranks, or a time
/// is negative or not finite.
Paces paces_of(std::span<const std::vector<double>> times);

/// Sentences: "Rank 3 is a straggler: … Ranks 0-2 waited 31 % of the time for rank 3."
std::string straggler_text(const Paces& paces);

/// The last steps of a run.
class StepTimes {
 public:
  explicit StepTimes(std::size_t window = 50) : window_(window) {}
  void add(std::vector<double> of_ranks);
  [[nodiscard]] Paces paces() const;

 private:
  std::size_t window_;
  std::deque<std::vector<double>> times_;
};

}  // namespace training
