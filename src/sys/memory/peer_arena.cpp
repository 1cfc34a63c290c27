// SPDX-License-Identifier: Apache-2.0
// Descriptors of other processes' arenas, one for all who have it.
#include "sys/memory/peer_arena.hpp"

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <utility>

#include "base/made_once.hpp"
#include "sys/fork_safe_mutex.hpp"

namespace coll {
namespace {

using ArenaFile = std::pair<dev_t, ino_t>;

ForkSafeMutex g_arenas_mutex;
std::map<ArenaFile, std::weak_ptr<const Fd>>& peer_arenas() {
  return made_once([] { return std::map<ArenaFile, std::weak_ptr<const Fd>>(); });
}

}  // namespace

std::shared_ptr<const Fd> keep_peer_arena(Fd arena) {
  auto mine = std::make_shared<const Fd>(std::move(arena));
  struct stat status {};
  if (::fstat(mine->get(), &status) != 0) return mine;
  const std::lock_guard lock(g_arenas_mutex);
  auto& all = peer_arenas();
  std::erase_if(all, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<const Fd>& known = all[{status.st_dev, status.st_ino}];
  if (auto there = known.lock()) return there;  // `mine` goes unlocked
  known = mine;
  return mine;
}

}  // namespace coll
