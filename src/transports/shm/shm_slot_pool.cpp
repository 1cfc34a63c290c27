// SPDX-License-Identifier: Apache-2.0
// Memory for long messages that all connections of two processes share.
#include "transports/shm/shm_slot_pool.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <optional>
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

ShmSlotPool::Membership ShmSlotPool::join(const MemoryProof& peer, const ShmSlots& large,
                                          std::size_t ready_bytes, const void* owner) {
  if ((peer.number[0] == 0 && peer.number[1] == 0) || large.stride > kLongestSlot) return {};
  std::vector<std::shared_ptr<ShmSlotPool>> ended;  // their memory goes unlocked
  std::unique_lock lock(g_pools_mutex);
  auto& all = pools().all;
  std::erase_if(all, [&](auto& entry) {
    ShmSlotPool& pool = *entry.second;
    pool.collect_read();
    if (entry.second.use_count() > 1 || !pool.unread_.empty()) return false;
    ended.push_back(std::move(entry.second));
    return true;
  });
  const PoolKey key{{peer.number[0], peer.number[1]}, large.stride};
  if (const auto known = all.find(key); known != all.end())
    return {.pool = known->second, .owner = owner};
  const auto pool = all.emplace(key, std::make_shared<ShmSlotPool>(large.stride)).first->second;
  lock.unlock();
  try {
    if (ready_bytes > 0) pool->make(large.count, ready_bytes);
  } catch (const std::bad_alloc&) {
    // The first long message asks again.
  }
  return {.pool = pool, .owner = owner};
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

bool ShmSlotPool::make(std::size_t count, std::size_t ready_bytes) {
  const std::size_t bytes = count * slot_bytes_;
  SharedArena::OwnedBlock memory = SharedArena::own(bytes, ArenaUse::messages), other;
  if (!memory) return false;
  std::optional<SharedPlace> place = SharedSegments::find(memory.get(), bytes);
  if (!place) {  // it lies in two windows; the next free place mostly lies behind it, in one
    other = SharedArena::own(bytes, ArenaUse::messages);
    std::swap(memory, other);
    place = memory ? SharedSegments::find(memory.get(), bytes) : std::nullopt;
    if (!place) return false;
  }
  if (ready_bytes > 0) populate(memory.get(), std::min(ready_bytes, slot_bytes_));
  const std::lock_guard lock(g_pools_mutex);
  free_.reserve(made_ + count);
  fresh_.reserve(fresh_.size() + count);
  memory_.push_back(std::move(memory));
  made_ += count;
  // The first one is taken first.
  for (std::size_t i = count; i-- > 0;) {
    fresh_.push_back({memory_.back().get() + i * slot_bytes_, *place});
    fresh_.back().place.offset += i * slot_bytes_;
  }
  return true;
}

bool ShmSlotPool::has_blocks_for(std::size_t slots) const {
  for (const ShmBlocks* member : members_) slots += member->blocks_.size();
  for (const Unread& unread : unread_) slots += unread.blocks.size();
  return made_ >= slots;
}

/// Returns a block that others gave back, or takes one from an idle connection of another owner: a
/// new one would be more memory. A connection that has asked often is used in turn with others. If
/// it took blocks from them, and they from it, each message would lock.
ShmBlock ShmSlotPool::take(ShmBlocks& member) {
  const std::lock_guard lock(g_pools_mutex);
  members_.splice(members_.end(), members_, member.self_);
  if (free_.empty()) collect_read();
  if (++member.asked_ <= 2 * member.blocks_.size()) {
    for (auto other = members_.rbegin(); free_.empty() && other != members_.rend(); ++other) {
      if ((*other)->owner_ != member.owner_) (*other)->give_back(free_);
    }
  }
  // Connections hold a block for each of their slots at most, and this one has a slot without.
  std::vector<ShmBlock>& from = free_.empty() ? fresh_ : free_;
  COLL_CHECK(!from.empty(), "the pool has fewer blocks than its connections have slots");
  const ShmBlock block = from.back();
  from.pop_back();
  return block;
}

ShmBlocks::ShmBlocks(const void* owner, ShmSlotDeck& deck, const ShmConsumed& consumed,
                     std::size_t slots)
    : owner_(owner), deck_(deck), consumed_(consumed), blocks_(slots) {}

std::unique_ptr<ShmBlocks> ShmBlocks::join(std::shared_ptr<ShmSlotPool> pool, const void* owner,
                                           ShmSlotDeck& deck, const ShmConsumed& consumed,
                                           std::size_t slots) try {
  std::unique_ptr<ShmBlocks> blocks(new ShmBlocks(owner, deck, consumed, slots));
  std::unique_lock lock(g_pools_mutex);
  while (!pool->has_blocks_for(slots)) {
    lock.unlock();
    if (!pool->make(slots)) return nullptr;
    lock.lock();
  }
  pool->unread_.reserve(pool->unread_.size() + pool->members_.size() + 1);
  blocks->self_ = pool->members_.insert(pool->members_.end(), blocks.get());
  blocks->pool_ = std::move(pool);
  return blocks;
} catch (const std::bad_alloc&) {
  return nullptr;  // a call is under way, which can do without
}

ShmBlocks::~ShmBlocks() {
  COLL_CHECK(!pool_, "a connection leaves the pool before it ends");
}

void ShmBlocks::take(ShmBlock& block) {
  block = pool_->take(*this);
}

void ShmBlocks::give_back(std::vector<ShmBlock>& free) {
  std::uint8_t idle = kIdle;
  if (!use_.compare_exchange_strong(idle, kTaken, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
    return;
  }
  if (deck_.take_back(consumed_.slots[1].load(std::memory_order_acquire))) {
    deck_.each_free([&](std::uint32_t slot) {
      if (blocks_[slot].data != nullptr) free.push_back(std::exchange(blocks_[slot], {}));
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
  std::erase_if(blocks_, [](const ShmBlock& block) { return block.data == nullptr; });
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
