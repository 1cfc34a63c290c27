// SPDX-License-Identifier: Apache-2.0
// What two ranks tell each other before there is shared memory.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "sys/fd.hpp"
#include "sys/memory/peer_memory.hpp"
#include "transports/shm/shm_connection.hpp"
#include "transports/transport.hpp"

namespace coll {

/// Who this rank is to others of the same host, as published in the rendezvous.
struct ShmDescriptor {
  std::string boot;         ///< the running kernel: two ranks with the same one share memory
  std::string net_space;    ///< the network namespace, where abstract sockets have their names
  std::uint64_t user = 0;   ///< only processes of one user talk
  std::string socket_name;  ///< abstract

  static Result<ShmDescriptor> parse(std::string_view text);
  [[nodiscard]] std::string text() const;
  /// Could these two talk? Symmetric.
  [[nodiscard]] Status accepts(const ShmDescriptor& peer) const;
};

/// Where a transport listens.
struct ShmDoor {
  ShmDescriptor descriptor;
  Fd listener;

  /// A new one. Code::unsupported where the machine does not tell which ranks can reach it.
  static Result<ShmDoor> open();
};

/// How others reach the memory of a process, as it says itself; the arena is passed as well.
struct ShmMemory {
  MemoryProof proof;
  SharedPlace arena;  ///< nowhere: it can have none

  static ShmMemory of_this_process();
  /// To be passed; -1 for none.
  [[nodiscard]] int descriptor() const {
    return arena.segment != 0 ? static_cast<int>(arena.descriptor) : -1;
  }
};

/// The first packet, from the higher rank, with the segment's descriptor.
struct ShmHello {
  static constexpr std::uint64_t kMagic = 0x636f'6c6c'7368'6d0e;  // "collshm", wire version 14

  std::uint64_t magic = kMagic;
  std::uint64_t job[2] = {0, 0};
  std::int32_t from = kNoRank;
  std::int32_t to = kNoRank;
  std::uint32_t lane = 0;
  std::uint32_t credits = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t crowded = 0;  ///< ShmLayout::crowded of the segment; the listening end takes either
  ShmMemory memory;

  static ShmHello of(const TransportSpec& transport, const ConnectionSpec& connection);
  /// Is it a rank of this job that speaks to this one?
  [[nodiscard]] bool is_for(const TransportSpec& listener) const;
};

/// The second packet, the lower rank's verdict, with its own view of the connection.
struct ShmAnswer {
  enum Verdict : std::uint32_t { accepted, other_layout, no_memory };

  std::uint64_t magic = ShmHello::kMagic;
  std::uint32_t verdict = accepted;
  std::uint32_t credits = 0;
  std::uint64_t slot_bytes = 0;
  ShmMemory memory;
};

/// The failure of two ranks that open one connection with different slots or credits.
Status shm_other_layout(const ConnectionSpec& here, std::uint64_t slot_bytes,
                        std::uint32_t credits);

template <class Packet>
std::span<const std::byte> bytes_of(const Packet& packet) {
  return std::as_bytes(std::span(&packet, 1));
}
template <class Packet>
std::span<std::byte> room_of(Packet& packet) {
  return std::as_writable_bytes(std::span(&packet, 1));
}

}  // namespace coll
