// SPDX-License-Identifier: Apache-2.0
// Calls packed into words, written and read without a lock.
#include "watch/call_board.hpp"

#include <bit>

namespace coll {
namespace {

std::uint64_t pack(const Call& call) {
  return static_cast<std::uint64_t>(call.collective) | static_cast<std::uint64_t>(call.type) << 8 |
         static_cast<std::uint64_t>(call.op) << 16 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)) << 32;
}

void unpack(std::uint64_t word, Call& call) {
  call.collective = static_cast<Collective>(word & 0xff);
  call.type = static_cast<DataType>(word >> 8 & 0xff);
  call.op = static_cast<ReduceOp>(word >> 16 & 0xff);
  call.root = static_cast<Rank>(static_cast<std::uint32_t>(word >> 32));
}

constexpr std::uint64_t kOpen = (std::uint64_t{1} << CallBoard::kKept) - 1;

constexpr std::uint64_t number_of(std::uint64_t state) {
  return state >> CallBoard::kKept;
}

constexpr std::uint64_t bit_of(std::uint64_t number) {
  return std::uint64_t{1} << number % CallBoard::kKept;
}

constexpr std::uint64_t first_kept(std::uint64_t last) {
  return last < CallBoard::kKept ? 1 : last - CallBoard::kKept + 1;
}

/// The number of the oldest call that the rank is in, or else of the last one.
std::uint64_t oldest_open(std::uint64_t state) {
  const std::uint64_t last = number_of(state);
  if ((state & kOpen) == 0) return last;
  std::uint64_t number = first_kept(last);
  while ((state & bit_of(number)) == 0) ++number;
  return number;
}

}  // namespace

std::string Call::text() const {
  if (sequence == 0) return "no call";
  std::string line(name_of(collective));
  line.append(" #").append(std::to_string(sequence));
  if (collective != Collective::barrier) {
    line.append(" ").append(name_of(type)).append("x").append(std::to_string(count));
  }
  if (reduces(collective)) line.append(" ").append(name_of(op));
  if (has_root(collective)) {
    line.append(is_pair() ? " peer " : " root ").append(std::to_string(root));
  }
  return line;
}

// No fences: the words' own release and acquire order them. Whoever reads a word of a newer call
// also sees the version that its writer had set before, and so notices.
std::uint64_t CallBoard::enter(const Call& call) {
  const std::uint64_t state = state_.load(std::memory_order_relaxed);
  const std::uint64_t number = number_of(state) + 1;
  Entry& entry = entries_[number % kKept];
  entry.version.store(2 * number - 1, std::memory_order_relaxed);
  entry.words[0].store(call.sequence, std::memory_order_release);
  entry.words[1].store(pack(call), std::memory_order_release);
  entry.words[2].store(call.count, std::memory_order_release);
  entry.version.store(2 * number, std::memory_order_release);
  if (!call.is_pair()) collectives_.store(call.sequence, std::memory_order_release);
  state_.store(number << kKept | (state & kOpen) | bit_of(number), std::memory_order_release);
  return number;
}

void CallBoard::leave(std::uint64_t place) {
  const std::uint64_t state = state_.load(std::memory_order_relaxed);
  if (number_of(state) >= place + kKept) return;  // its entry is another call's now
  state_.store(state & ~bit_of(place), std::memory_order_release);
}

std::optional<Call> CallBoard::read_entry(std::uint64_t number) const {
  const Entry& entry = entries_[number % kKept];
  if (entry.version.load(std::memory_order_acquire) != 2 * number) return std::nullopt;
  Call call;
  call.sequence = entry.words[0].load(std::memory_order_acquire);
  unpack(entry.words[1].load(std::memory_order_acquire), call);
  call.count = entry.words[2].load(std::memory_order_acquire);
  if (entry.version.load(std::memory_order_relaxed) != 2 * number) return std::nullopt;
  return call;
}

CallBoard::Reading CallBoard::read() const {
  for (;;) {
    const std::uint64_t state = state_.load(std::memory_order_acquire);
    if (state == 0) return {};
    const auto open = static_cast<std::uint32_t>(std::popcount(state & kOpen));
    // The entry is overwritten only after many more calls: then look again.
    if (const auto call = read_entry(oldest_open(state))) {
      return {*call, open != 0, open == 0 ? 0 : open - 1, number_of(state),
              collectives_.load(std::memory_order_acquire)};
    }
  }
}

std::vector<Call> CallBoard::open_calls() const {
  std::vector<Call> calls;
  const std::uint64_t state = state_.load(std::memory_order_acquire);
  const std::uint64_t last = number_of(state);
  for (std::uint64_t number = first_kept(last); number <= last; ++number) {
    if ((state & bit_of(number)) == 0) continue;
    if (const auto call = read_entry(number)) calls.push_back(*call);
  }
  return calls;
}

std::optional<Call> CallBoard::counterpart(const Call& asked, Rank asker) const {
  const std::uint64_t last = number_of(state_.load(std::memory_order_acquire));
  for (std::uint64_t number = last; number > 0 && number + kKept > last; --number) {
    const std::optional<Call> call = read_entry(number);
    if (!call || call->sequence != asked.sequence || call->is_pair() != asked.is_pair()) continue;
    if (!asked.is_pair()) return call;
    if (call->root == asker && call->collective != asked.collective) return call;
  }
  return std::nullopt;
}

}  // namespace coll
