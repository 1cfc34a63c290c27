// SPDX-License-Identifier: Apache-2.0
// What tests of the order of sums share: inputs, the tree's sums, and who demands them.
#pragma once
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "test_seed.hpp"

namespace collectives::testing {

template <class T>
using Inputs = std::vector<std::vector<T>>;  ///< by rank

inline coll_config_t in_tree_order(const char* transports = nullptr,
                                   const char* algorithm = nullptr) {
  coll_config_t config = config_with();
  config.order = COLL_ORDER_TREE;
  config.transports = transports;
  config.algorithm = algorithm;
  return config;
}

/// Of many magnitudes, so that most sums depend on their order.
template <class T>
Inputs<T> drawn(int ranks, std::size_t count) {
  std::mt19937_64 random(coll::test::test_seed());
  std::normal_distribution<T> normal(0, 1);
  Inputs<T> inputs(static_cast<std::size_t>(ranks), std::vector<T>(count));
  for (auto& input : inputs) {
    for (T& value : input) value = normal(random) * static_cast<T>(1 << random() % 12);
  }
  return inputs;
}

template <class T>
std::vector<T> combined(const std::vector<T>& a, const std::vector<T>& b, coll_op_t op) {
  std::vector<T> result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    result[i] = op == COLL_PROD ? a[i] * b[i] : a[i] + b[i];
  return result;
}

/// What docs/numerics.md says: pairs of ranks until 2^k sums are left, then pairs of neighbours.
template <class T>
std::vector<T> tree(const Inputs<T>& inputs, coll_op_t op = COLL_SUM) {
  std::size_t places = 1;
  while (2 * places <= inputs.size()) places *= 2;
  const std::size_t pairs = inputs.size() - places;
  Inputs<T> sums;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    sums.push_back(combined(inputs[2 * pair], inputs[2 * pair + 1], op));
  }
  sums.insert(sums.end(), inputs.begin() + static_cast<std::ptrdiff_t>(2 * pairs), inputs.end());
  while (sums.size() > 1) {
    Inputs<T> next;
    for (std::size_t j = 0; j < sums.size(); j += 2) {
      next.push_back(combined(sums[j], sums[j + 1], op));
    }
    sums = next;
  }
  if (op == COLL_AVG) {
    for (T& sum : sums[0]) sum /= static_cast<T>(inputs.size());
  }
  return sums[0];
}

template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace collectives::testing
