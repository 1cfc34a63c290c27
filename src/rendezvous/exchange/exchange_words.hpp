// SPDX-License-Identifier: Apache-2.0
// The words of an exchange, as they cross the wire.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace coll {

// Each word is a frame:
//   rank -> hub   Text     its text, and the port of its door, where it waits for its relay (0: it
//                          hears from the hub, or has no door)
//   hub  -> rank  Packet   all texts and doors; a rank hands it on to those that it relays for
// and where there are relays:
//   rank -> hub   Have     it has the packet; these ranks it could not hand it to
//   hub  -> rank  Go       all ranks have it
// At any time:
//   hub  -> rank  Failure  what all ranks return (handshake.hpp)
// A relay and a rank at its door first prove to each other that they know the job, in the words of
// the meeting: the rank greets, the relay claims, the rank welcomes. Then the relay says Packet,
// and the rank Go: what has left a socket has not arrived.

inline constexpr std::size_t kTextLimit = std::size_t{1} << 20;
inline constexpr std::size_t kPacketLimit = std::size_t{1} << 28;

/// The tree along which a packet goes, `fan_out` ranks below each. Places count from the hub, 0,
/// down, level by level. Ranks of one host, often neighbours in number, come far apart in it: most
/// bytes leave the places next to the hub, which so share no network.
class RelayTree {
 public:
  RelayTree(Rank hub, Rank size, Rank fan_out);
  [[nodiscard]] Rank size() const { return size_; }
  [[nodiscard]] Rank fan_out() const { return fan_out_; }
  /// All hear from the hub: there are no relays.
  [[nodiscard]] bool is_star() const { return fan_out_ >= size_ - 1; }
  [[nodiscard]] Rank rank_at(Rank place) const;
  [[nodiscard]] std::vector<Rank> children(Rank rank) const;
  [[nodiscard]] Rank parent(Rank rank) const;  ///< not of the hub

 private:
  [[nodiscard]] Rank place_of(Rank rank) const;
  Rank hub_, size_, fan_out_;
  Rank stride_ = 1;  ///< between the ranks of neighbouring places
  Rank back_ = 1;    ///< stride * back = 1 modulo size
};

struct TextWord {
  std::uint16_t port = 0;
  std::string_view text;
};
std::string pack_text(std::uint16_t port, std::string_view text);
std::optional<TextWord> read_text(std::string_view frame);

/// Both by rank; `doors` may be empty. A door is "10.0.0.1:1234"; ":1234" on the hub's host, where
/// others than the ranks of that host dial too; "" where there is none.
std::string pack_packet(const std::vector<std::string>& texts,
                        const std::vector<std::string>& doors);
bool is_packet(std::string_view frame);
/// Nothing where there are not `size` of them, or where they make no sense.
std::optional<std::vector<std::string>> read_texts(std::string_view packet, Rank size);
std::optional<std::vector<std::string>> read_doors(std::string_view packet, Rank size);

std::string pack_have(const std::vector<Rank>& unreached);
std::optional<std::vector<Rank>> read_have(std::string_view frame, Rank size);

std::string pack_go();
bool is_go(std::string_view frame);

}  // namespace coll
