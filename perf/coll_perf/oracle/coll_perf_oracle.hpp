// SPDX-License-Identifier: Apache-2.0
// What every rank sends and what it must receive, element by element, and the count of those that
// are wrong.
#pragma once
#include <collectives/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "coll_perf/coll_perf_operation.hpp"
#include "coll_perf/oracle/coll_perf_element.hpp"

namespace perf {

constexpr int kReduced = -1;  ///< as a source: the reduction over all ranks

/// A run of elements: those of `source` from index `first` on.
struct Segment {
  int source;
  std::size_t first;
  std::size_t count;
};

/// What `rank` gives and what it must hold afterwards, from the start of the buffer on. Empty:
/// the buffer plays no part on this rank.
std::vector<Segment> sent(Operation operation, int rank, int ranks, int root, std::size_t count);
std::vector<Segment> received(Operation operation, int rank, int ranks, int root,
                              std::size_t count);
std::size_t elements(const std::vector<Segment>& segments);

/// The data of all ranks for one element type and reduction. Values are small integers or powers of
/// two, such that every partial result is representable in every order: a result is exact or wrong.
/// (avg is one division of an exact sum.) Of bits and truth values few ranks decide an element. The
/// reduction is computed in long double from the values, not from their bytes. Values repeat after
/// a prime number of elements, so that a misplaced chunk shows; `seed` makes another set.
class Oracle {
 public:
  Oracle(coll_dtype_t type, coll_op_t op, bool reduces, int ranks, std::uint64_t seed);

  [[nodiscard]] Value value(int rank, std::size_t index) const;
  [[nodiscard]] Value reduced(std::size_t index) const;

  void fill(const std::vector<Segment>& segments, void* buffer);
  /// Puts something else than the expected into every element.
  void spoil(const std::vector<Segment>& segments, void* buffer);
  /// Elements that differ from the expected; NaN always differs.
  std::uint64_t wrong(const std::vector<Segment>& segments, const void* buffer);

 private:
  [[nodiscard]] long double bits_value(std::uint64_t dice) const;
  [[nodiscard]] long double part_value(std::uint64_t dice, bool active) const;
  [[nodiscard]] Value combine(Value a, Value b) const;
  const std::vector<unsigned char>& table(int source);

  coll_dtype_t type_;
  coll_op_t op_;
  bool reduces_;
  int ranks_;
  std::uint64_t seed_;
  std::size_t width_;
  int active_;         ///< ranks that give something else than the neutral value to an element
  long double limit_;  ///< the largest value that a rank gives
  std::map<int, std::vector<unsigned char>> tables_;  ///< by source: one period, encoded
};

}  // namespace perf
