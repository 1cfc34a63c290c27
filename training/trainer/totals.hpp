// SPDX-License-Identifier: Apache-2.0
// What all ranks must know of a step before they update weights: the norm of the gradients, the
// loss and the number of rows. Sums are exact (exact_sum.hpp), so they do not depend on which rank
// contributes what, and one all-reduce of integers brings all of them.
#pragma once
#include <collectives/collectives.hpp>
#include <vector>

#include "../math/exact_sum.hpp"
#include "../memory/failure.hpp"

namespace training {

struct Totals {
  ExactSum squares;  ///< of gradients
  ExactSum loss;     ///< of rows that count
  std::int64_t rows = 0, right = 0;
  std::vector<std::int64_t> used;  ///< of each parameter: micro-batches that gave it a gradient

  /// Becomes the sum over all ranks.
  void add_up(collectives::Communicator& comm) {
    std::vector<std::int64_t> all = {rows, right};
    all.insert(all.end(), used.begin(), used.end());
    for (ExactSum* sum : {&squares, &loss})
      all.insert(all.end(), sum->digits().begin(), sum->digits().end());
    value_of(comm.all_reduce<std::int64_t>(all, COLL_SUM));
    rows = all[0];
    right = all[1];
    auto from = all.begin() + 2;
    for (std::int64_t& count : used) count = *from++;
    for (ExactSum* sum : {&squares, &loss})
      for (std::int64_t& digit : sum->digits()) digit = *from++;
  }
};

}  // namespace training
