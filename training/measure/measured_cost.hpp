// SPDX-License-Identifier: Apache-2.0
// What an all-reduce takes, by its bytes: the alpha and beta of
// overlap_model.hpp.
#pragma once
#include <vector>

#include "../parallel/group_traffic.hpp"
#include "overlap_model.hpp"

namespace training {

/// The middle one, or the mean of the two in the middle; 0 of no values.
double median(std::vector<double> values);

/// Who moves an operation: the library's thread, as while a unit computes; or the thread that waits
/// for it, which saves wake-ups and so takes less.
enum class Mover { library, waiter };

/// Measures in rounds, so that other measurements can take turns with it and see the same machine.
/// All ranks make it, call it, and get the same.
class AllReduceCost {
 public:
  /// Each round issues operations of 1/2, 1 and 2 times `bytes`, one after another, over memory of
  /// `all` bytes: caches hold no more of it than of a model's gradients.
  AllReduceCost(collectives::Communicator& comm, Mover mover, std::size_t bytes, std::size_t all);
  void measure();
  /// By the medians of all rounds, each the slowest rank's.
  [[nodiscard]] Cost cost();

 private:
  double seconds_of(std::size_t count);
  collectives::Communicator& comm_;
  Mover mover_;
  struct Size {
    std::size_t count;            ///< elements
    std::vector<double> seconds;  ///< of one operation, by rounds
  };
  std::vector<Size> sizes_;
  std::vector<float> data_;
};

}  // namespace training
