// SPDX-License-Identifier: Apache-2.0
// The operations that a thread has put into its open group.
#pragma once
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "communicator/call_group.hpp"

namespace coll {

/// From coll_group_start to the coll_group_end that belongs to it.
class OpenGroup {
 public:
  /// The calling thread's; null if none is open, which costs a call one load.
  static OpenGroup* of_thread() noexcept {
    return open_.load(std::memory_order_relaxed) == 0 ? nullptr : find();
  }
  /// Opens one, or one more level of the open one.
  static void start();
  /// Ends a level. With the last the operations are issued, all or none of them, and it waits for
  /// those that block.
  static Status end();
  /// Ends all levels and issues nothing.
  static Status cancel();

  OpenGroup(const OpenGroup&) = delete;
  OpenGroup& operator=(const OpenGroup&) = delete;
  ~OpenGroup();

  /// Hides the thread's open group from what the thread calls meanwhile: operations that others'
  /// ends give rise to.
  class Hidden {
   public:
    Hidden() : group_(std::exchange(place(), nullptr)) {}
    Hidden(const Hidden&) = delete;
    Hidden& operator=(const Hidden&) = delete;
    ~Hidden() { place() = std::move(group_); }

   private:
    std::unique_ptr<OpenGroup> group_;
  };

  /// Checks the call at the door and keeps it.
  Status add(GroupedCall call);
  /// An operation was refused: none of the group will be issued.
  void refuse(const Status& why) {
    if (refused_.ok()) refused_ = why;
  }
  [[nodiscard]] bool names(const Communicator& communicator) const;
  [[nodiscard]] bool names(const HostStream& stream) const;
  [[nodiscard]] bool names(const Work& work) const;

 private:
  OpenGroup();
  static OpenGroup* find() noexcept;
  static std::unique_ptr<OpenGroup>& place() noexcept;
  Status issue();
  [[nodiscard]] bool is_ours() const noexcept;
  void give_up(const Status& why) noexcept;

  static inline constinit std::atomic<int> open_{0};  ///< in the process
  const unsigned forks_;  ///< before it was opened: a child does not have its parent's
  int levels_ = 1;
  std::vector<GroupedCall> calls_;
  Status refused_;  ///< the first
};

}  // namespace coll
