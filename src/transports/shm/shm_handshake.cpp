// SPDX-License-Identifier: Apache-2.0
// What two ranks tell each other before there is shared memory.
#include "transports/shm/shm_handshake.hpp"

#include <unistd.h>

#include <charconv>
#include <vector>

#include "base/made_once.hpp"
#include "sys/memory/shared_arena.hpp"
#include "sys/net/unix_socket.hpp"
#include "sys/proof.hpp"
#include "sys/text_file.hpp"

namespace coll {
namespace {

constexpr std::string_view kVersion = "shm9";

Result<std::string> read_boot_id() {
  const std::string& id =
      made_once([] { return first_line_of("/proc/sys/kernel/random/boot_id"); });
  if (id.empty())
    return failed(Code::unsupported, "cannot read /proc/sys/kernel/random/boot_id",
                  "without it ranks of one host cannot recognise each other; mount /proc");
  return id;
}

/// 128 random bits: no two transports collide, and nobody guesses it.
Result<std::string> random_name() {
  COLL_ASSIGN(const std::string bits, random_bytes(16));
  return "coll-" + to_hex(bits);
}

}  // namespace

Result<ShmDoor> ShmDoor::open() {
  ShmDoor door;
  ShmDescriptor& descriptor = door.descriptor;
  COLL_ASSIGN(descriptor.boot, read_boot_id());
  COLL_ASSIGN(descriptor.socket_name, random_name());
  COLL_ASSIGN(door.listener, unix_listen(descriptor.socket_name));
  COLL_ASSIGN(descriptor.net_space, unix_network_of(door.listener));
  descriptor.user = ::geteuid();
  return door;
}

std::string ShmDescriptor::text() const {
  return std::string(kVersion) + " " + boot + " " + net_space + " " + std::to_string(user) + " " +
         socket_name;
}

Result<ShmDescriptor> ShmDescriptor::parse(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= text.size() && words.size() < 6;) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  ShmDescriptor descriptor;
  bool good = words.size() == 5 && words[0] == kVersion && words[4].size() <= 100;
  if (good) {
    const std::string_view user = words[3];
    const char* end = user.data() + user.size();
    good = !user.empty() && std::from_chars(user.data(), end, descriptor.user).ptr == end;
  }
  if (!good)
    return failed(Code::unreachable, "the peer does not describe a shm transport of this version",
                  "all ranks must load the same version of the library");
  descriptor.boot = words[1];
  descriptor.net_space = words[2];
  descriptor.socket_name = words[4];
  return descriptor;
}

Status ShmDescriptor::accepts(const ShmDescriptor& peer) const {
  if (boot != peer.boot) return failed(Code::unreachable, "the peer is on another host");
  if (user != peer.user)
    return failed(Code::unreachable,
                  "the peer runs as user " + std::to_string(peer.user) + ", this rank as " +
                      std::to_string(user),
                  "start all ranks as the same user");
  if (net_space != peer.net_space)
    return failed(Code::unreachable, "the peer is in another network namespace of this host",
                  "start the containers of one job with a common network namespace");
  return {};
}

ShmMemory ShmMemory::of_this_process() {
  ShmMemory memory{.proof = memory_proof(), .arena = {}};
  if (const auto arena = SharedArena::of_this_process(); arena.ok()) {
    memory.arena = (*arena)->place();
  }
  return memory;
}

ShmHello ShmHello::of(const TransportSpec& transport, const ConnectionSpec& connection) {
  ShmHello hello;
  hello.job[0] = transport.job[0];
  hello.job[1] = transport.job[1];
  hello.from = transport.rank;
  hello.to = connection.peer;
  hello.lane = connection.lane;
  hello.credits = connection.credits;
  hello.slot_bytes = connection.slot_bytes;
  hello.crowded = ShmLayout::of(connection).crowded ? 1 : 0;
  hello.memory = ShmMemory::of_this_process();
  return hello;
}

bool ShmHello::is_for(const TransportSpec& listener) const {
  return magic == kMagic && job[0] == listener.job[0] && job[1] == listener.job[1] &&
         to == listener.rank && from > to && from < listener.size;
}

Status shm_other_layout(const ConnectionSpec& here, std::uint64_t slot_bytes,
                        std::uint32_t credits) {
  return failed(Code::mismatch,
                "rank " + std::to_string(here.peer) + " opened lane " + std::to_string(here.lane) +
                    " with " + std::to_string(credits) + " slots of " + std::to_string(slot_bytes) +
                    " bytes, this rank with " + std::to_string(here.credits) + " of " +
                    std::to_string(here.slot_bytes),
                "set COLL_SLICE_BYTES and COLL_CREDITS the same on all ranks")
      .at_rank(here.peer);
}

}  // namespace coll
