// SPDX-License-Identifier: Apache-2.0
// schedule/: what a rank does, as a value without bytes. This file: what lies between ranks, as the
// simulator sees it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace coll {

/// What one message from a rank to another meets.
struct Route {
  double alpha_us = 0;             ///< an empty message, from the end of its send to its arrival
  double send_us_per_byte = 0;     ///< of the sender's processor
  double receive_us_per_byte = 0;  ///< of the receiver's, to copy or to combine it
  std::vector<std::uint32_t> links{};  ///< crossed, in order; a message streams through all at once
};

/// The machines under a set of ranks in the alpha-beta model (Hockney 1994), with the things that
/// several messages share: links, and processors that ranks share. A link carries one message at a
/// time, in the order in which they reach it; slices of different calls and lanes take turns so,
/// as they would share the link.
struct Network {
  struct Link {
    std::string name;
    double us_per_byte = 0;
  };
  /// Ranks on a number of processors: each step takes the one that is free first.
  struct Processors {
    std::uint32_t count = 1;
    double hand_over_us = 0;  ///< when one goes from a rank to another
  };

  std::vector<Link> links;
  std::function<Route(Rank source, Rank target)> route;

  /// processors_of[r] is the group of rank r. Empty: the lanes of a rank run side by side and wait
  /// for no processor (GPUs).
  std::vector<std::uint32_t> processors_of;
  std::vector<Processors> processors;
  double step_us = 0;             ///< what a step costs besides its bytes
  double copy_us_per_byte = 0;    ///< from one place of a rank to another
  double reduce_us_per_byte = 0;  ///< to combine, where receive_us_per_byte does not include it
};

}  // namespace coll
