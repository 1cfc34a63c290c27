// SPDX-License-Identifier: Apache-2.0
// The chain's matrix, its stationary distribution and its draws.
#include "markov_chain.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "../math/counter_random.hpp"
#include "draw.hpp"

namespace training {
namespace {

/// Solves pi P = pi by state reduction, which subtracts nothing and so loses no digits (Grassmann,
/// Taksar, Heyman 1985, "Regenerative analysis and steady state distributions for Markov chains",
/// Operations Research 33): the states from the last to the second are left out of the chain, then
/// found again from the first on.
std::vector<double> stationary_of(std::vector<double> p, std::size_t n) {
  for (std::size_t k = n - 1; k > 0; --k) {
    const double* row = p.data() + k * n;
    const double leaves = std::accumulate(row, row + k, 0.0);
    for (std::size_t i = 0; i < k; ++i) {
      p[i * n + k] /= leaves;
      for (std::size_t j = 0; j < k; ++j) p[i * n + j] += p[i * n + k] * row[j];
    }
  }
  std::vector<double> pi(n, 0);
  pi[0] = 1;
  for (std::size_t k = 1; k < n; ++k)
    for (std::size_t i = 0; i < k; ++i) pi[k] += pi[i] * p[i * n + k];
  const double total = std::accumulate(pi.begin(), pi.end(), 0.0);
  for (double& share : pi) share /= total;
  return pi;
}

}  // namespace

MarkovChain::MarkovChain(std::uint64_t seed, std::size_t states)
    : states_(states), sums_(states * states) {
  const CounterRandom random(seed, kMatrix);
  std::vector<double> p(states * states);
  for (std::size_t i = 0; i < states; ++i) {
    std::uint32_t sum = 0;
    for (std::size_t j = 0; j < states; ++j) {
      const std::uint64_t u = random(0, low_word(i), low_word(j))[0] >> 16U;
      sums_[i * states + j] = sum += 1 + high_word(u * u * u);
    }
    for (std::size_t j = 0; j < states; ++j) p[i * states + j] = probability(i, j);
  }
  stationary_ = stationary_of(std::move(p), states);
}

double MarkovChain::probability(std::size_t from, std::size_t to) const {
  const std::uint32_t* row = sums_.data() + from * states_;
  return static_cast<double>(row[to] - (to == 0 ? 0 : row[to - 1])) / row[states_ - 1];
}

double MarkovChain::entropy() const {
  double entropy = 0;
  for (std::size_t i = 0; i < states_; ++i) {
    for (std::size_t j = 0; j < states_; ++j)
      entropy -= stationary_[i] * probability(i, j) * std::log(probability(i, j));
  }
  return entropy;
}

std::size_t MarkovChain::first(std::uint32_t high, std::uint32_t low) const {
  const double u = std::ldexp(static_cast<double>(high) + std::ldexp(low, -32), -32);
  double sum = 0;
  for (std::size_t state = 0; state + 1 < states_; ++state) {
    sum += stationary_[state];
    if (u < sum) return state;
  }
  return states_ - 1;
}

std::size_t MarkovChain::next(std::size_t from, std::uint32_t high, std::uint32_t low) const {
  const auto row = sums_.begin() + static_cast<std::ptrdiff_t>(from * states_);
  const auto end = row + static_cast<std::ptrdiff_t>(states_);
  return static_cast<std::size_t>(std::upper_bound(row, end, below(end[-1], high, low)) - row);
}

}  // namespace training
