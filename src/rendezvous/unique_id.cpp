// SPDX-License-Identifier: Apache-2.0
// Unique ids packed, unpacked, and kept until used.
#include "rendezvous/unique_id.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/made_once.hpp"
#include "rendezvous/control_message.hpp"
#include "sys/fork_safe_mutex.hpp"
#include "sys/net/net_interfaces.hpp"
#include "sys/proof.hpp"

namespace coll {
namespace {

constexpr std::string_view kIdMagic = "COID";
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kSumBytes = 4;

/// Tells machines apart and damage from health, no more.
std::uint64_t hash_of(std::string_view bytes) {
  return Fnv1a().text(bytes).value();
}

std::string sum_of(std::string_view id) {
  return MessageWriter()
      .u32(static_cast<std::uint32_t>(hash_of(id.substr(0, UniqueId::kBytes - kSumBytes))))
      .bytes();
}

bool is_routable(const NetAddress& address) {
  return !address.is_loopback() && !address.is_link_local();
}

UniqueId pack(std::string_view nonce, std::uint16_t port, std::vector<NetAddress> addresses) {
  // IPv4 first: shorter, so more fit.
  std::ranges::stable_sort(addresses, {}, [](const NetAddress& a) { return a.size(); });
  MessageWriter message;
  std::string packed;
  std::uint8_t count = 0;
  const std::size_t room = UniqueId::kBytes - kSumBytes - 32;
  for (const NetAddress& address : addresses) {
    if (!is_routable(address)) continue;
    if (packed.size() + 1 + address.size() > room) break;
    packed += static_cast<char>(address.size());
    packed.append(reinterpret_cast<const char*>(address.bytes()), address.size());
    ++count;
  }
  message.raw(kIdMagic)
      .u8(kVersion)
      .u8(count)
      .u8(static_cast<std::uint8_t>(port & 0xff))
      .u8(static_cast<std::uint8_t>(port >> 8));
  message.u64(network_number()).raw(nonce).raw(packed);
  UniqueId id;
  std::ranges::copy(message.bytes(), id.bytes.begin());
  std::ranges::copy(sum_of(id.view()), id.bytes.end() - kSumBytes);
  return id;
}

struct Kept {
  std::string nonce;
  Listeners listeners;
  pid_t owner;
};
/// The oldest first. Guarded by g_unused; a socket is closed when that is free again.
std::deque<Kept>& unused() {
  return made_once([] { return std::deque<Kept>(); });
}
ForkSafeMutex g_unused;

/// What leads to it must be heard: the addresses in the id, and loopback.
Result<Listeners> listen_for_id(std::string_view interfaces) {
  COLL_ASSIGN(std::vector<NetAddress> addresses, listening_addresses(interfaces));
  if (addresses.empty()) return Listeners::open({});
  std::erase_if(addresses, std::not_fn(is_routable));
  addresses.push_back(NetAddress::loopback(AF_INET));
  addresses.push_back(NetAddress::loopback(AF_INET6));
  return Listeners::open(addresses);
}

}  // namespace

Result<Door> open_door(std::string_view interfaces) {
  COLL_ASSIGN(const std::vector<InterfaceAddress> found, host_addresses(interfaces));
  COLL_ASSIGN(const std::string nonce, random_bytes(kNonceBytes));
  COLL_ASSIGN(Listeners listeners, listen_for_id(interfaces));
  std::vector<NetAddress> addresses;
  for (const InterfaceAddress& one : found) addresses.push_back(one.address);
  const UniqueId id = pack(nonce, listeners.port(), std::move(addresses));
  return Door{std::move(listeners), id};
}

Result<UniqueId> make_unique_id(std::string_view interfaces) {
  COLL_ASSIGN(Door door, open_door(interfaces));
  std::optional<Kept> oldest;
  {
    const std::lock_guard lock(g_unused);
    std::deque<Kept>& all = unused();
    all.push_back(
        {std::string(door.id.view().substr(16, kNonceBytes)), std::move(door.listeners), getpid()});
    if (all.size() > kUnusedIds) {
      oldest = std::move(all.front());
      all.pop_front();
    }
  }
  if (oldest) {
    log(LogLevel::warn, "no rank has used " + std::to_string(kUnusedIds) +
                            " unique ids of this process: closed the oldest, whose ranks will not "
                            "find each other; make an id where a communicator is made of it");
  }
  return door.id;
}

Result<MeetingPlace> place_of(const UniqueId& id, std::string_view secret) {
  const std::string_view bytes = id.view();
  const auto bad = [](const char* why) {
    return failed(Code::invalid_argument, std::string("the unique id ") + why,
                  "give every rank the 128 bytes that one rank's coll_get_unique_id made");
  };
  if (!bytes.starts_with(kIdMagic)) return bad("is none");
  if (bytes.substr(UniqueId::kBytes - kSumBytes) != sum_of(bytes)) return bad("is damaged");
  MessageReader message(bytes.substr(kIdMagic.size()));
  if (message.u8() != kVersion) return bad("was made by another version of the library");
  const std::uint8_t count = message.u8();
  const auto low = message.u8();
  const auto port = static_cast<std::uint16_t>(low | message.u8() << 8);
  const std::uint64_t network = message.u64();
  MeetingPlace place;
  place.kind = MeetingPlace::Kind::unique_id;
  place.source = "unique id";
  place.path = to_hex(message.raw(kNonceBytes));
  place.key = place.path + "/" + std::string(secret);
  if (network != 0 && network == network_number()) {
    place.addresses.push_back("127.0.0.1:" + std::to_string(port));
    place.addresses.push_back("[::1]:" + std::to_string(port));
  }
  for (int i = 0; i < count; ++i) {
    const std::size_t size = message.u8();
    if (size != 4 && size != 16) return bad("is damaged");
    const std::string_view address = message.raw(size);
    if (address.size() != size) return bad("is damaged");
    place.addresses.push_back(
        NetAddress::from_bytes(size == 4 ? AF_INET : AF_INET6,
                               reinterpret_cast<const std::uint8_t*>(address.data()), port)
            .text());
  }
  return place;
}

Listeners take_door(const MeetingPlace& place) {
  const std::string nonce = from_hex(place.path);
  std::optional<Kept> taken;
  {
    const std::lock_guard lock(g_unused);
    std::deque<Kept>& all = unused();
    const auto found = std::ranges::find(all, nonce, &Kept::nonce);
    if (found == all.end()) return {};
    taken = std::move(*found);
    all.erase(found);
  }
  return taken->owner == getpid() ? std::move(taken->listeners) : Listeners();
}

}  // namespace coll
