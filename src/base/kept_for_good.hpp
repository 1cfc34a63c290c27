// SPDX-License-Identifier: Apache-2.0
// Where things go that somebody may still use and nobody can say until when.
#pragma once
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace coll {

/// Never destroys it. Any thread.
inline void keep_for_good(std::shared_ptr<void> what) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::shared_ptr<void>>;  // outlives all threads
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(what));
}

}  // namespace coll
