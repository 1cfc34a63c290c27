// SPDX-License-Identifier: Apache-2.0
// Calls that were made before, kept with all that they need to run again.
#pragma once
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "communicator/calls/call_counts.hpp"
#include "communicator/calls/call_parts.hpp"
#include "communicator/calls/result_store.hpp"
#include "executor/run.hpp"
#include "watch/call_board.hpp"

namespace coll {

/// The tag of a recv that takes messages with any tag.
inline constexpr std::int32_t kAnyTag = COLL_ANY_TAG;

/// The factor of a rank's input to a sum: one element of the call's type.
struct Factor {
  const void* late = nullptr;            ///< where it lies once the call starts; null: in `value`
  std::array<std::uint64_t, 2> value{};  ///< as many bytes of it as an element has
};

/// What few calls have. It concerns the begin and the end of a call only; in between it makes no
/// difference.
struct Extras {
  // Of a tagged call.
  std::int32_t tag = 0;
  coll_message_t* message = nullptr;  ///< of a recv: what it took, if anybody wants to know
  // Of a reduction.
  std::optional<Factor> factor;   ///< its input becomes the product
  reduce::OwnReduction own = {};  ///< if the call's op is the program's own
  // Of a call of many parts.
  std::shared_ptr<const CallParts> parts = {};
  std::uint64_t agreed = 0;  ///< a hash of what all ranks give alike beside the call

  [[nodiscard]] bool any() const { return factor || own.combine != nullptr || parts; }
};

/// One operation as the user asked for it.
struct Request {
  Call call;
  const void* input = nullptr;
  void* output = nullptr;
  const UnequalBlocks* blocks = nullptr;  ///< if the call is `unequal`
  const Extras* extras = nullptr;         ///< always there if the call is `tagged`

  friend bool operator==(const Request& a, const Request& b) {
    return a.call == b.call && a.input == b.input && a.output == b.output &&
           (a.blocks == b.blocks || same_lengths(a, b));
  }
  static bool same_lengths(const Request& a, const Request& b);
  /// To hold while the call is kept. (A request itself owns nothing: it is made for every call.)
  [[nodiscard]] std::shared_ptr<const UnequalBlocks> kept_blocks() const {
    return blocks == nullptr ? nullptr : blocks->shared_from_this();
  }
};

/// The bytes from the first to the last that a call touches in a buffer.
struct Buffer {
  std::uintptr_t begin = 0;
  std::uint64_t bytes = 0;
};
struct Buffers {
  Buffer input, output;
};
Buffers buffers_of(const Request& request, Rank rank, Rank size);
/// Do they share a byte?
constexpr bool overlap(const Buffer& a, const Buffer& b) {
  return a.bytes != 0 && b.bytes != 0 && a.begin + a.bytes > b.begin && b.begin + b.bytes > a.begin;
}

/// Where blocks lie behind a buffer's address, as the request gives it, if its bytes lie at `to`.
template <class Pointer>
Pointer moved(Pointer given, const Buffer& buffer, const std::byte* to) {
  const std::uintptr_t before = buffer.begin - reinterpret_cast<std::uintptr_t>(given);
  return reinterpret_cast<Pointer>(reinterpret_cast<std::uintptr_t>(to) - before);
}

/// Calls visit(place behind the buffer's begin, bytes) for all that the call touches of a buffer.
/// What lies between blocks is not the call's.
template <class Visit>
void for_each_run(const Request& request, Space space, const Buffer& buffer, Visit visit) {
  if (request.blocks == nullptr) return visit(std::uint64_t{0}, buffer.bytes);
  const std::size_t element = size_of(request.call.type);
  const std::uint64_t first = request.blocks->reach(space).begin;
  for (const UnequalBlocks::Block& block : request.blocks->of(space))
    if (block.count != 0) visit((block.offset - first) * element, block.count * element);
}

/// A request that was checked and bound to its program.
struct BoundCall {
  Request request;
  std::shared_ptr<const UnequalBlocks> blocks;  ///< the request's
  Run run;
  std::uint64_t digest = 0;  ///< of all but the number
  bool settled = false;      ///< else the next call is bound anew
  bool in_flight = false;
  RepeatCount repeats;  ///< where nothing else was in flight
};

/// Most calls repeat, buffers included (a training step's gradients): one compare then finds all
/// that the call needs, and nothing is allocated.
class BoundCalls {
 public:
  BoundCalls(Rank rank, Rank size, const ResultStore& results)
      : rank_(rank), size_(size), results_(&results) {}

  /// The request as it was bound before, if it was and is not in flight; else null.
  [[nodiscard]] BoundCall* find(const Request& request) {
    BoundCall* const calls = calls_.load(std::memory_order_relaxed);
    if (calls == nullptr) [[unlikely]]
      return nullptr;
    BoundCall& place = calls[place_of(request)];
    const bool known = place.run.program != nullptr && place.settled && !place.in_flight &&
                       place.request == request;
    return known ? &place : nullptr;
  }
  /// Binds a checked request. Allocates.
  BoundCall& bind(const Request& request, Program& program);
  /// The call has succeeded beside others.
  void count(const BoundCall& bound) { counts_.add(bound.run.traffic); }
  /// So has a call that was a copy within this rank.
  void count_copy() { counts_.add({}); }
  /// From any thread.
  [[nodiscard]] CallCounts::Sums sums() const {
    return counts_.read([this] {
      const BoundCall* const calls = calls_.load(std::memory_order_acquire);
      return std::span(calls, calls == nullptr ? 0 : kCalls);
    });
  }
  /// The call is not in flight any more.
  void give_back(BoundCall& bound) {
    bound.in_flight = false;
    const BoundCall* const calls = calls_.load(std::memory_order_relaxed);
    if (&bound < calls || &bound >= calls + kCalls) idle_.push_back(&bound);  // there is room
  }

 private:
  static constexpr std::size_t kCalls = 32;
  static std::size_t place_of(const Request& request) {
    const std::uint64_t key =
        (reinterpret_cast<std::uintptr_t>(request.input) +
         3 * reinterpret_cast<std::uintptr_t>(request.output) + request.call.count * 5 +
         static_cast<std::uint64_t>(request.call.collective)) *
        0x9e3779b97f4a7c15ULL;  // Fibonacci hashing (Knuth, TAOCP 3, section 6.4)
    static_assert(std::has_single_bit(kCalls));
    return key >> (64 - std::countr_zero(kCalls));
  }

  Rank rank_;
  Rank size_;
  const ResultStore* results_;
  CallCounts counts_;
  /// `kCalls` places, made by the first call: most of a communicator's memory.
  std::unique_ptr<BoundCall[]> made_;
  std::atomic<BoundCall*> calls_{nullptr};         ///< the same, for any thread
  std::vector<std::unique_ptr<BoundCall>> spare_;  ///< for calls whose place is in flight
  std::vector<BoundCall*> idle_;                   ///< of the spare ones
};

}  // namespace coll
