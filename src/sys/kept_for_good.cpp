// SPDX-License-Identifier: Apache-2.0
// Where things go that somebody may still use and nobody can say until when.
#include "sys/kept_for_good.hpp"

#include <mutex>
#include <utility>
#include <vector>

#include "sys/fork_safe_mutex.hpp"

namespace coll {
namespace {

ForkSafeMutex g_kept_mutex;                            // guards `g_kept`
std::vector<std::shared_ptr<void>>* g_kept = nullptr;  // stays for good

}  // namespace

void keep_for_good(std::shared_ptr<void> what) {
  const std::lock_guard lock(g_kept_mutex);
  if (g_kept == nullptr) g_kept = new std::vector<std::shared_ptr<void>>;
  g_kept->push_back(std::move(what));
}

}  // namespace coll
