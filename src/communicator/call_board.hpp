// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: which call a rank is in, readable by other
// threads.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "base/types.hpp"

namespace coll {

/// One user call, as a value: what errors and reports name, and what the digest is made of.
struct Call {
  std::uint64_t sequence = 0;  ///< 1 for the communicator's first operation; 0: none yet
  Collective collective = Collective::barrier;
  DataType type = DataType::int8;
  ReduceOp op = ReduceOp::sum;
  Rank root = kNoRank;      ///< root or peer, where the operation has one
  std::uint64_t count = 0;  ///< elements, as the user gave them

  friend bool operator==(const Call&, const Call&) = default;
  /// "all_reduce #41 f32x4096 sum", "broadcast #42 int8x16 root 3"
  [[nodiscard]] std::string text() const;
};

/// The place where a rank's calling thread notes its call, and its watch thread reads it. Writing
/// costs a few plain stores on the call path; a reader that meets a write in progress tries again
/// (a seqlock).
class CallBoard {
 public:
  struct Reading {
    Call call;
    bool inside = false;         ///< in the call now, or between calls with `call` the last one
    std::uint64_t since_ns = 0;  ///< steady clock at the call's start; 0 before the first slow look
  };

  void enter(const Call& call);
  void leave();
  [[nodiscard]] Reading read() const;

 private:
  alignas(64) std::atomic<std::uint32_t> version_{0};
  std::atomic<bool> inside_{false};
  std::atomic<std::uint64_t> words_[4] = {};
};

}  // namespace coll
