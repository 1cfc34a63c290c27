// SPDX-License-Identifier: Apache-2.0
// Memory for long messages that all connections of two processes share.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "sys/memory/memory_segment.hpp"
#include "sys/memory/peer_memory.hpp"
#include "sys/memory/shared_arena.hpp"
#include "transports/shm/shm_fifo.hpp"

namespace coll {

/// Memory of one large slot, in the arena of the sending process.
struct ShmBlock {
  std::byte* data = nullptr;
  SharedPlace place;  ///< where the receiver reads it
};

class ShmSlotPool;

/// The blocks of one connection, which its sender fills in place of its large slots. It keeps a
/// block for the next message until another owner's connection wants one. Connections of one owner
/// are lanes of the same calls: if they took each other's, each message would have to lock.
class ShmBlocks {
 public:
  /// `deck` says which slots are free, once `consumed` says which came back. Null: there is no room
  /// in the arena, or no memory. Throws nothing.
  static std::unique_ptr<ShmBlocks> join(std::shared_ptr<ShmSlotPool> pool, const void* owner,
                                         ShmSlotDeck& deck, const ShmConsumed& consumed,
                                         std::size_t slots);
  ShmBlocks(const ShmBlocks&) = delete;
  ShmBlocks& operator=(const ShmBlocks&) = delete;
  ~ShmBlocks();

  /// Before the deck is used for the next message. False while another thread takes blocks away:
  /// try again.
  bool hold() {
    std::uint8_t idle = kIdle;
    return held_ || (held_ = use_.compare_exchange_strong(idle, kHeld, std::memory_order_acquire,
                                                          std::memory_order_relaxed));
  }
  /// The message went.
  void release() {
    held_ = false;
    use_.store(kIdle, std::memory_order_release);
  }
  /// The block that stands for a slot. While held.
  const ShmBlock& of(std::uint32_t slot) {
    ShmBlock& block = blocks_[slot];
    if (block.data == nullptr) [[unlikely]]
      take(block);
    return block;
  }
  /// The connection ends. The peer may still have to read some blocks; `segment`, in which it
  /// counts, is kept until it has, or its process is gone. `peer_pid` is 0 where that is not known.
  void leave(MemorySegment segment, std::int64_t peer_pid);

 private:
  friend ShmSlotPool;
  static constexpr std::uint8_t kIdle = 0, kHeld = 1, kTaken = 2;

  ShmBlocks(const void* owner, ShmSlotDeck& deck, const ShmConsumed& consumed, std::size_t slots);
  void take(ShmBlock& block);
  /// Moves the blocks of slots that came back to `free`, unless the connection is being used.
  void give_back(std::vector<ShmBlock>& free);

  std::shared_ptr<ShmSlotPool> pool_;  ///< null: is in none
  const void* const owner_;
  ShmSlotDeck& deck_;
  const ShmConsumed& consumed_;
  bool held_ = false;
  std::size_t asked_ = 0;                 ///< for a block, so many times
  std::atomic<std::uint8_t> use_{kIdle};  ///< orders what the deck and the blocks are
  std::vector<ShmBlock> blocks_;          ///< by slot; some have no memory
  std::list<ShmBlocks*>::iterator self_;  ///< in the pool
};

/// What the connections to one peer process share: those of different communicators are seldom busy
/// at the same time. There are as many blocks as connections have slots, so none waits for another;
/// but only those that were ever used take memory.
class ShmSlotPool {
 public:
  struct Membership {
    std::shared_ptr<ShmSlotPool> pool;  ///< to be kept as long as the connection; null: none
    const void* owner = nullptr;
  };
  /// For a connection of `owner`, a transport, to the process of `peer`, with `large` slots. It
  /// shares nothing if `peer` proves nothing, or if slots are very long. The first one populates
  /// the begin of a block, `ready_bytes`: the first long message waits for no pages.
  static Membership join(const MemoryProof& peer, const ShmSlots& large, std::size_t ready_bytes,
                         const void* owner);

  explicit ShmSlotPool(std::size_t slot_bytes) : slot_bytes_(slot_bytes) {}

 private:
  friend ShmBlocks;
  /// Blocks of a connection that has ended, which its peer had not read then.
  struct Unread {
    MemorySegment segment;
    const ShmConsumed* consumed = nullptr;
    std::uint32_t end = 0;      ///< read once so many slots have come back
    std::int64_t peer_pid = 0;  ///< 0: not known
    std::vector<ShmBlock> blocks;

    [[nodiscard]] bool is_over() const;
  };

  /// New blocks; until they are used, they are addresses only. False: the arena has no room.
  bool make(std::size_t count, std::size_t ready_bytes = 0);
  /// There are blocks for all slots of all members, and of one more connection.
  [[nodiscard]] bool has_blocks_for(std::size_t slots) const;
  ShmBlock take(ShmBlocks& member);
  void collect_read();

  const std::size_t slot_bytes_;
  // Under the mutex of all pools. There is room for all blocks in `free_`, and for all members in
  // `unread_`: to give back cannot fail.
  std::vector<SharedArena::OwnedBlock> memory_;
  std::size_t made_ = 0;                ///< blocks, of that memory
  std::list<ShmBlocks*> members_;       ///< who took a block last is at the end, and asked first
  std::vector<ShmBlock> fresh_, free_;  ///< never used, given back
  std::vector<Unread> unread_;
};

}  // namespace coll
