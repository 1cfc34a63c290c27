// SPDX-License-Identifier: Apache-2.0
// What lies between ranks, as the simulator sees it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace coll {

/// What one message from a rank to another meets.
struct Route {
  double alpha_us = 0;             ///< an empty message, from the end of its send to its arrival
  double send_us = 0;              ///< of the sender's processor, for each message
  double send_us_per_byte = 0;     ///< of the sender's processor
  double receive_us_per_byte = 0;  ///< of the receiver's, to copy or to combine it
  double inline_bytes = 0;         ///< up to which a message travels with its notice
  double line_bytes = 0;           ///< up to which it does so in one cache line
  double line_us = 0;              ///< that the second line comes later
  double long_us = 0;              ///< that a longer message costs the receiver more
  double page_bytes = 0;           ///< of such a one the first so many bytes cost both sides more,
  double page_us_per_byte = 0;     ///< by this: nothing has foreseen them
  /// One of so many bytes or more is lent: it costs the sender nothing for a byte, its receiver
  /// `lent_us` and for each byte `lent_us_per_byte`, and the sender's call ends when it has it.
  double lent_bytes = std::numeric_limits<double>::infinity();
  double lent_us = 0, lent_us_per_byte = 0;
  std::vector<std::uint32_t> links{};  ///< crossed, in order; a message streams through all at once

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

/// A call between GPUs that is cut into slices short enough to travel with their notice has a flag
/// beside every word, and takes so many times its bytes of a link: NCCL 2.18 plans its LL protocol
/// with a quarter of the link's bandwidth (src/graph/tuning.cc; a third for all_gather,
/// reduce_scatter and broadcast on one host; from 2.21 on a half).
inline constexpr double kFlaggedTimes = 4;

/// The machines under a set of ranks in the alpha-beta model (Hockney 1994), with what several
/// messages share: links, and the thread of a rank. A link carries one message at a time, in the
/// order in which they reach it; slices of different calls and lanes take turns so, as they would
/// share the link.
struct Network {
  struct Link {
    std::string name;
    double us_per_byte = 0;
    double message_us = 0;  ///< that a message occupies it besides its bytes
  };

  std::vector<Link> links;
  std::function<Route(Rank source, Rank target)> route;

  bool threads = true;  ///< a rank's lanes take turns on one thread; else run side by side (GPUs)
  /// By rank, the core that its thread runs on, counted from 0; empty: each has its own. Who has to
  /// wait offers the core to the next in turn, whether that one has work or not.
  std::vector<std::uint32_t> core;
  double hand_over_us = 0;      ///< from one rank of a core to the next
  double step_us = 0;           ///< what a step costs besides its bytes
  double copy_us_per_byte = 0;  ///< from one place of a rank to another
  /// A message that a lane sends to several peers is copied once if it has so many bytes for all of
  /// them together.
  double staged_bytes = std::numeric_limits<double>::infinity();
  double reduce_us_per_byte = 0;  ///< to combine, where receive_us_per_byte does not include it

  /// How long a message of a call in slices of `slice_bytes` occupies a link of its route.
  [[nodiscard]] double occupied_us(const Link& link, const Route& of, double slice_bytes,
                                   double bytes) const {
    const bool flagged = !threads && slice_bytes > 0 && slice_bytes <= of.inline_bytes;
    return link.message_us + (flagged ? kFlaggedTimes : 1) * bytes * link.us_per_byte;
  }
};

}  // namespace coll
