// SPDX-License-Identifier: Apache-2.0
// How much of its peak a device reaches if data come over a link meanwhile (ZeRO-Infinity,
// Rajbhandari et al. 2021, arXiv 2104.07857, sections 3 and 4), for estimates. Computation and
// transfers do not overlap in this model:
//
//   efficiency = ait * bandwidth / (ait * bandwidth + peak)
//
// where ait is arithmetic intensity: operations for each byte that moves.
#pragma once
#include <cstddef>

namespace training::infinity {

/// `bandwidth` in bytes/s, `peak` in operations/s.
constexpr double efficiency(double ait, double bandwidth, double peak) {
  return ait * bandwidth / (ait * bandwidth + peak);
}
/// The bandwidth that an efficiency below 1 needs.
constexpr double bandwidth_for(double efficiency, double ait, double peak) {
  return peak * efficiency / (1 - efficiency) / ait;
}

/// Arithmetic intensities. Parameters and gradients; `batch` is a device's.
constexpr double ait_of_parameters(double sequence, double batch) {
  return sequence * batch;
}
constexpr double ait_of_states(double sequence, double batch) {
  return sequence * batch / 4;
}
/// Checkpoints of activations, one every `interval` blocks.
constexpr double ait_of_activations(double hidden, double interval) {
  return 24 * hidden * interval;
}

/// A transformer's parameters, about.
constexpr double parameters(double layers, double hidden) {
  return 12 * layers * hidden * hidden;
}
/// Weights and gradients in 16 bits and states, gradients in f32 among them: 20 bytes each.
constexpr double bytes_of_model(double parameters) {
  return 20 * parameters;
}
/// Checkpoints of activations in 16 bits.
constexpr double bytes_of_checkpoints(double batch, double sequence, double hidden, double layers,
                                      double interval) {
  return 2 * batch * sequence * hidden * layers / interval;
}

}  // namespace training::infinity
