// SPDX-License-Identifier: Apache-2.0
// Contents of chunks as expressions over the ranks' contributions.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace coll {

/// The content of a chunk: the number of an expression. Each expression is stored once, so equal
/// numbers mean equal bits.
using Content = std::uint32_t;
inline constexpr Content kNothing = 0;

/// One chunk of one rank's input, in one pass.
struct Contribution {
  std::uint32_t pass = 0;
  Rank rank = 0;
  std::uint32_t chunk = 0;
  friend auto operator<=>(const Contribution&, const Contribution&) = default;
};

/// A summary of a multiset of contributions: their number, and the sum of a 128-bit hash of each.
/// Two multisets with equal summaries count as equal; the chance of an error is 2^-128.
struct Summary {
  std::uint64_t count = 0;
  std::uint64_t low = 0, high = 0;

  Summary& operator+=(const Summary& other) {
    count += other.count;
    low += other.low;
    high += other.high;
    return *this;
  }
  friend bool operator==(const Summary&, const Summary&) = default;
};
Summary summary_of(const Contribution& contribution);

/// All expressions of a symbolic run: contribution | combine {a, b} | finish a. Each expression is
/// stored once ("hash-consing", Ershov 1958). So two copies of a chunk have the same number exactly
/// if they were combined in the same order. Swapping the two operands of one combination counts
/// only where `keep_sides`, because only a reduction that does not commute notices it. A chunk is
/// right if its multiset of contributions is: the contribution check of MSCCLang (Cowan et al.,
/// ASPLOS 2023), which here also distinguishes order and `finish`.
class Contributions {
 public:
  /// Rank r contributes `input_chunks[r]` chunks in each of `passes` passes; a block has `parts`
  /// chunks.
  Contributions(std::span<const std::uint32_t> input_chunks, std::uint32_t parts,
                std::uint32_t passes, bool keep_sides = false);

  [[nodiscard]] Content contribution(const Contribution& one) const {
    return 1 + one.pass * per_pass_ + first_[static_cast<std::size_t>(one.rank)] + one.chunk;
  }
  Content combine(Content left, Content right) {
    return keep_sides_ ? keep(left, right) : keep(std::min(left, right), std::max(left, right));
  }
  Content finish(Content a) { return keep(kNothing, a); }

  /// The part of its block that a content belongs to. Only contents of one part can be combined.
  [[nodiscard]] std::uint32_t part(Content content) const { return nodes_[content].part; }
  [[nodiscard]] const Summary& summary(Content content) const { return nodes_[content].summary; }
  /// finished: whether `finish` is the outermost operation. finishes: how many finishes the
  /// expression contains, counted up to 2.
  [[nodiscard]] bool finished(Content content) const {
    return nodes_[content].left == kNothing && nodes_[content].right != kNothing;
  }
  [[nodiscard]] std::uint32_t finishes(Content content) const { return nodes_[content].finishes; }

  /// The exact multiset, for error messages: contribution -> multiplicity (saturating).
  [[nodiscard]] std::map<Contribution, std::uint64_t> exactly(Content content) const;

 private:
  struct Node {
    Content left = kNothing, right = kNothing;  ///< contribution: neither; finish: only `right`
    std::uint32_t part = 0;
    std::uint32_t finishes = 0;
    Summary summary{};
  };
  Content keep(Content left, Content right);
  void grow();
  [[nodiscard]] std::size_t slot(Content left, Content right) const;
  [[nodiscard]] Contribution contribution_of(Content content) const;

  std::vector<std::uint32_t> first_;  ///< [r]: number of rank r's first chunk within a pass
  std::uint32_t per_pass_ = 0;
  std::uint32_t contributions_ = 0;
  bool keep_sides_;
  std::vector<Node> nodes_;     ///< [0] is kNothing, then the contributions
  std::vector<Content> table_;  ///< open addressing over `nodes_`; its size is a power of two
};

}  // namespace coll
