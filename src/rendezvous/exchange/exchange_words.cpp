// SPDX-License-Identifier: Apache-2.0
// The words of an exchange, packed and read.
#include "rendezvous/exchange/exchange_words.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "rendezvous/control_message.hpp"

namespace coll {
namespace {

constexpr char kText = 'T';
constexpr char kPacket = 'A';
constexpr char kHave = 'H';
constexpr char kGo = 'G';

/// What follows the letter; nothing under another one.
std::optional<MessageReader> open(std::string_view frame, char letter) {
  if (!frame.starts_with(letter)) return std::nullopt;
  return MessageReader(frame.substr(1));
}

/// Each text as what differs from the one before: what ranks say of themselves is much alike, and
/// all of it goes to every rank.
std::string pack_list(const std::vector<std::string>& texts) {
  MessageWriter message;
  std::string_view last;
  for (const std::string_view text : texts) {
    const std::size_t most = std::min(last.size(), text.size());
    const auto front = static_cast<std::size_t>(
        std::mismatch(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(most), last.begin())
            .first -
        text.begin());
    std::size_t back = 0;
    while (back < most - front && text[text.size() - 1 - back] == last[last.size() - 1 - back]) {
      ++back;
    }
    message.u32(static_cast<std::uint32_t>(front))
        .u32(static_cast<std::uint32_t>(back))
        .text(text.substr(front, text.size() - front - back));
    last = text;
  }
  return message.bytes();
}

std::optional<std::vector<std::string>> read_list(std::string_view bytes, Rank size) {
  MessageReader message(bytes);
  std::vector<std::string> texts;
  std::string last;
  std::size_t together = 0;
  for (Rank rank = 0; rank < size && message.good(); ++rank) {
    const std::uint64_t front = message.u32(), back = message.u32();
    if (front + back > last.size()) return std::nullopt;
    std::string text = last.substr(0, front) + message.text() + last.substr(last.size() - back);
    together += text.size();
    if (together > kPacketLimit) return std::nullopt;
    last = text;
    texts.push_back(std::move(text));
  }
  return message.whole() ? std::optional(std::move(texts)) : std::nullopt;
}

}  // namespace

RelayTree::RelayTree(Rank hub, Rank size, Rank fan_out)
    : hub_(hub), size_(size), fan_out_(fan_out) {
  // Next to the golden section few steps come back near to where they began; without a common
  // divisor all ranks are met.
  stride_ = std::max<Rank>(1, static_cast<Rank>(0.618 * size));
  while (std::gcd(stride_, size) != 1) ++stride_;
  // Euclid's algorithm, with how often the stride is in what is left.
  std::int64_t left = size, next = stride_, times = 0, next_times = 1;
  while (next > 1) {
    const std::int64_t quotient = left / next;
    left = std::exchange(next, left - quotient * next);
    times = std::exchange(next_times, times - quotient * next_times);
  }
  back_ = static_cast<Rank>((next_times % size + size) % size);
}

Rank RelayTree::rank_at(Rank place) const {
  return static_cast<Rank>((std::int64_t{place} * stride_ + hub_) % size_);
}

Rank RelayTree::place_of(Rank rank) const {
  return static_cast<Rank>(std::int64_t{rank - hub_ + size_} * back_ % size_);
}

std::vector<Rank> RelayTree::children(Rank rank) const {
  const std::int64_t first = std::int64_t{place_of(rank)} * fan_out_ + 1;
  std::vector<Rank> found;
  for (std::int64_t place = first; place < std::min<std::int64_t>(first + fan_out_, size_);
       ++place) {
    found.push_back(rank_at(static_cast<Rank>(place)));
  }
  return found;
}

Rank RelayTree::parent(Rank rank) const {
  return rank_at((place_of(rank) - 1) / fan_out_);
}

std::string pack_text(std::uint16_t port, std::string_view text) {
  return kText + MessageWriter().u32(port).raw(text).bytes();
}

std::optional<TextWord> read_text(std::string_view frame) {
  auto in = open(frame, kText);
  if (!in) return std::nullopt;
  const std::uint32_t port = in->u32();
  if (!in->good() || port > 0xffff) return std::nullopt;
  return TextWord{static_cast<std::uint16_t>(port), frame.substr(1 + sizeof port)};
}

std::string pack_packet(const std::vector<std::string>& texts,
                        const std::vector<std::string>& doors) {
  return kPacket + MessageWriter().text(pack_list(doors)).raw(pack_list(texts)).bytes();
}

bool is_packet(std::string_view frame) {
  return frame.starts_with(kPacket);
}

std::optional<std::vector<std::string>> read_texts(std::string_view packet, Rank size) {
  auto in = open(packet, kPacket);
  if (!in) return std::nullopt;
  const std::uint32_t doors = in->u32();
  in->raw(doors);
  if (!in->good()) return std::nullopt;
  return read_list(packet.substr(1 + sizeof doors + doors), size);
}

std::optional<std::vector<std::string>> read_doors(std::string_view packet, Rank size) {
  auto in = open(packet, kPacket);
  return in ? read_list(in->text(), size) : std::nullopt;
}

std::string pack_have(const std::vector<Rank>& unreached) {
  MessageWriter message;
  for (const Rank rank : unreached) message.rank(rank);
  return kHave + message.bytes();
}

std::optional<std::vector<Rank>> read_have(std::string_view frame, Rank size) {
  auto in = open(frame, kHave);
  if (!in || (frame.size() - 1) % sizeof(Rank) != 0) return std::nullopt;
  std::vector<Rank> ranks((frame.size() - 1) / sizeof(Rank));
  for (Rank& rank : ranks) {
    rank = in->rank();
    if (rank < 0 || rank >= size) return std::nullopt;
  }
  return ranks;
}

std::string pack_go() {
  return {kGo};
}

bool is_go(std::string_view frame) {
  return frame == pack_go();
}

}  // namespace coll
