// SPDX-License-Identifier: Apache-2.0
// Memory for long messages that all connections of two processes share.
#include "transports/shm/shm_slot_pool.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "base/made_once.hpp"
#include "sys/fork_safe_mutex.hpp"

namespace coll {
namespace {

/// Nobody shares longer slots: they would fill the arena.
constexpr std::size_t kLongestSlot = std::size_t{4} << 20;

struct PoolKey {
  std::uint64_t peer[2];
  std::size_t slot_bytes;

  friend auto operator<=>(const PoolKey&, const PoolKey&) = default;
};
struct Pools {
  pid_t owner = 0;
  std::map<PoolKey, std::shared_ptr<ShmSlotPool>> all;
  std::unique_ptr<Pools> parents;  ///< a forked child's, never used; kept for checkers of leaks
};

ForkSafeMutex g_pools_mutex;
/// A child made by fork begins without any: it cannot use its parent's arena.
Pools& pools() {
  Pools& pools = made_once([] { return Pools(); });
  if (pools.owner != ::getpid()) {
    auto parents = std::make_unique<Pools>(std::move(pools));
    pools = {.owner = ::getpid(), .all = {}, .parents = std::move(parents)};
  }
  return pools;
}

}  // namespace

ShmSlotPool::Membership ShmSlotPool::join(const MemoryProof& peer, std::size_t slot_bytes,
                                          const void* owner) {
  if ((peer.number[0] == 0 && peer.number[1] == 0) || slot_bytes > kLongestSlot) return {};
  std::vector<std::shared_ptr<ShmSlotPool>> ended;  // their memory goes unlocked
  const std::lock_guard lock(g_pools_mutex);
  auto& all = pools().all;
  std::erase_if(all, [&](auto& entry) {
    ShmSlotPool& pool = *entry.second;
    pool.collect_read();
    if (entry.second.use_count() > 1 || !pool.unread_.empty()) return false;
    ended.push_back(std::move(entry.second));
    return true;
  });
  const PoolKey key{{peer.number[0], peer.number[1]}, slot_bytes};
  auto known = all.find(key);
  if (known == all.end())
    known = all.emplace(key, std::make_shared<ShmSlotPool>(slot_bytes, owner)).first;
  return {.pool = known->second, .owner = owner, .shares = known->second->first_owner_ != owner};
}

bool ShmSlotPool::Unread::is_over() const {
  if (consumed->slots[1].load(std::memory_order_acquire) == end ||
      consumed->stopped.load(std::memory_order_acquire) != 0) {
    return true;
  }
  std::byte nothing{};
  return peer_pid != 0 && read_peer_memory(peer_pid, 0, &nothing, 1).code() == Code::peer_lost;
}

/// The blocks that peers have read by now are free.
void ShmSlotPool::collect_read() {
  std::erase_if(unread_, [&](Unread& unread) {
    if (!unread.is_over()) return false;
    std::ranges::move(unread.blocks, std::back_inserter(free_));
    return true;
  });
}

/// Until they are used, blocks are addresses only.
void ShmSlotPool::make(std::size_t count) {
  std::vector<ShmBlock> made;
  for (made.reserve(count); made.size() < count;) {
    ShmBlock block{SharedArena::own(slot_bytes_), {}};
    const auto place =
        block.memory ? SharedSegments::find(block.memory.get(), slot_bytes_) : std::nullopt;
    if (!place) break;
    block.place = *place;
    made.push_back(std::move(block));
  }
  std::vector<ShmBlock> room;
  room.reserve(made.size());
  const std::lock_guard lock(g_pools_mutex);
  if (std::exchange(is_made_, true)) return;  // `made` goes unlocked
  fresh_.swap(made);
  free_.swap(room);
}

ShmBlock ShmSlotPool::take(std::list<ShmBlocks*>::iterator member) {
  const std::lock_guard lock(g_pools_mutex);
  members_.splice(members_.end(), members_, member);
  if (free_.empty()) collect_read();
  for (auto other = members_.rbegin(); free_.empty() && other != members_.rend(); ++other) {
    if ((*other)->owner_ != (*member)->owner_) (*other)->give_back(free_);
  }
  // What was never used is new memory.
  std::vector<ShmBlock>& from = free_.empty() ? fresh_ : free_;
  if (from.empty()) return {};
  ShmBlock block = std::move(from.back());
  from.pop_back();
  return block;
}

ShmBlocks::ShmBlocks(std::shared_ptr<ShmSlotPool> pool, const void* owner, ShmSlotDeck& deck,
                     const ShmConsumed& consumed, std::size_t slots)
    : pool_(std::move(pool)), owner_(owner), deck_(deck), consumed_(consumed), blocks_(slots) {
  std::unique_lock lock(g_pools_mutex);
  if (!pool_->is_made_) {
    lock.unlock();
    pool_->make(2 * slots);  // two connections may be busy
    lock.lock();
  }
  pool_->unread_.reserve(pool_->unread_.size() + pool_->members_.size() + 1);
  self_ = pool_->members_.insert(pool_->members_.end(), this);
}

ShmBlocks::~ShmBlocks() {
  COLL_CHECK(!pool_, "a connection leaves the pool before it ends");
}

void ShmBlocks::take(ShmBlock& block) {
  block = pool_->take(self_);
  if (!block.memory) waits_ = kWaits;
}

void ShmBlocks::give_back(std::vector<ShmBlock>& free) {
  std::uint8_t idle = kIdle;
  if (!use_.compare_exchange_strong(idle, kTaken, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
    return;
  }
  if (deck_.take_back(consumed_.slots[1].load(std::memory_order_acquire))) {
    deck_.each_free([&](std::uint32_t slot) {
      if (blocks_[slot].memory) free.push_back(std::move(blocks_[slot]));
    });
  }
  use_.store(kIdle, std::memory_order_release);
}

void ShmBlocks::leave(MemorySegment segment, std::int64_t peer_pid) {
  const std::lock_guard lock(g_pools_mutex);
  ShmSlotPool& pool = *pool_;
  pool.members_.erase(self_);
  release();
  give_back(pool.free_);
  std::erase_if(blocks_, [](const ShmBlock& block) { return !block.memory; });
  if (!blocks_.empty()) {
    pool.unread_.push_back({.segment = std::move(segment),
                            .consumed = &consumed_,
                            .end = deck_.sent(),
                            .peer_pid = peer_pid,
                            .blocks = std::move(blocks_)});
  }
  pool_.reset();
}

}  // namespace coll
