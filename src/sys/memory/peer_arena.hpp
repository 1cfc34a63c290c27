// SPDX-License-Identifier: Apache-2.0
// Descriptors of other processes' arenas, one for all who have it.
#pragma once
#include <memory>

#include "sys/fd.hpp"

namespace coll {

/// Every communicator is passed the arena of each peer. The process keeps one descriptor of an
/// arena: the first that it got. Returns that; it may be `arena`. Any thread may call it.
std::shared_ptr<const Fd> keep_peer_arena(Fd arena);

}  // namespace coll
