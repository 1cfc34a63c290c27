// SPDX-License-Identifier: Apache-2.0
// Virtual compute: units that sleep in place of computing, so that a few cores show what many ranks
// would overlap, wait for and leave idle.
#pragma once
#include <chrono>

#include "unit.hpp"

namespace training {

/// Each of `units`, with its parameters, width and memory, but with sleep in place of arithmetic: a
/// forward pass takes `forward`, a backward pass twice that. Gradients become ready one by one,
/// each after its parameter's share of the unit's elements. Outputs and gradients are small numbers
/// that depend on the micro-batch and the parameter alone. operations() is in nanoseconds, so that
/// a pipeline divides the time evenly.
template <class Real>
Units<Real> sleeping_units(Units<Real> units, std::chrono::nanoseconds forward);

}  // namespace training
