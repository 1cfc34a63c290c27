// SPDX-License-Identifier: Apache-2.0
// Contents of chunks as shared expressions, each stored once.
#include "schedule/proof/contribution.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"

namespace coll {
namespace {

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

Summary summary_of(const Contribution& contribution) {
  const std::uint64_t key =
      (static_cast<std::uint64_t>(contribution.rank) << 32 | contribution.chunk);
  const std::uint64_t low = mixed(key + mixed(contribution.pass));
  return {.count = 1, .low = low, .high = mixed(low ^ 0x5851f42d4c957f2dU)};
}

Contributions::Contributions(std::span<const std::uint32_t> input_chunks, std::uint32_t parts,
                             std::uint32_t passes, bool keep_sides)
    : keep_sides_(keep_sides) {
  first_.reserve(input_chunks.size());
  for (const std::uint32_t chunks : input_chunks) {
    first_.push_back(per_pass_);
    per_pass_ += chunks;
  }
  contributions_ = per_pass_ * passes;
  nodes_.reserve(std::size_t{contributions_} * 2 + 1);
  nodes_.emplace_back();
  for (std::uint32_t pass = 0; pass < passes; ++pass) {
    for (std::size_t rank = 0; rank < input_chunks.size(); ++rank) {
      for (std::uint32_t chunk = 0; chunk < input_chunks[rank]; ++chunk) {
        const Contribution one{pass, static_cast<Rank>(rank), chunk};
        nodes_.push_back({.part = chunk % parts, .summary = summary_of(one)});
      }
    }
  }
  table_.resize(1024);
}

std::size_t Contributions::slot(Content left, Content right) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t at = mixed(static_cast<std::uint64_t>(left) << 32 | right) & mask;
  while (table_[at] != kNothing &&
         (nodes_[table_[at]].left != left || nodes_[table_[at]].right != right)) {
    at = (at + 1) & mask;
  }
  return at;
}

void Contributions::grow() {
  table_.assign(table_.size() * 2, kNothing);
  for (std::size_t node = contributions_ + 1; node < nodes_.size(); ++node) {
    table_[slot(nodes_[node].left, nodes_[node].right)] = static_cast<Content>(node);
  }
}

Content Contributions::keep(Content left, Content right) {
  std::size_t at = slot(left, right);
  if (table_[at] != kNothing) return table_[at];
  COLL_CHECK(nodes_.size() < std::numeric_limits<Content>::max(), "too many expressions");
  if ((nodes_.size() - contributions_) * 2 > table_.size()) {
    grow();
    at = slot(left, right);
  }
  Node node{.left = left, .right = right, .part = nodes_[right].part};
  node.summary = nodes_[right].summary;
  node.summary += nodes_[left].summary;
  const bool is_finish = left == kNothing;
  node.finishes =
      std::min(nodes_[left].finishes + nodes_[right].finishes + (is_finish ? 1U : 0U), 2U);
  nodes_.push_back(node);
  return table_[at] = static_cast<Content>(nodes_.size() - 1);
}

Contribution Contributions::contribution_of(Content content) const {
  const std::uint32_t index = content - 1;
  const std::uint32_t within = index % per_pass_;
  const auto after = std::upper_bound(first_.begin(), first_.end(), within);
  const auto rank = static_cast<std::size_t>(after - first_.begin()) - 1;
  return {index / per_pass_, static_cast<Rank>(rank), within - first_[rank]};
}

std::map<Contribution, std::uint64_t> Contributions::exactly(Content content) const {
  // Operands have smaller numbers than what they are in: from the top down each is seen complete.
  std::map<Content, std::uint64_t, std::greater<>> times{{content, 1}};
  std::map<Contribution, std::uint64_t> found;
  while (!times.empty()) {
    const auto [node, count] = *times.begin();
    times.erase(times.begin());
    if (node == kNothing) continue;
    if (node <= contributions_) {
      found[contribution_of(node)] = count;
      continue;
    }
    for (const Content operand : {nodes_[node].left, nodes_[node].right}) {
      std::uint64_t& sum = times[operand];
      sum += std::min(count, std::numeric_limits<std::uint64_t>::max() - sum);
    }
  }
  return found;
}

}  // namespace coll
