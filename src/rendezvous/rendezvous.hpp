// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator find each other.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "rendezvous/stores/key_value_store.hpp"
#include "sys/fd.hpp"

namespace coll {

/// Where and as whom to meet. `key` separates jobs that use the same place: whoever shows another
/// key is a stranger and is dropped without harm. The communicators that a job makes at one place
/// need no names: its ranks meet there for one after another (join_turn.hpp). Numbers would part a
/// rank whose try failed alone, or that was started anew, from the ranks that wait for it.
struct MeetingPlace {
  enum class Kind { unique_id, tcp, file, pmi, store, links } kind = Kind::tcp;
  std::vector<std::string>
      addresses;  ///< "10.0.0.1:1234", "[fe80::1%eth0]:1234", tried in parallel
  /// file: where the hub writes its addresses; pmi: which store (job_board.hpp); unique_id: its
  /// nonce; store: the key
  std::string path;
  KeyValueStore* program_store = nullptr;  ///< store: lives until the ranks have met
  /// links: sockets to the ranks (given_links.hpp)
  std::shared_ptr<std::vector<Fd>> links = {};
  std::string key;         ///< shared by all ranks of the job
  std::string interfaces;  ///< where to listen and what to publish, as the knob COLL_INTERFACE
  std::string source;      ///< for messages: "MASTER_ADDR, MASTER_PORT (torchrun)", "unique id"
  bool secret = false;     ///< tcp: the key has something in it that a stranger cannot guess
};

/// One rank's sockets after the meeting: a star. The hub (rank 0, or the rank whose process made
/// the unique id) holds one to every other rank; the others hold one, to the hub.
struct Meeting {
  Rank rank = kNoRank;
  Rank size = 0;
  Rank hub = 0;
  std::vector<Fd> links;          ///< hub: by rank, its own empty; others: exactly [hub]'s
  std::uint64_t job[2] = {0, 0};  ///< drawn by the hub at random, the communicator's secret name
  bool one_network = false;  ///< all ranks are in one network namespace of one host, and met there
  std::string interfaces;    ///< the place's
  [[nodiscard]] bool is_hub() const { return rank == hub; }
};

/// Meets the other ranks. Fails by the deadline with a message that lists who is missing (hub), or
/// what was tried at which address and why each failed (others). Who claims a rank that another
/// process holds, or another size, is refused with an error that names both, and the others meet
/// without it. Blocking; init only.
Result<Meeting> meet(const MeetingPlace& place, Rank rank, Rank size,
                     std::chrono::steady_clock::time_point deadline);

}  // namespace coll
