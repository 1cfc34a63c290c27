// SPDX-License-Identifier: Apache-2.0
// The operations that a thread has put into its open group.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
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
  /// Ends a level. The end of the last level issues the operations, all or none of them, and waits
  /// for operations that block.
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
  /// Fails while the thread's open group has a call that `needs` what the function would take away
  /// or wait for.
  template <class Needs>
  static Status check_free(const char* function, Needs needs) {
    const OpenGroup* const group = of_thread();
    if (group == nullptr || std::ranges::none_of(group->calls_, needs)) return {};
    return failed(Code::invalid_usage,
                  std::string(function) +
                      ": this thread's open group, which has issued nothing yet, has operations "
                      "that need it",
                  "end the group first");
  }

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
