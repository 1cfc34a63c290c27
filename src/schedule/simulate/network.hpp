// SPDX-License-Identifier: Apache-2.0
// The network between ranks, as the simulator sees it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace coll {

/// The costs of one message from a rank to another. Members ending in _us are microseconds, in
/// _us_per_byte microseconds per byte, in _bytes bytes.
struct Route {
  double alpha_us = 0;  ///< latency of an empty message: from the end of its send to arrival
  double send_us = 0;   ///< the sender's processor, per message
  double send_us_per_byte = 0;     ///< the sender's processor
  double receive_us_per_byte = 0;  ///< the receiver's processor, to copy or to combine
  double inline_bytes = 0;         ///< the longest message that travels inside its cell
  double line_bytes = 0;           ///< the longest that fits in the first cache line of the cell
  double line_us = 0;              ///< extra latency of the second cache line
  double long_us = 0;              ///< extra time of the receiver if longer than inline_bytes
  double page_bytes = 0;           ///< the first bytes of such a message cost both sides more,
  double page_us_per_byte = 0;     ///< by this much, because no prefetcher has foreseen them
  /// Messages of at least this length are lent. A lent message costs its sender nothing per byte.
  /// It costs its receiver `lent_us`, and `lent_us_per_byte` per byte. The sender's call ends when
  /// the receiver has the message.
  double lent_bytes = std::numeric_limits<double>::infinity();
  double lent_us = 0, lent_us_per_byte = 0;
  /// The links that a message crosses, in order; it streams through all of them at once.
  std::vector<std::uint32_t> links{};

  [[nodiscard]] double crossing_us(double bytes) const {
    return alpha_us + (bytes > line_bytes && bytes <= inline_bytes ? line_us : 0);
  }
  [[nodiscard]] double sending_us(double bytes) const {
    return send_us + (bytes < lent_bytes ? bytes * send_us_per_byte + page_us(bytes) : 0);
  }
  [[nodiscard]] double receiving_us(double bytes) const {
    if (bytes >= lent_bytes) return lent_us + bytes * lent_us_per_byte;
    return (bytes > inline_bytes ? long_us : 0) + bytes * receive_us_per_byte + page_us(bytes);
  }

 private:
  [[nodiscard]] double page_us(double bytes) const {
    return bytes > inline_bytes ? std::min(bytes, page_bytes) * page_us_per_byte : 0;
  }
};

/// The machines under a set of ranks in the alpha-beta model (Hockney 1994), extended with what
/// several messages share: links, and the thread of a rank. A link carries one message at a time,
/// in order of arrival. So slices of different calls and lanes take turns, which models how they
/// share the link.
struct Network {
  struct Link {
    std::string name;
    double us_per_byte = 0;
    double message_us = 0;  ///< time that a message occupies the link besides its bytes
  };

  std::vector<Link> links;
  std::function<Route(Rank source, Rank target)> route;

  bool threads = true;  ///< a rank's lanes take turns on one thread; else they are parallel (GPUs)
  /// A lane copies what it sends: its next step begins when the message has crossed its links, as
  /// on the streams of a GPU. Else a message is on its way when its lane goes on.
  bool lanes_copy = false;
  /// The core of each rank's thread, counted from 0; empty: each rank has its own. A rank that has
  /// to wait offers the core to the next rank in turn, whether that one has work or not.
  std::vector<std::uint32_t> core;
  double hand_over_us = 0;      ///< changes the core from one rank to the next
  double step_us = 0;           ///< time of a step besides its bytes
  double copy_us_per_byte = 0;  ///< copies within a rank's memory
  /// A message that a lane sends to several peers is staged, that is, copied once, if its bytes for
  /// all of them together reach this many.
  double staged_bytes = std::numeric_limits<double>::infinity();
  /// In a call between GPUs whose slices are short enough to travel with their flags, every word
  /// has a flag beside it. Such a message occupies a link as this many times its bytes would.
  double flagged_times = 1;
  double reduce_us_per_byte = 0;  ///< combines, if receive_us_per_byte does not include that

  /// How many microseconds a message of `bytes`, in a call with slices of `slice_bytes`, occupies a
  /// link of its route.
  [[nodiscard]] double occupied_us(const Link& link, const Route& of, double slice_bytes,
                                   double bytes) const {
    const bool flagged = !threads && slice_bytes > 0 && slice_bytes <= of.inline_bytes;
    return link.message_us + (flagged ? flagged_times : 1) * bytes * link.us_per_byte;
  }
};

}  // namespace coll
