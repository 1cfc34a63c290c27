// SPDX-License-Identifier: Apache-2.0
// How fast a core is, and what it costs to pass memory from one core to another, measured.
#pragma once

namespace coll {

/// Microseconds. The values of two cores are 0 where this process may use one core only, where the
/// second core was busy, and where another process measured at the same time.
struct CoreCosts {
  double chain_us = 0;          ///< 1,000 multiplications, each of the result of the one before
  double line_us = 0;           ///< a cache line to another core, one way
  double pass_us_per_byte = 0;  ///< 64 KiB, written on one core and taken by another: the mean of a
                                ///< copy and of an addition to other numbers
};

/// Measured in this process when first asked for, in 0.2 ms, or up to 2.5 ms where cores are
/// busy; the same ever after, for all threads. A second thread helps, on another of the cores that
/// this process may use.
const CoreCosts& core_costs();

}  // namespace coll
