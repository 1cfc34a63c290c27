// SPDX-License-Identifier: Apache-2.0
// The 128 bytes that tell where a hub listens.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "rendezvous/rendezvous.hpp"
#include "sys/net/listeners.hpp"

namespace coll {

/// Carried to the other ranks by any means (a file, a launcher's key-value store, the user's own
/// way), as bytes or as hexadecimal text. Holds a random nonce, so that whoever has not got it is a
/// stranger, and the routable addresses of the host (link-local ones mean nothing elsewhere;
/// loopback is implied for processes in the same network namespace of the same boot).
struct UniqueId {
  static constexpr std::size_t kBytes = 128;
  std::array<char, kBytes> bytes{};
  [[nodiscard]] std::string_view view() const { return {bytes.data(), bytes.size()}; }
};

inline constexpr std::size_t kUnusedIds = 128;

/// Listens, and makes the id. The calling process must become one of the ranks: the listener waits
/// in it until a rank of this process meets with the id, and that rank is the hub. `interfaces`
/// (COLL_INTERFACE) says where to listen and which addresses go into it; loopback is heard always.
/// A process keeps kUnusedIds unused ids (COLL_UNUSED_IDS_MAX): one more closes the oldest, with a
/// warning.
Result<UniqueId> make_unique_id(std::string_view interfaces);

/// The place that an id stands for, for whoever knows the secret too. A damaged id, or one of
/// another version, is refused.
Result<MeetingPlace> place_of(const UniqueId& id, std::string_view secret);

/// A listener with the id that leads to it.
struct Door {
  Listeners listeners;
  UniqueId id;
};
Result<Door> open_door(std::string_view interfaces);

/// The listener that this process has opened for the place of a unique id, once; empty if it is
/// another process's, or taken. (A child made by fork does not own its parent's.)
Listeners take_door(const MeetingPlace& place);

}  // namespace coll
