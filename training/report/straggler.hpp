// SPDX-License-Identifier: Apache-2.0
// Finds ranks that hold the others up, from the time of each rank's own work in each step.
//
// In each step of the window a rank's time is compared with the median of the others' (the upper
// one of two in the middle). A rank is a straggler if
//   1. the window has at least 20 steps;
//   2. it matters: the ratio of the two is at least 1.1 at the median, a tenth slower;
//   3. it is no noise: it was slower in k of n steps, and z = (k - n/2) / (sqrt(n)/2) is at
//   least 4.4,
//      as in 20 of 20 or 41 of 50. If ranks differ by noise alone, however wild and skewed, each is
//      slower in at most half of the steps: chance then passes 4.4 about once in 300 000 windows
//      (sign test), as long as steps are independent. A rank that something else slows down for a
//      whole window is a straggler.
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
inline constexpr double kStragglerRatio = 1.1, kStragglerScore = 4.4;

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

/// `times[step][rank]`: seconds of own work. Throws Failure if steps differ in their ranks, or a
/// time is negative or not finite.
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
