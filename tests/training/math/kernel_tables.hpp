// SPDX-License-Identifier: Apache-2.0
// The kernels of every instruction set that this machine has, and numbers to give them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "math/kernels.hpp"

namespace training {
namespace avx512 {
Table make_table();
}
namespace avx2 {
Table make_table();
}
namespace baseline {
Table make_table();
}

namespace test {

/// The baseline's comes first; the last is the one that table() picks, with its matrix product.
inline std::vector<Table> tables_of_this_machine() {
  std::vector<Table> tables = {baseline::make_table()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    tables.push_back(avx2::make_table());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    tables.push_back(avx512::make_table());
#endif
  tables.push_back(table());
  return tables;
}

template <class Real>
const Kernels<Real>& kernels_of(const Table& table);
template <>
inline const Kernels<float>& kernels_of(const Table& table) {
  return table.of_float;
}
template <>
inline const Kernels<double>& kernels_of(const Table& table) {
  return table.of_double;
}

/// Normal numbers.
template <class Real>
std::vector<Real> normals(std::size_t count, std::mt19937_64& random, double deviation = 1) {
  std::normal_distribution<double> normal(0, deviation);
  std::vector<Real> values(count);
  for (Real& value : values) value = static_cast<Real>(normal(random));
  return values;
}

/// Targets of rows, of which a quarter does not count.
inline std::vector<std::int32_t> some_targets(std::size_t rows, std::size_t columns,
                                              std::mt19937_64& random) {
  std::vector<std::int32_t> targets(rows);
  for (auto& target : targets)
    target = random() % 4 == 0 ? -1 : static_cast<std::int32_t>(random() % columns);
  return targets;
}

}  // namespace test
}  // namespace training
