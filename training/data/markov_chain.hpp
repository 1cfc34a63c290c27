// SPDX-License-Identifier: Apache-2.0
// A Markov chain whose entropy rate is known: no model's mean loss on its text can be lower.
//
//   H = - sum_i pi_i sum_j P_ij ln P_ij nats for each symbol, where pi P = pi
//
// (Shannon 1948, "A mathematical theory of communication", section 7). P is in whole numbers: row i
// has weights w_ij from 1 to 2^16 and P_ij = w_ij / sum_j w_ij, so every machine draws the same
// text. Weights are 1 + 2^16 u^3 with random u below 1: some symbols follow often, and none is
// impossible, so that there is one pi.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace training {

class MarkovChain {
 public:
  /// Of 2 to 256 states.
  MarkovChain(std::uint64_t seed, std::size_t states);

  [[nodiscard]] std::size_t states() const { return states_; }
  [[nodiscard]] double probability(std::size_t from, std::size_t to) const;
  [[nodiscard]] const std::vector<double>& stationary() const { return stationary_; }
  [[nodiscard]] double entropy() const;

  /// A state by its stationary probability, and the one after another, from 64 random bits.
  [[nodiscard]] std::size_t first(std::uint32_t high, std::uint32_t low) const;
  [[nodiscard]] std::size_t next(std::size_t from, std::uint32_t high, std::uint32_t low) const;

 private:
  std::size_t states_;
  std::vector<std::uint32_t> sums_;  ///< of each row's weights, up to and with each column
  std::vector<double> stationary_;
};

}  // namespace training
