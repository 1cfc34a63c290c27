// SPDX-License-Identifier: Apache-2.0
// The digest by which ranks notice that calls differ.
#pragma once
#include "watch/call_board.hpp"

namespace coll {

/// Blocks of the larger buffer of any rank: size_ where the operation has one block per rank,
/// else 1.
constexpr std::uint64_t whole_blocks(Collective collective, Rank size) {
  using enum Collective;
  switch (collective) {
    case all_gather:
    case reduce_scatter:
    case all_to_all:
    case gather:
    case scatter:
      return static_cast<std::uint64_t>(size);
    default:
      return 1;
  }
}

/// 64 bits of a call, of the counts that all its ranks give, and of its plan, but for its number. A
/// send and its recv have the same.
/// Multiply-xorshift mixing after MurmurHash3's finaliser (Appleby): any changed bit changes the
/// digest but for a chance of 2^-64.
constexpr std::uint64_t mix_digest(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 32);
}
constexpr std::uint64_t digest_of(const Call& call, std::uint64_t counts, Rank rank,
                                  std::uint64_t plan_digest) {
  Collective collective = call.collective;
  Rank root = call.root;
  if (call.is_pair()) {  // both ends name the sender
    if (collective == Collective::send) root = rank;
    collective = Collective::send;
  }
  const auto kind = static_cast<std::uint64_t>(call.form) << 56 |
                    static_cast<std::uint64_t>(collective) << 48 |
                    static_cast<std::uint64_t>(call.type) << 40 |
                    static_cast<std::uint64_t>(call.op) << 32 | static_cast<std::uint32_t>(root);
  return mix_digest(mix_digest(mix_digest(0x9e3779b97f4a7c15ULL, kind), counts), plan_digest);
}
/// The digest of one call: what rides on its messages.
constexpr std::uint64_t numbered(std::uint64_t digest, std::uint64_t sequence) {
  return mix_digest(digest, sequence);
}

}  // namespace coll
