// SPDX-License-Identifier: Apache-2.0
// A hub's sockets to thousands of ranks, read and written without waiting for any of them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/frame_link.hpp"
#include "rendezvous/rendezvous.hpp"
#include "sys/clock.hpp"

namespace coll {

/// The hub's sockets to all ranks. Few are busy at a time: poll(2) over all of them for each frame
/// would cost more than the frames do.
class HubLinks {
 public:
  explicit HubLinks(Meeting& meeting);
  ~HubLinks();  ///< the meeting has its sockets back
  HubLinks(const HubLinks&) = delete;
  HubLinks& operator=(const HubLinks&) = delete;

  /// Fails where there is no way to wait for all these sockets.
  [[nodiscard]] Status begin() const;

  /// The rank's next frame shall be heard.
  void want(Rank rank);
  void send(Rank rank, std::shared_ptr<const std::string> frame);
  [[nodiscard]] bool sending(Rank rank) const { return links_[at(rank)].sending(); }
  /// Where others dial what listens on the rank's `port`, as `pack_packet` has it.
  [[nodiscard]] std::string door(Rank rank, std::uint16_t port) const;
  /// Ranks that have not taken all that was sent to them.
  [[nodiscard]] std::vector<Rank> sending() const;

  struct Heard {
    Rank rank = kNoRank;
    FrameLink::Got got = FrameLink::Got::nothing;
    std::string frame;
  };
  /// Sends, and hears what is wanted, and, once, that a rank's link was closed; empty when `until`
  /// has passed, or now and then before.
  Result<std::vector<Heard>> turn(Deadline until);

 private:
  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }

  /// Tells epoll what to wait for on the rank's link.
  void attend(Rank rank);

  Meeting& meeting_;
  Fd ready_;
  std::vector<FrameLink> links_;        ///< by rank; its own is empty
  std::vector<bool> wanted_;            ///< by rank
  std::vector<bool> gone_;              ///< by rank: its closed link has been reported
  std::vector<std::uint32_t> watched_;  ///< by rank: what epoll knows
  Status trouble_;
};

}  // namespace coll
