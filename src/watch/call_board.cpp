// SPDX-License-Identifier: Apache-2.0
// Calls as words, written and read without a lock.
#include "watch/call_board.hpp"

#include <algorithm>
#include <bit>

namespace coll {
namespace {

constexpr std::uint64_t kOpen = (std::uint64_t{1} << CallBoard::kKept) - 1;

constexpr std::uint64_t number_of(std::uint64_t state) {
  return state >> CallBoard::kKept;
}

constexpr std::uint64_t bit_of(std::uint64_t number) {
  return std::uint64_t{1} << number % CallBoard::kKept;
}

}  // namespace

std::string Call::name() const {
  constexpr std::array<std::string_view, kCallForms> kEnds{"", "v", "_tagged", " of parts"};
  return std::string(name_of(collective)).append(kEnds[static_cast<std::size_t>(form)]);
}

std::string Call::text() const {
  if (sequence == 0) return "no call";
  std::string line = name();
  line.append(" #").append(std::to_string(sequence));
  if (collective != Collective::barrier) {
    line.append(" ").append(name_of(type)).append("x").append(std::to_string(count));
  }
  if (reduces(collective)) line.append(" ").append(name_of(op));
  if (tagged() && root == kNoRank) {
    line.append(" any peer");
  } else if (has_root(collective)) {
    line.append(is_pair() ? " peer " : " root ").append(std::to_string(root));
  }
  return line;
}

// No fences: the words' own release and acquire order them. Whoever reads a word of a newer call
// also sees the version that its writer had set before, and so notices.
std::uint64_t CallBoard::enter(const Call& call) {
  if (!call.is_pair() && call.sequence > collectives_.load(std::memory_order_relaxed)) {
    collectives_.store(call.sequence, std::memory_order_release);
  }
  const std::uint64_t state = state_.load(std::memory_order_relaxed);
  std::uint64_t number = number_of(state) + 1;
  if ((state & kOpen) != 0) [[unlikely]] {
    if ((state & kOpen) == kOpen) return 0;
    while ((state & bit_of(number)) != 0) ++number;  // not the place of a call that it is in
  }
  Entry& entry = entries_[number % kKept];
  entry.version.store(2 * number - 1, std::memory_order_relaxed);
  entry.sequence.store(call.sequence, std::memory_order_release);
  entry.what.store(call.what(), std::memory_order_release);
  entry.count.store(call.count, std::memory_order_release);
  entry.version.store(2 * number, std::memory_order_release);
  state_.store(number << kKept | (state & kOpen) | bit_of(number), std::memory_order_release);
  return number;
}

void CallBoard::leave(std::uint64_t place) {
  if (place == 0) return;
  state_.store(state_.load(std::memory_order_relaxed) & ~bit_of(place), std::memory_order_release);
}

bool CallBoard::half_full() const {
  return std::popcount(state_.load(std::memory_order_relaxed) & kOpen) * 2 >= int{kKept};
}

/// Nothing while the entry is being written, or if it never was.
std::optional<CallBoard::Noted> CallBoard::read_entry(std::size_t slot) const {
  const Entry& entry = entries_[slot];
  const std::uint64_t version = entry.version.load(std::memory_order_acquire);
  if (version == 0 || version % 2 != 0) return std::nullopt;
  Noted noted;
  noted.number = version / 2;
  noted.call.sequence = entry.sequence.load(std::memory_order_acquire);
  noted.call.set_what(entry.what.load(std::memory_order_acquire));
  noted.call.count = entry.count.load(std::memory_order_acquire);
  if (entry.version.load(std::memory_order_relaxed) != version) return std::nullopt;
  return noted;
}

CallBoard::Reading CallBoard::read() const {
  for (;;) {
    const std::uint64_t state = state_.load(std::memory_order_acquire);
    if (state == 0) return {};
    std::optional<Noted> oldest;
    std::uint32_t open = 0;
    for (std::size_t slot = 0; slot < kKept; ++slot) {
      if ((state & bit_of(slot)) == 0) continue;
      const std::optional<Noted> one = read_entry(slot);
      if (!one || one->number > number_of(state)) continue;
      ++open;
      if (!oldest || one->number < oldest->number) oldest = one;
    }
    const bool inside = oldest.has_value();
    if (!inside) oldest = read_entry(number_of(state) % kKept);
    // The entry was overwritten meanwhile, so there is a newer call. Its writer may not have noted
    // it in the state: whoever read it here could read the older one next.
    if (!oldest || oldest->number > number_of(state)) continue;
    return {oldest->call, inside, inside ? open - 1 : 0, number_of(state),
            collectives_.load(std::memory_order_acquire)};
  }
}

std::vector<Call> CallBoard::open_calls() const {
  std::vector<Noted> noted;
  const std::uint64_t state = state_.load(std::memory_order_acquire);
  for (std::size_t slot = 0; slot < kKept; ++slot) {
    if ((state & bit_of(slot)) == 0) continue;
    if (const auto one = read_entry(slot)) noted.push_back(*one);
  }
  std::ranges::sort(noted, {}, &Noted::number);
  std::vector<Call> calls;
  for (const Noted& one : noted) calls.push_back(one.call);
  return calls;
}

std::optional<Call> CallBoard::counterpart(const Call& asked, Rank asker) const {
  std::optional<Noted> latest;
  if (asked.tagged()) return std::nullopt;
  for (std::size_t slot = 0; slot < kKept; ++slot) {
    const std::optional<Noted> one = read_entry(slot);
    if (!one || one->call.sequence != asked.sequence || one->call.is_pair() != asked.is_pair() ||
        one->call.tagged()) {
      continue;
    }
    const bool meets =
        !asked.is_pair() || (one->call.root == asker && one->call.collective != asked.collective);
    if (meets && (!latest || one->number > latest->number)) latest = one;
  }
  return latest ? std::optional(latest->call) : std::nullopt;
}

}  // namespace coll
